"""Host memory pinned and unpinned in each step.

The trace: gaps in which the thread pins and unpins pages.
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
    rung=15,
    title="host memory pinned and unpinned in each step",
    shows="cudaHostRegister and cudaHostUnregister on the feeding thread",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["sync-bound"],
    "findings": ["pinned_allocation"],
    "forbidden": ["device_allocation", "pageable_copy", "fresh_host_memory"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    host = torch.rand(_common.values(session.parameters, 256))
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(1)
        with _common.beta(session):
            device.pin(host)
            device.unpin(host)
