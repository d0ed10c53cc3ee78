"""The batch is computed in slices; the copy of one lies beside the kernels of the next.

Each slice is half of what is left, so that the last one is small and the others are not.

The trace: as d2h_streams, and of the last batch's copy only the last slice is exposed. A result is
on the host sooner by most of a copy, too. The price are kernels for smaller batches, which fill the
device a little less.

Another batch size may make cuDNN choose other kernels, whose sums round differently: the logits are
equal within the tolerance below.
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
    rung=6,
    title="computed and copied in slices of the batch",
    shows="copies beside the kernels within a batch too; a last slice is all that is exposed",
    defaults={"workers": 12},
    # TF32 keeps 10 bits; near ties between classes fall the other way.
    tolerance={
        "logits": 2e-2,
        "classes": 1e-2,
        "pixels": None,
        "stored": None,
        "confidence": 1e-2,
        "entropy": 1e-2,
        "checksum": None,
    },
)

# Of the batch, the last slice.
_LAST = 1 / 8


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, on_device=BUFFERS + 1, shared=BUFFERS)


def slices(batch_size: int) -> list[int]:
    """Images in each slice of a batch: 32, 16, 8 and 8 of 64."""
    sizes, left = [], batch_size
    while left > max(1, batch_size * _LAST):
        sizes.append(-(-left // 2))
        left -= sizes[-1]
    return [*sizes, left]


def run(session: Session) -> None:
    device, inference = session.device, _common.Inference(session)
    batches = _common.inputs(session)
    sizes = slices(session.parameters.batch_size)
    computing, copying = device.current_stream(), device.stream()
    shape = _common.logits_shape(session.parameters)
    with PinnedPool(session, shape, torch.float32, handle_buffer) as pool:
        for step in session.steps(finish=pool.finish):
            (images,) = next(batches)
            index = pool.take()
            targets = pool.tensors[index].split(sizes)
            for part, target in zip(images.split(sizes), targets, strict=True):
                logits = inference(part)
                with session.range("copy to CPU", COPY):
                    copying.wait_stream(computing)
                    with device.use(copying):
                        device.download_into(target, logits, non_blocking=True)
                    device.keep_alive(logits, copying)
            with session.range("queue CUDA event", OUTPUT):
                pool.hand_over(step, index, behind=copying)
