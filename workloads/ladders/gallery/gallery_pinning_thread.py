"""Another thread pins and unpins host memory.

The trace: launches that wait for a lock of the driver, which the thread that pins holds.
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
    rung=36,
    title="another thread pins and unpins host memory",
    shows="launches that wait, and a thread in cudaHostRegister",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["pinned_allocation"],
    "forbidden": ["host_work", "launch_bound", "slow_loader", "interpreter_lock"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    host = torch.rand(_common.values(session.parameters, 256))
    over = threading.Event()

    def pin() -> None:
        while not over.is_set():
            with _common.beta(session):
                device.pin(host)
                device.unpin(host)

    thread = threading.Thread(target=pin)
    thread.start()
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(1)
            device.synchronize()
    over.set()
    thread.join()
