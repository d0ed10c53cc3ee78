"""The workers make the batches in buffers that are pinned once, and used again.

The pool is `workloads.batch_pool.BatchPool`.

The trace: nobody waits for a loader's thread, and nothing is unmapped. What is left are the copies,
pinned and exposed, in the stream of the kernels.
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
    rung=4,
    title="batches made in a pool of pinned buffers",
    shows="no wait for a pinning thread; pinned copies, exposed, in the stream of the kernels",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    with BatchPool(session, device.current_stream()) as batches:
        for _ in session.steps():
            with session.range("get batch", GET_BATCH):
                host_images, host_labels = next(batches)
            with session.range("copy batch", COPY):
                images = device.upload(host_images, non_blocking=True)
                labels = device.upload(host_labels, non_blocking=True)
            training.step(images, labels)
    training.finish()
