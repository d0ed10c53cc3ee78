"""A value is read back after every small kernel.

The trace: many short gaps, each after a copy of four bytes that the thread waited for.
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
    rung=2,
    title="a value is read back after every small kernel",
    shows="short gaps, each behind a copy of four bytes",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["sync-bound"],
    "findings": ["read_back"],
    "forbidden": ["pageable_copy", "output_in_loop", "host_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    vector = torch.zeros(4096, device=session.device.torch)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            total = 0.0
            for _ in range(30):
                vector.add_(1)
                total += vector[0].item()
