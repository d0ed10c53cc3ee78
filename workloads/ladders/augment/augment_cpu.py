"""The workers augment the images, one by one, on the host.

The trace: the device waits for the workers: gaps in "get batch" between short bursts of kernels,
where the feeding thread waits for a batch. More workers help as long as there are cores. What they
have made while the profiler started is thrown away first: it would last for a short recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.data import discard
from workloads.ladders.augment import _common
from workloads.ranges import COPY, GET_BATCH
from workloads.registry import Workload
from workloads.training import Training

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="augment",
    rung=1,
    title="augmentation in the loader's workers",
    shows="gaps in get batch: the workers do not keep up",
    defaults={"batch_size": 128, "image_size": 256},
    profile_steps=16,  # two rounds of the workers, who tend to end theirs together
    published=20.4,
    published_on="A10G",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, bytes_per_value=4)


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    batches = _common.batches(session, augmented=True)
    for _ in session.steps(begin=lambda: discard(batches, session.parameters)):
        with session.range("get batch", GET_BATCH):
            host_images, host_labels, _drawn = next(batches)
        with session.range("copy batch", COPY):
            images = device.upload(host_images, non_blocking=True)
            labels = device.upload(host_labels, non_blocking=True)
        training.step(images, labels)
    training.finish()
