"""Device memory released and allocated in each step.

The trace: gaps in which the thread is in cudaFree and cudaMalloc.
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
    rung=14,
    title="device memory released and allocated in each step",
    shows="cudaFree and cudaMalloc on the feeding thread",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["sync-bound"],
    "findings": ["device_allocation"],
    "forbidden": ["pinned_allocation", "launch_bound", "synchronisation"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(1)
        with _common.beta(session):
            for _ in range(4):
                held = torch.empty(
                    _common.values(session.parameters, 512), device=session.device.torch
                )
                del held
                if _common.on_cuda(session):
                    torch.cuda.empty_cache()
