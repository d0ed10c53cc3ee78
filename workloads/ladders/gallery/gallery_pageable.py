"""Input from pageable memory.

The trace: pageable copies to the device, exposed, and the thread inside their call.
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
    rung=6,
    title="input from pageable memory",
    shows="slow copies that the host waits for, exposed",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["copy-bound"],
    "findings": ["pageable_copy"],
    "forbidden": ["unoverlapped_copy", "synchronous_copy", "input_in_loop", "fresh_host_memory"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    host = torch.rand(_common.values(session.parameters, 128))
    for _ in _common.steps(session, work):
        with _common.beta(session):
            device.upload(host)
        with _common.alpha(session):
            work.run(2)
