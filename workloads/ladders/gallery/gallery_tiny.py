"""Tiny kernels, one launch for each.

The trace: the device is idle half of the time, in gaps of microseconds.
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
    rung=3,
    title="tiny kernels, one launch for each",
    shows="micro-gaps between kernels of a few microseconds",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["launch-bound"],
    "findings": ["launch_bound"],
    "forbidden": ["host_work", "input_in_loop", "synchronisation"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    vector = torch.zeros(4096, device=session.device.torch)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            for _ in range(80):
                vector.add_(1)
