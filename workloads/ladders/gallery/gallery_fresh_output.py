"""Output into new memory in each step.

The trace: copies to the host at the speed of page faults.
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
    rung=12,
    title="output into new memory in each step",
    shows="copies at a gigabyte per second",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["copy-bound", "host-bound"],
    "findings": ["fresh_host_memory"],
    "forbidden": ["unoverlapped_copy", "synchronous_copy", "input_in_loop"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    result = torch.zeros(_common.values(session.parameters, 64), device=session.device.torch)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(2)
        with _common.beta(session):
            result.cpu()
