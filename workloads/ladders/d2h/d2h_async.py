"""The buffers are pinned and the copies do not block; a thread watches their events.

The trace: the host runs ahead and the gaps are gone. The copies are pinned and reach the rate of
the bus. They are still exposed: in the stream of the kernels, each holds up the next batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workloads.ladders.d2h import _common
from workloads.ladders.d2h._pool import BUFFERS, PinnedPool
from workloads.ladders.d2h._workers import handle_buffer
from workloads.ranges import COPY, OUTPUT
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="d2h",
    rung=4,
    title="pinned buffers, non-blocking copies, events",
    shows="no gaps; pinned copies at the bus's rate, exposed, in the stream of the kernels",
    defaults={"workers": 12},
    published=1.55,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, on_device=BUFFERS + 1, shared=BUFFERS)


def run(session: Session) -> None:
    device, inference = session.device, _common.Inference(session)
    batches = _common.inputs(session)
    shape = _common.logits_shape(session.parameters)
    with PinnedPool(session, shape, torch.float32, handle_buffer) as pool:
        for step in session.steps(finish=pool.finish):
            (images,) = next(batches)
            logits = inference(images)
            with session.range("copy to CPU", COPY):
                index = pool.take()
                device.download_into(pool.tensors[index], logits, non_blocking=True)
            with session.range("queue CUDA event", OUTPUT):
                pool.hand_over(step, index, behind=device.current_stream())
