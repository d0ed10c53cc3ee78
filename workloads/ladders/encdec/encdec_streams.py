"""The encoder works on the next batch beside the decoder's training on this one.

The trace: kernels of two streams lie beside each other, where one of them leaves room.
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
    rung=2,
    title="encoder of the next batch in a stream of its own",
    shows="kernels of the two streams beside each other",
    # The allocator needs some dozen steps until it has blocks enough for both streams.
    defaults={"batch_size": 64, "image_size": 256, "warmup": 50},
    profile_steps=30,
    published=91,
    published_on="A10G",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, networks = session.device, _common.AutoEncoder(session)
    decoding, encoding = device.current_stream(), device.stream()

    encoding.wait_stream(decoding)  # the images and weights were uploaded there
    next_images = networks.images(0)
    with device.use(encoding):
        next_features = networks.encode(next_images)

    for step in session.steps():
        # The features that were computed during the last step are this step's.
        decoding.wait_stream(encoding)
        images, features = next_images, next_features
        # Allocated in the encoding stream, read in the decoding one.
        device.keep_alive(features, decoding)
        next_images = networks.images(step + 1)
        with device.use(encoding):
            next_features = networks.encode(next_images)
        networks.decode(features, images)
    networks.finish()
