"""Pinned input in the stream of the kernels.

The trace: pinned copies, exposed; the thread runs ahead.
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
    rung=8,
    title="pinned input in the stream of the kernels",
    shows="fast copies, exposed, and no gaps",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["copy-bound"],
    "findings": ["unoverlapped_copy"],
    "forbidden": ["pageable_copy", "synchronous_copy", "serial_streams"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    host = device.pinned_copy(torch.rand(_common.values(session.parameters, 256)))
    for _ in _common.steps(session, work):
        with _common.beta(session):
            device.upload(host, non_blocking=True)
        with _common.alpha(session):
            work.run(2)
