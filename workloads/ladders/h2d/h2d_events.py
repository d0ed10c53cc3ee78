"""Two device buffers, allocated once; each stream waits for an event of the other, not for all.

The trace: as h2d_streams, without an allocation in the loop. Waiting for an event orders the copy
behind the kernels that read the buffer, not behind whatever else is in the computing stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

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
    rung=7,
    title="double buffer, event-level waits",
    shows="copies beside the kernels into the same two buffers; compute fills the window",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    copying, computing = device.stream(), device.current_stream()
    with BatchPool(session, copying) as batches:
        host = next(batches)
        buffers = [
            [torch.empty_like(tensor, device=device.torch) for tensor in host] for _ in range(2)
        ]
        copied = [device.event() for _ in buffers]
        consumed = [device.event() for _ in buffers]

        def copy(step: int) -> None:
            slot = step % 2
            copying.wait_event(consumed[slot])
            with device.use(copying):
                for target, tensor in zip(buffers[slot], host, strict=True):
                    device.upload_into(target, tensor)
            copied[slot].record(copying)

        copy(0)
        for step in session.steps():
            slot = step % 2
            computing.wait_event(copied[slot])
            with session.range("get batch", GET_BATCH):
                host = next(batches)
            with session.range("copy batch", COPY):
                copy(step + 1)
            training.step(*buffers[slot])
            consumed[slot].record(computing)
    training.finish()
