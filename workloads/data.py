"""Synthetic images: seeded, so that every rung of a ladder sees the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workloads.device import Device
    from workloads.parameters import Parameters

CHANNELS = 3
CLASSES = 1000  # ImageNet's, which ResNet-18 is made for

# ImageNet's mean and standard deviation, of pixels between 0 and 1.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

_BLOCKS = 8

# Batches that a worker of a DataLoader makes ahead: torch's default, which the rings are made for.
PREFETCH = 2


def image(index: int, size: int, seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Image `index`: coloured blocks under noise.

    Returns:
        uint8, shape (3, size, size).
    """
    generator = np.random.Generator(np.random.SFC64([seed, index]))
    blocks = generator.integers(0, 192, (CHANNELS, _BLOCKS, 1, _BLOCKS), dtype=np.uint8)
    count = CHANNELS * size * size
    # Eight bytes a draw: several times faster than drawing them one by one.
    noise = generator.integers(0, 2**64, -(-count // 8), dtype=np.uint64).view(np.uint8)
    pixels: np.ndarray[Any, np.dtype[np.uint8]] = noise[:count].reshape(CHANNELS, size, size) // 4
    cell = -(-size // _BLOCKS)
    rows = blocks.repeat(cell, axis=3)[..., :size]
    for block in range(_BLOCKS):
        pixels[:, block * cell : (block + 1) * cell] += rows[:, block]
    return pixels


def label(index: int, seed: int) -> int:
    """The class of image `index`."""
    return int(np.random.Generator(np.random.SFC64([seed, index, 1])).integers(CLASSES))


def normalise(
    pixels: np.ndarray[Any, np.dtype[np.uint8]],
    out: np.ndarray[Any, np.dtype[np.float32]] | None = None,
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Pixels as the networks want them, on the host: float32, ImageNet's mean and deviation.

    Args:
        pixels: uint8, shape (3, H, W).
        out: Gets the values, and is returned; a new array if None.

    Returns:
        float32, the same shape.
    """
    values = np.empty(pixels.shape, np.float32) if out is None else out
    np.copyto(values, pixels)
    mean, scale = _constants()
    for channel in range(CHANNELS):  # a channel at a time stays in the cache
        values[channel] -= mean[channel]
        values[channel] *= scale[channel]
    return values


class Normaliser:
    """`normalise` for batches on a device.

    Two operations, each rounded as on the host, give the same bits as `normalise`.
    """

    def __init__(self, device: torch.device) -> None:
        self._mean, self._scale = (
            torch.from_numpy(values).to(device).view(1, CHANNELS, 1, 1) for values in _constants()
        )

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """From uint8 or float32 (N, 3, H, W) to float32 of the same shape."""
        return (pixels.float() - self._mean) * self._scale


def _constants() -> tuple[np.ndarray[Any, np.dtype[np.float32]], ...]:
    mean = np.array(MEAN, np.float64) * 255
    scale = 1 / (np.array(STD, np.float64) * 255)
    return mean.astype(np.float32), scale.astype(np.float32)


def batches_made(parameters: Parameters) -> int:
    """How many batches there are: more than steps.

    One more, since a loop that fetches the next batch beside each step would otherwise have nothing
    to fetch in the last one, which would then be cheaper than all others. As many more as workers
    make ahead, for the same reason: they are to be as busy beside the last step as beside the
    first. And those that `discard` throws away.
    """
    return parameters.total_steps + 1 + batches_ahead(parameters) + _discarded(parameters)


def batches_ahead(parameters: Parameters) -> int:
    """How many batches the workers of a DataLoader make ahead of the loop."""
    return max(1, parameters.workers) * PREFETCH


def batches_on_their_way(parameters: Parameters) -> int:
    """How many batches exist at a time where workers make them.

    The loop has one; the other is being pinned, or copied.
    """
    return batches_ahead(parameters) + 2


def discard(batches: Iterator[Any], parameters: Parameters) -> None:
    """Throw away what a DataLoader may have ready, and the first batch of a new round.

    A loader that is slower than the loop has nothing ready in the steady state. But it does go on
    while a profiler starts, for half a second, say, and a short recording would then show a loop
    that lives on stocks.

    Workers that begin together end together: the loop waits for the first batch of a round, and the
    others are there when it comes. With that first wait behind it, a recording of n rounds has n
    waits between its first and its last kernel; before them, one would lie in front of the first.
    """
    for _ in range(_discarded(parameters)):
        next(batches)


def _discarded(parameters: Parameters) -> int:
    return batches_ahead(parameters) + 1


class Images(torch.utils.data.Dataset):  # type: ignore[misc]  # torch is not there when types are checked
    """The images and labels of a run; a sample is made when it is asked for.

    Args:
        parameters: Of the run.
        raw: Leave the pixels uint8 instead of normalising them on the host.
    """

    def __init__(self, parameters: Parameters, *, raw: bool = False) -> None:
        self._size = parameters.image_size
        self._seed = parameters.seed
        self._length = parameters.batch_size * batches_made(parameters)
        self._raw = raw

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = image(index, self._size, self._seed)
        values = torch.from_numpy(pixels if self._raw else normalise(pixels))
        return values, label(index, self._seed)


def loader(
    parameters: Parameters, *, workers: int, pin_memory: bool = False, raw: bool = False
) -> torch.utils.data.DataLoader[Any]:
    """Batches of `Images` in order, made by `workers` processes, or in the loop if 0."""
    return torch.utils.data.DataLoader(
        Images(parameters, raw=raw),
        batch_size=parameters.batch_size,
        num_workers=workers,
        prefetch_factor=PREFETCH if workers else None,
        pin_memory=pin_memory,
    )


class Windows:
    """Batches that cost nothing to make: windows that slide over a fixed set of images.

    For workloads that are not about input. Consecutive batches differ, and so do batches that are
    any small number of steps apart, so that an output left over from an earlier step is noticed.

    Args:
        parameters: Of the run.
        device: Of the images: they lie in its memory, or pinned in the host's.
        on_device: Which of the two.
    """

    def __init__(self, parameters: Parameters, device: Device, *, on_device: bool) -> None:
        self._batch_size = parameters.batch_size
        self._positions = window_positions(parameters)
        images = np.stack(
            [
                normalise(image(index, parameters.image_size, parameters.seed))
                for index in range(window_images(parameters))
            ]
        )
        host = torch.from_numpy(images)
        self._images = device.upload(host) if on_device else device.pinned_copy(host)

    def __getitem__(self, step: int) -> torch.Tensor:
        # Coprime to every number of positions that is no multiple of 37, so that all are visited.
        start = step * 37 % self._positions
        return self._images[start : start + self._batch_size]


def window_positions(parameters: Parameters) -> int:
    """How many different batches `Windows` has."""
    return max(4 * parameters.batch_size, 32) + 1


def window_images(parameters: Parameters) -> int:
    """How many images `Windows` holds."""
    return window_positions(parameters) + parameters.batch_size - 1
