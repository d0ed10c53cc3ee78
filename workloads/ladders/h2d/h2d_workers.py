"""The batches are made by worker processes; copies still block.

The trace: most of the idle time is gone. What is left, in "copy batch" on the feeding thread, is
the munmap of the shared memory in which the batch came: it is freed when the name `images` is
given to the copy. The copies are pageable and exposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.data import loader
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
    rung=2,
    title="data made by worker processes",
    shows="short gaps, munmap in copy batch on the feeding thread; pageable copies, exposed",
    published=4.81,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    workers = _common.require_workers(session.parameters)
    batches = iter(loader(session.parameters, workers=workers))
    for _ in session.steps():
        with session.range("get batch", GET_BATCH):
            images, labels = next(batches)
        with session.range("copy batch", COPY):
            images, labels = device.upload(images), device.upload(labels)
        training.step(images, labels)
    training.finish()
