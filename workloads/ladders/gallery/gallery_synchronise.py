"""The loop waits for the device after every small kernel.

The trace: short gaps, each after a wait for the whole device, and no copies.
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
    rung=27,
    title="a wait for the device after every small kernel",
    shows="short gaps, each behind a synchronisation",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["sync-bound"],
    "findings": ["synchronisation"],
    "forbidden": ["read_back", "launch_bound", "host_work", "queued_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    vector = torch.zeros(_common.values(session.parameters, 64), device=session.device.torch)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            for _ in range(20):
                vector.add_(1)
                session.device.synchronize()
