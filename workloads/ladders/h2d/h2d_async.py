"""Batches in pinned memory, copied without blocking the host.

The trace: nothing is unmapped on the feeding thread any more. The copies are pinned, seven times
faster, and still exposed: they are in the stream of the kernels, which wait for them. And where the
loader's one pinning thread takes longer for a batch than the device, the loop waits for it in "get
batch". A recording that begins with batches that lie ready does not show that; so they are thrown
away first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.data import discard, loader
from workloads.ladders.h2d import _common
from workloads.ranges import COPY, GET_BATCH
from workloads.registry import Workload
from workloads.training import Training

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="h2d",
    rung=3,
    title="pinned memory, non-blocking copies",
    shows="waits for the pinning thread in get batch; pinned copies, exposed",
    profile_steps=24,  # three rounds of the workers, who tend to end theirs together
    published=5.91,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    workers = _common.require_workers(session.parameters)
    batches = iter(loader(session.parameters, workers=workers, pin_memory=_common.pins(device)))
    for _ in session.steps(begin=lambda: discard(batches, session.parameters)):
        with session.range("get batch", GET_BATCH):
            host_images, host_labels = next(batches)
        with session.range("copy batch", COPY):
            images = device.upload(host_images, non_blocking=True)
            labels = device.upload(host_labels, non_blocking=True)
        training.step(images, labels)
    training.finish()
