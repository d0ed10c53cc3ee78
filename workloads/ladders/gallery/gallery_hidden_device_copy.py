"""Large copies within the device, in a stream beside the kernels.

The trace: copies from the device to itself, hidden by kernels: the suspect is innocent.
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
    rung=42,
    title="large copies within the device, beside kernels",
    shows="copies from the device to itself, hidden",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["device_copy", "unoverlapped_copy", "serial_streams", "queued_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    state = torch.rand(_common.values(session.parameters, 256), device=device.torch)
    kept = torch.empty_like(state)
    copying, computing = device.stream(), device.current_stream()
    for _ in _common.steps(session, work):
        with _common.gamma(session):
            # What the last step has left, while this one computes.
            copying.wait_stream(computing)
            with device.use(copying):
                for _ in range(6):
                    kept.copy_(state)
        with _common.alpha(session):
            work.run(8)
