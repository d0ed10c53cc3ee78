"""d2h_streams, but a buffer is handed to the processes before its copy is done.

The trace: looks better than d2h_streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from workloads.ladders.d2h import _common
from workloads.ladders.d2h._pool import BUFFERS, PinnedPool
from workloads.ladders.d2h._workers import handle_buffer
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(ladder="d2h", rung=5, title="reads before the event", shows="wrong results")


class ImpatientPool(PinnedPool):
    def hand_over(self, step: int, index: int, *, behind: Any) -> None:  # noqa: ARG002
        for part in self._buffers.parts(step, index):
            self._processes.put(part)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, on_device=BUFFERS + 1, shared=BUFFERS)


def run(session: Session) -> None:
    device, inference = session.device, _common.Inference(session)
    batches = _common.inputs(session)
    computing, copying = device.current_stream(), device.stream()
    shape = _common.logits_shape(session.parameters)
    with ImpatientPool(session, shape, torch.float32, handle_buffer) as pool:
        for step in session.steps(finish=pool.finish):
            (images,) = next(batches)
            logits = inference(images)
            index = pool.take()
            copying.wait_stream(computing)
            with device.use(copying):
                device.download_into(pool.tensors[index], logits, non_blocking=True)
            device.keep_alive(logits, copying)
            pool.hand_over(step, index, behind=copying)
