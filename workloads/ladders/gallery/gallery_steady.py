"""Large kernels and nothing else.

The trace: compute fills the window; nothing else happens.
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
    rung=1,
    title="large kernels and nothing else",
    shows="compute fills the window",
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["launch_bound", "host_work", "synchronisation"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(4)
