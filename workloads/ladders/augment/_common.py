"""What the rungs of the augment ladder share: the augmentation, the data, the training step.

Every sample is cropped at random (by roi_align), rotated, blurred and normalised. What is random is
drawn on the host, from the seed and the sample's index, so that all rungs do the same to the same
sample; the two that compute on the device are equal bit for bit, and to the host's within rounding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torchvision  # noqa: F401  (registers roi_align)
from torch.nn import functional

from workloads.data import (
    CHANNELS,
    PREFETCH,
    Normaliser,
    batches_made,
    batches_on_their_way,
    image,
    label,
)
from workloads.needs import Needs
from workloads.ranges import AUGMENT

if TYPE_CHECKING:
    from workloads.parameters import Parameters
    from workloads.session import Session

# Bytes of device memory per pixel of a batch: the augmentation's floats, and ResNet-18's training.
_BYTES_PER_PIXEL = 500

_LARGEST_CUT = 0.3  # of the image, off each side
_LARGEST_ANGLE = math.radians(20)
_BLUR = 5  # taps of the blur, in each direction


def needs(parameters: Parameters, *, bytes_per_value: int) -> Needs:
    """Memory of a run; `bytes_per_value` is that of a pixel's channel as it is copied."""
    pixels = parameters.batch_size * parameters.image_size**2
    batches = batches_on_their_way(parameters)
    batch = CHANNELS * pixels * bytes_per_value
    return Needs(
        gpu=pixels * _BYTES_PER_PIXEL + 500_000_000,
        shared=batches * batch,
        why=f"{batches} batches of {batch / 1e6:.0f} MB on their way",
    )


def draw(index: int, parameters: Parameters) -> np.ndarray[Any, np.dtype[np.float32]]:
    """What is random about sample `index`.

    Returns:
        float32 (6,): the crop's left, top, right and bottom, in pixels, the sine and cosine of the
        rotation.
    """
    generator = np.random.Generator(np.random.SFC64([parameters.seed, index, 2]))
    left, top, right, bottom = generator.uniform(0, _LARGEST_CUT, 4) * parameters.image_size
    angle = generator.uniform(-_LARGEST_ANGLE, _LARGEST_ANGLE)
    size = parameters.image_size
    values = (left, top, size - right, size - bottom, math.sin(angle), math.cos(angle))
    return np.array(values, np.float32)


class Augmentation:
    """Crop, rotate, blur and normalise a batch, where the batch is.

    Args:
        device: Of the batches.
    """

    def __init__(self, device: torch.device) -> None:
        self._normalise = Normaliser(device)
        taps = torch.exp(-0.5 * (torch.arange(_BLUR) - _BLUR // 2) ** 2)
        taps /= taps.sum()
        self._rows = taps.view(1, 1, _BLUR, 1).repeat(CHANNELS, 1, 1, 1).to(device)
        self._columns = taps.view(1, 1, 1, _BLUR).repeat(CHANNELS, 1, 1, 1).to(device)

    def __call__(self, pixels: torch.Tensor, drawn: torch.Tensor) -> torch.Tensor:
        """Augment a batch.

        Args:
            pixels: uint8 (B, 3, S, S).
            drawn: float32 (B, 6), see `draw`.

        Returns:
            float32 (B, 3, S, S).
        """
        images = pixels.float()
        size = images.shape[-1]
        numbers = torch.arange(len(images), device=images.device, dtype=torch.float32)
        boxes = torch.cat([numbers[:, None], drawn[:, :4]], dim=1)
        # torchvision.ops.roi_align would take another way, by much more memory, when deterministic
        # algorithms are asked for; only the gradient of this one is not deterministic.
        images = torch.ops.torchvision.roi_align(images, boxes, 1.0, size, size, 1, True)
        sine, cosine = drawn[:, 4], drawn[:, 5]
        zero = torch.zeros_like(sine)
        rotation = torch.stack([cosine, -sine, zero, sine, cosine, zero], dim=1).view(-1, 2, 3)
        grid = functional.affine_grid(rotation, list(images.shape), align_corners=False)
        images = functional.grid_sample(
            images, grid, padding_mode="reflection", align_corners=False
        )
        half = _BLUR // 2
        images = functional.conv2d(images, self._rows, padding=(half, 0), groups=CHANNELS)
        images = functional.conv2d(images, self._columns, padding=(0, half), groups=CHANNELS)
        return self._normalise(images)


class Samples(torch.utils.data.Dataset):  # type: ignore[misc]
    """Images, labels and what is random about each sample.

    Args:
        parameters: Of the run.
        augmented: Whether the workers augment the images, or leave that to the device.
    """

    def __init__(self, parameters: Parameters, *, augmented: bool) -> None:
        self._parameters = parameters
        self._augmentation = Augmentation(torch.device("cpu")) if augmented else None

    def __len__(self) -> int:
        return self._parameters.batch_size * batches_made(self._parameters)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, torch.Tensor]:
        parameters = self._parameters
        pixels = torch.from_numpy(image(index, parameters.image_size, parameters.seed))
        drawn = torch.from_numpy(draw(index, parameters))
        if self._augmentation is not None:
            pixels = self._augmentation(pixels[None], drawn[None])[0]
        return pixels, label(index, parameters.seed), drawn


def augment(
    session: Session, augmentation: Augmentation, pixels: torch.Tensor, drawn: torch.Tensor
) -> torch.Tensor:
    """Augment a batch on the device, in the current stream, in a range of its own."""
    with session.range("augment", AUGMENT):
        return augmentation(pixels, drawn)


def batches(session: Session, *, augmented: bool) -> Any:
    """An iterator over the batches, made by worker processes, pinned where there is a GPU."""
    return iter(
        torch.utils.data.DataLoader(
            Samples(session.parameters, augmented=augmented),
            batch_size=session.parameters.batch_size,
            num_workers=max(1, session.parameters.workers),
            prefetch_factor=PREFETCH,
            pin_memory=session.device.torch.type == "cuda",
        )
    )
