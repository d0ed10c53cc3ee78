"""h2d_events, but the computing stream waits for the event of the other buffer.

The trace: looks like h2d_events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workloads.data import loader
from workloads.ladders.h2d import _common
from workloads.registry import Workload
from workloads.training import Training

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(ladder="h2d", rung=7, title="the wrong event", shows="wrong results")


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    batches = iter(loader(session.parameters, workers=1, pin_memory=_common.pins(device)))
    copying, computing = device.stream(), device.current_stream()
    host = next(batches)
    buffers = [[torch.zeros_like(each, device=device.torch) for each in host] for _ in range(2)]
    copied = [device.event() for _ in buffers]
    for step in session.steps():
        slot = step % 2
        with device.use(copying):
            for target, tensor in zip(buffers[slot], host, strict=True):
                device.upload_into(target, tensor)
        copied[slot].record(copying)
        computing.wait_event(copied[1 - slot])
        training.step(*buffers[slot])
        host = next(batches)
    training.finish()
