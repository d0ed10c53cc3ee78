"""h2d_streams, but the computing stream does not wait for the copying one.

The trace: looks like h2d_streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.data import loader
from workloads.ladders.h2d import _common
from workloads.registry import Workload
from workloads.training import Training

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(ladder="h2d", rung=5, title="no wait_stream", shows="wrong results")


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    batches = iter(loader(session.parameters, workers=1, pin_memory=_common.pins(device)))
    copying = device.stream()
    for _ in session.steps():
        with device.use(copying):
            images, labels = (device.upload(each, non_blocking=True) for each in next(batches))
        training.step(images, labels)
    training.finish()
