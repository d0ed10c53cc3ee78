"""A copying stream that waits for the other, and is waited for.

The trace: copies in a stream of their own that begin when the kernels end.
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
    rung=9,
    title="a copying stream that waits for the other, and is waited for",
    shows="copies in a stream of their own, exposed all the same",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["copy-bound"],
    "findings": ["serial_streams"],
    "forbidden": ["pageable_copy", "unoverlapped_copy", "synchronous_copy"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    host = device.pinned_copy(torch.rand(_common.values(session.parameters, 256)))
    copying, computing = device.stream(), device.current_stream()
    target = torch.empty_like(host, device=device.torch)
    for _ in _common.steps(session, work):
        with _common.beta(session):
            copying.wait_stream(computing)
            with device.use(copying):
                device.upload_into(target, host)
            computing.wait_stream(copying)
        with _common.alpha(session):
            work.run(2)
