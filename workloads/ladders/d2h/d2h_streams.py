"""The copies get a stream of their own: one batch is copied while the next is computed.

The trace: the copies lie beside the kernels. What is left of them is the last batch's, which has no
kernels to lie beside: with three steps recorded, 6 % of the window.
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
    rung=5,
    title="copies in a stream of their own",
    shows="copies beside the kernels; the last batch's copy is all that is exposed",
    defaults={"workers": 12},
    published=1.85,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, on_device=BUFFERS + 1, shared=BUFFERS)


def run(session: Session) -> None:
    device, inference = session.device, _common.Inference(session)
    batches = _common.inputs(session)
    computing, copying = device.current_stream(), device.stream()
    shape = _common.logits_shape(session.parameters)
    with PinnedPool(session, shape, torch.float32, handle_buffer) as pool:
        for step in session.steps(finish=pool.finish):
            (images,) = next(batches)
            logits = inference(images)
            with session.range("copy to CPU", COPY):
                index = pool.take()
                copying.wait_stream(computing)
                with device.use(copying):
                    device.download_into(pool.tensors[index], logits, non_blocking=True)
                # Allocated in the computing stream, which would reuse the memory too early.
                device.keep_alive(logits, copying)
            with session.range("queue CUDA event", OUTPUT):
                pool.hand_over(step, index, behind=copying)
