"""Tiny kernels beside large ones.

The trace: tiny kernels with gaps between them, in a stream beside one that has none.
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
    rung=35,
    title="tiny kernels beside large ones",
    shows="micro-gaps in one stream, and none in the other",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["launch_bound", "host_work", "synchronisation"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    vector = torch.zeros(4096, device=device.torch)
    beside = device.stream()
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(4)
        with _common.beta(session), device.use(beside):
            for _ in range(40):
                vector.add_(1)
