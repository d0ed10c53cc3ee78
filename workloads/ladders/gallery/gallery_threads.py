"""A new thread for each few kernels.

The trace: gaps in which the profiler prepares for the new thread: without it they are shorter.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from workloads.ladders.gallery import _common
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=31,
    title="a new thread for each few kernels",
    shows="overhead of the profiler in each new thread",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound", "launch-bound", "compute-bound"],
    "findings": ["profiler_overhead"],
    "forbidden": ["held_up", "interpreter_lock", "slow_loader"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    vector = torch.zeros(_common.values(session.parameters, 256), device=session.device.torch)

    def launch() -> None:
        with _common.beta(session):
            for _ in range(4):
                vector.add_(1)

    for _ in _common.steps(session, work):
        with _common.alpha(session):
            for _ in range(4):
                thread = threading.Thread(target=launch)
                thread.start()
                thread.join()
                session.device.synchronize()
