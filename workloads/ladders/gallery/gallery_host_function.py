"""A function of the host in the stream of the kernels.

The trace: gaps whose kernels were launched long before; no thread that launches explains them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.gallery import _common, _cudart
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=30,
    title="a function of the host in the stream of the kernels",
    shows="gaps that launched work waits through",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["launch-bound"],
    "findings": ["queued_work"],
    "forbidden": ["host_work", "launch_bound", "synchronisation", "serial_streams"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(1)
        with _common.beta(session):
            _cudart.sleep_in_stream(session, 5_000)
        with _common.gamma(session):
            work.run(1)
