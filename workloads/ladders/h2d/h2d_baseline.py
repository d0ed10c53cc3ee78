"""ResNet-18 training, as first written: data made in the loop, blocking copies.

The trace: the GPU is idle for most of every step, in one gap. The thread that should feed it is in
"get batch", in host code, making the batch. The copies are pageable and exposed.
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
    rung=1,
    title="data made in the loop, blocking copies",
    shows="one long gap per step: host code in get batch; pageable copies, exposed",
    published=2.97,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, workers=False)


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    batches = iter(loader(session.parameters, workers=0))
    for _ in session.steps():
        with session.range("get batch", GET_BATCH):
            images, labels = next(batches)
        with session.range("copy batch", COPY):
            images, labels = device.upload(images), device.upload(labels)
        training.step(images, labels)
    training.finish()
