"""What happens to the logits on the host: the processing that the rungs move out of the loop.

Written in NumPy, so that it runs on the thread or process that calls it and nowhere else.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from workloads.parameters import Parameters

CLASSES = 21

# Masks are stored by who receives them; they are small and flat, and compress well.
_COMPRESSION = 6
# Rows that are processed at a time: their intermediate results stay in a core's own cache, which
# matters when a dozen processes share the memory's bandwidth.
_STRIP = 32
# Rows and columns of the logits that are kept for comparison.
_SAMPLED = 16


@dataclass(frozen=True)
class Results:
    """What is known of all batches at the end; shared memory that every process writes to.

    The last three are kept for comparison only, and have no rows otherwise.

    Args:
        confidence: Mean over the pixels of the probability of the most likely class; (steps, B).
        entropy: Mean over the pixels of the entropy of the classes, in nats; (steps, B).
        pixels: Pixels by class; (steps, CLASSES).
        stored: Bytes of the compressed masks; (steps,).
        classes: The most likely class of every pixel; (steps, B, H, W).
        checksum: CRC-32 of the logits of every image; (steps, B).
        logits: A grid of the logits; (steps, B, CLASSES, rows, columns).
    """

    confidence: torch.Tensor
    entropy: torch.Tensor
    pixels: torch.Tensor
    stored: torch.Tensor
    classes: torch.Tensor
    checksum: torch.Tensor
    logits: torch.Tensor

    @classmethod
    def empty(cls, parameters: Parameters, *, compare: bool) -> Results:
        """Results without content for a run, in shared memory."""
        steps, batch, size = parameters.total_steps, parameters.batch_size, parameters.image_size
        kept = steps if compare else 0
        grid = len(range(0, size, _every(size)))
        return cls(
            *(
                torch.zeros(shape, dtype=dtype).share_memory_()
                for shape, dtype in (
                    ((steps, batch), torch.float32),
                    ((steps, batch), torch.float32),
                    ((steps, CLASSES), torch.int64),
                    ((steps,), torch.int64),
                    ((kept, batch, size, size), torch.uint8),
                    ((kept, batch), torch.int64),
                    ((kept, batch, CLASSES, grid, grid), torch.float32),
                )
            )
        )

    def put_into(self, outputs: Any) -> None:
        """Hand all that has content to `workloads.session.Outputs`."""
        for field in fields(self):
            value = getattr(self, field.name)
            if len(value):
                outputs.put(field.name, value)


def process_logits(logits: torch.Tensor, step: int, results: Results) -> torch.Tensor:
    """Class map, confidence and entropy of a batch.

    Args:
        logits: float32 (B, CLASSES, H, W), on the host.
        step: Of the batch.
        results: Gets the confidence and entropy, and what is kept for comparison.

    Returns:
        The class maps: uint8 (B, H, W). The logits are not needed any more.
    """
    batch = logits.numpy()
    count, _, height, width = batch.shape
    masks = np.zeros((count, height, width), np.uint8)
    rows = min(_STRIP, height)
    buffers = np.empty((5, rows, width), np.float32)
    better = np.empty((rows, width), np.bool_)
    for number, (image, mask) in enumerate(zip(batch, masks, strict=True)):
        entropy = confidence = 0.0
        for top in range(0, height, rows):
            strip = image[:, top : top + rows]
            lines = strip.shape[1]
            sums = _process_strip(strip, mask[top : top + rows], buffers[:, :lines], better[:lines])
            entropy += sums[0]
            confidence += sums[1]
        results.entropy[step, number] = entropy / (height * width)
        results.confidence[step, number] = confidence / (height * width)
    if len(results.checksum):
        for number, image in enumerate(batch):
            results.checksum[step, number] = zlib.crc32(image)
        every = _every(height)
        results.logits[step] = logits[:, :, ::every, ::every]
    return torch.from_numpy(masks)


def _process_strip(
    strip: np.ndarray[Any, np.dtype[np.float32]],
    mask: np.ndarray[Any, np.dtype[np.uint8]],
    buffers: np.ndarray[Any, np.dtype[np.float32]],
    better: np.ndarray[Any, np.dtype[np.bool_]],
) -> tuple[float, float]:
    """Classes of some rows of an image, written to `mask`.

    Args:
        strip: Logits: (CLASSES, rows, W).
        mask: Zeros: (rows, W).
        buffers: Scratch space: (5, rows, W).
        better: Scratch space: (rows, W).

    Returns:
        Sums over the pixels of the entropy and of the confidence.
    """
    best, shifted, power, total, weighted = buffers
    np.copyto(best, strip[0])
    for label in range(1, len(strip)):
        np.greater(strip[label], best, out=better)
        np.maximum(strip[label], best, out=best)
        np.copyto(mask, label, where=better)
    # The softmax is exp(x - max) / total: its largest value is 1 / total, and its entropy
    # log(total) - sum(exp(x - max) * (x - max)) / total.
    total.fill(0)
    weighted.fill(0)
    for logits in strip:
        np.subtract(logits, best, out=shifted)
        np.exp(shifted, out=power)
        np.add(total, power, out=total)
        np.multiply(power, shifted, out=power)
        np.add(weighted, power, out=weighted)
    np.divide(weighted, total, out=weighted)
    entropy = float(np.log(total).sum() - weighted.sum())
    return entropy, float(np.reciprocal(total).sum())


def process_classes(classes: torch.Tensor, step: int, results: Results) -> None:
    """Count the pixels of each class, and compress the masks as a receiver would store them.

    Args:
        classes: uint8 (B, H, W), on the host.
        step: Of the batch.
        results: Gets the counts and sizes, and what is kept for comparison.
    """
    masks = classes.numpy()
    counts = sum(np.bincount(mask.reshape(-1), minlength=CLASSES) for mask in masks)
    results.pixels[step] = torch.from_numpy(np.asarray(counts))
    results.stored[step] = sum(len(zlib.compress(mask, _COMPRESSION)) for mask in masks)
    if len(results.classes):
        results.classes[step] = classes


def _every(size: int) -> int:
    return max(1, size // _SAMPLED)
