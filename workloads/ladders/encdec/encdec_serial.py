"""The encoder, then the decoder, one batch at a time, in one stream.

The trace: no copies and no long gaps; the device is busy. But most kernels are too small to fill
it, and that does not show as idle time: this ladder is about what the partition cannot see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.encdec import _common
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="encdec",
    rung=1,
    title="encoder and decoder in turn, in one stream",
    shows="kernels one after the other, many of them too small to fill the device",
    # The allocator needs some dozen steps until it has blocks enough for both streams.
    defaults={"batch_size": 64, "image_size": 256, "warmup": 50},
    profile_steps=30,
    published=83,
    published_on="A10G",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    networks = _common.AutoEncoder(session)
    for step in session.steps():
        images = networks.images(step)
        features = networks.encode(images)
        networks.decode(features, images)
    networks.finish()
