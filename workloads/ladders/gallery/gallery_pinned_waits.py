"""Pinned input, waited for.

The trace: pinned copies to the device, exposed; the thread synchronises behind each.
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
    rung=7,
    title="pinned input, waited for",
    shows="fast copies, exposed, and a wait behind each",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["copy-bound"],
    "findings": ["synchronous_copy"],
    "forbidden": ["pageable_copy", "unoverlapped_copy", "input_in_loop"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    host = device.pinned_copy(torch.rand(_common.values(session.parameters, 256)))
    for _ in _common.steps(session, work):
        with _common.beta(session):
            device.upload(host)
        with _common.alpha(session):
            work.run(2)
