"""Large copies both ways, all hidden.

The trace: many copies, each beside kernels: the suspect is innocent.
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
    rung=11,
    title="large copies both ways, all hidden",
    shows="copies of both directions beside kernels",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["unoverlapped_copy", "serial_streams", "synchronous_copy", "pageable_copy"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    host = device.pinned_copy(torch.rand(_common.values(session.parameters, 128)))
    back = device.pinned_copy(torch.empty_like(host))
    up, down = device.stream(), device.stream()
    results = torch.zeros_like(host, device=device.torch)
    inputs = [torch.zeros_like(results) for _ in range(2)]
    for step in _common.steps(session, work):
        with _common.alpha(session):
            work.run(6)
        with _common.beta(session):
            with device.use(up):
                device.upload_into(inputs[step % 2], host)
            with device.use(down):
                device.download_into(back, results, non_blocking=True)
