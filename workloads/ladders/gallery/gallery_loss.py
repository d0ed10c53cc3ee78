"""A value is read back once per step, behind long kernels.

The trace: a wait and a copy of four bytes in each step, and hardly a gap: the suspect is innocent.
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
    rung=28,
    title="a value read back once, behind long kernels",
    shows="a wait per step, and hardly a gap",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["read_back", "synchronisation", "launch_bound", "host_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    total = 0.0
    loss = torch.zeros((), device=session.device.torch)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(8)
            loss.add_(1)
        with _common.gamma(session):
            total += loss.item()
