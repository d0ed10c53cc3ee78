"""Large copies within the device, in the stream of the kernels.

The trace: copies from the device to itself, exposed, and no gaps.
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
    rung=41,
    title="large copies within the device",
    shows="copies from the device to itself, exposed",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["copy-bound"],
    "findings": ["device_copy"],
    "forbidden": ["unoverlapped_copy", "serial_streams", "bandwidth", "launch_bound", "host_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    state = torch.rand(_common.values(session.parameters, 256), device=session.device.torch)
    kept = torch.empty_like(state)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(1)
        with _common.gamma(session):
            for _ in range(8):
                kept.copy_(state)
