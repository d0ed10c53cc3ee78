"""A little host code in each of three places.

The trace: three gaps per step, some 2 % each in a range of its own: no one is worth a finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.gallery import _common
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=43,
    title="a little host code in each of three places",
    shows="a gap between long kernels in each of three ranges",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["small_losses"],
    "forbidden": ["host_work", "synchronisation", "launch_bound", "output_in_loop"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)

    def part() -> None:
        work.run(10)
        session.device.synchronize()
        _common.spin(1.4)

    for _ in _common.steps(session, work):
        with _common.alpha(session):
            part()
        with _common.beta(session):
            part()
        with _common.gamma(session):
            part()
