"""A worker that is too slow.

The trace: one gap per step: the thread waits for the batch.
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
    rung=21,
    title="a worker that is too slow",
    shows="waits for the worker in each step",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["slow_loader"],
    "forbidden": ["input_in_loop", "host_work", "pageable_copy", "fresh_host_memory"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work, parameters = _common.Work(session), session.parameters
    batches = _loader.batches(session, _common.values(parameters, 1), 0.04)
    for _ in _common.steps(session, work):
        with _common.beta(session):
            host = next(batches)
        with _common.alpha(session):
            session.device.upload(host, non_blocking=True)
            work.run(2)
