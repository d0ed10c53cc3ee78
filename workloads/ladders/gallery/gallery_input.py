"""Input made by the loop.

The trace: one gap per step: host code until the copy to the device.
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
    rung=23,
    title="input made by the loop",
    shows="host code before each copy to the device",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["input_in_loop"],
    "forbidden": ["output_in_loop", "slow_loader", "pageable_copy", "host_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    host = device.pinned_copy(torch.zeros(_common.values(session.parameters, 4)))
    for _ in _common.steps(session, work):
        with _common.gamma(session):
            _common.spin(20)
        with _common.alpha(session):
            device.upload(host, non_blocking=True)
            work.run(2)
            session.device.synchronize()
