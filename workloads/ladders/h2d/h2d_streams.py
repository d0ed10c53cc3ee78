"""The next batch is copied in a stream of its own while this one is computed on.

The trace: the copies lie beside the kernels, overlap is above 90 %, and compute fills the window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.batch_pool import BatchPool
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
    rung=5,
    title="copies in a stream of their own",
    shows="copies beside the kernels; compute fills the window",
    published=6.44,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    copying, computing = device.stream(), device.current_stream()
    with BatchPool(session, copying) as batches:
        host_images, host_labels = next(batches)
        with device.use(copying):
            next_images = device.upload(host_images, non_blocking=True)
            next_labels = device.upload(host_labels, non_blocking=True)

        for _ in session.steps():
            # The batch that was copied during the last step is this step's, once that is done.
            computing.wait_stream(copying)
            images, labels = next_images, next_labels
            # They were allocated in the copying stream, which may reuse their memory when they are
            # freed; it must not before the computing stream has read them.
            device.keep_alive(images, computing)
            device.keep_alive(labels, computing)
            with session.range("get batch", GET_BATCH):
                host_images, host_labels = next(batches)
            with session.range("copy batch", COPY), device.use(copying):
                next_images = device.upload(host_images, non_blocking=True)
                next_labels = device.upload(host_labels, non_blocking=True)
            training.step(images, labels)
    training.finish()
