"""A slow worker that keeps up.

The trace: the worker sleeps for longer than it works, and is in time: the suspect is innocent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.gallery import _common, _loader
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=22,
    title="a slow worker that keeps up",
    shows="no gaps, and a worker that sleeps most of the time",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["slow_loader", "input_in_loop", "host_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work, parameters = _common.Work(session), session.parameters
    batches = _loader.batches(session, _common.values(parameters, 1), 0.005)
    for _ in _common.steps(session, work):
        with _common.beta(session):
            host = next(batches)
        with _common.alpha(session):
            session.device.upload(host, non_blocking=True)
            work.run(8)
