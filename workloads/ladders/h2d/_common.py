"""What the rungs of the h2d ladder share: the memory they need, and when batches are pinned.

Each rung writes its own loop around `workloads.training.Training`. The arithmetic is the same in
all of them, and so are the samples and their order: losses, and weights after the last step, are
equal bit for bit, up to the rung that states a tolerance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.data import CHANNELS, batches_on_their_way
from workloads.needs import Needs

if TYPE_CHECKING:
    from workloads.device import Device
    from workloads.parameters import Parameters

# Bytes of device memory per pixel of a batch: activations and gradients of ResNet-18 in float32.
_BYTES_PER_PIXEL = 400


def needs(parameters: Parameters, *, workers: bool = True, bytes_per_value: int = 4) -> Needs:
    """Memory of a training run.

    Args:
        parameters: Of the run.
        workers: Whether worker processes make the batches.
        bytes_per_value: Of a pixel's channel, as it is copied.
    """
    pixels = parameters.batch_size * parameters.image_size**2
    batch = pixels * CHANNELS * bytes_per_value
    count = batches_on_their_way(parameters) if workers else 0
    return Needs(
        gpu=pixels * _BYTES_PER_PIXEL + 3 * batch + 500_000_000,
        shared=count * batch,
        why=f"{count} batches of {batch / 1e6:.0f} MB on their way" if workers else "",
    )


def require_workers(parameters: Parameters) -> int:
    """The number of workers of a rung that is about having some; at least one."""
    return max(1, parameters.workers)


def pins(device: Device) -> bool:
    """Whether the DataLoader is to pin its batches: where there is a GPU."""
    return bool(device.torch.type == "cuda")
