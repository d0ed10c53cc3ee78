"""Output processed by the loop.

The trace: one gap per step: host code behind the copy to the host.
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
    rung=24,
    title="output processed by the loop",
    shows="host code behind each copy to the host",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["output_in_loop"],
    "forbidden": ["input_in_loop", "slow_loader", "pageable_copy", "host_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    result = torch.zeros(_common.values(session.parameters, 4), device=device.torch)
    host = device.pinned_copy(torch.empty(result.shape))
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(2)
            device.download_into(host, result)
        with _common.gamma(session):
            _common.spin(20)
