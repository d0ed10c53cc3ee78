"""Pageable input that the queue hides.

The trace: pageable copies beside kernels that were launched before: the suspect is innocent.
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
    rung=10,
    title="pageable input that the queue hides",
    shows="slow copies beside kernels",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["pageable_copy", "fresh_host_memory", "unoverlapped_copy"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    host = torch.rand(_common.values(session.parameters, 16))
    copying = device.stream()
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(8)
        with _common.beta(session), device.use(copying):
            device.upload(host)
