"""A value is copied into pageable memory after every small kernel.

The trace: short gaps, each after an asynchronous copy of four bytes, which waited all the same.
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
    rung=29,
    title="a value into pageable memory after every small kernel",
    shows="short gaps, each behind a copy of four bytes",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["sync-bound", "launch-bound"],
    "findings": ["read_back"],
    "forbidden": ["pageable_copy", "fresh_host_memory", "output_in_loop", "host_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    vector = torch.zeros(4096, device=session.device.torch)
    host = torch.zeros(1)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            for _ in range(30):
                vector.add_(1)
                host.copy_(vector[:1], non_blocking=True)  # pageable: waited for all the same
