"""Beyond hiding the copies: a quarter of the bytes, and cheaper arithmetic.

The images cross the bus as they are, one byte a value, and are normalised on the device; the
network runs in bfloat16 with channels last. On the host nothing is converted to float either, so
the workers have less to do.

The trace: copies of a quarter of the size beside kernels that take well under half the time; no
layout conversions (nchwToNhwc) between them. The normalised images are the baseline's bit for bit;
the losses differ by the rounding of bfloat16, within the tolerance below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workloads.batch_pool import BatchPool
from workloads.data import Normaliser
from workloads.ladders.h2d import _common
from workloads.prefetch import Prefetcher
from workloads.registry import Workload
from workloads.training import Training

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="h2d",
    rung=8,
    title="uint8 over the bus, bfloat16, channels last",
    shows="small copies beside short kernels; no layout conversions",
    profile_steps=12,
    # bfloat16 has 8 bits of precision; the losses drift apart as the weights do.
    tolerance={"loss": 2e-2, "weights": None},
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, bytes_per_value=1)


def run(session: Session) -> None:
    device = session.device
    normalise = Normaliser(device.torch)

    def prepare(images: torch.Tensor) -> torch.Tensor:
        return normalise(images.contiguous(memory_format=torch.channels_last))

    training = Training(
        session, prepare=prepare, precision=torch.bfloat16, layout=torch.channels_last
    )
    copying = device.stream()
    with BatchPool(session, copying, raw=True) as batches:
        prefetcher = Prefetcher(batches, session, copying)
        for _ in session.steps():
            images, labels = next(prefetcher)
            training.step(images, labels)
    training.finish()
