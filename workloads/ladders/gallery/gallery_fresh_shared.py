"""New shared memory in each step.

The trace: long gaps: shared memory is made, filled and unmapped by the thread that launches.
"""

from __future__ import annotations

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
    rung=13,
    title="new shared memory in each step",
    shows="posix_fallocate and munmap on the feeding thread",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["fresh_host_memory"],
    "forbidden": ["slow_loader", "interpreter_lock", "unoverlapped_copy"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    host = torch.rand(_common.values(session.parameters, 64))
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(1)
            session.device.synchronize()
        with _common.gamma(session):
            shared = torch.empty_like(host).share_memory_()
            shared.copy_(host)
            del shared
