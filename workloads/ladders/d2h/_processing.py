"""What happens to the logits on the host: the processing that the rungs move out of the loop.

Written in NumPy, so that it runs on the thread or process that calls it and nowhere else.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

if TYPE_CHECKING:
    from workloads.parameters import Parameters

_Logits: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]

CLASSES = 21

# Masks are stored by who receives them. The fastest level gives a third more bytes than zlib's
# default, in a quarter of its time.
_COMPRESSION = 1
# Rows that are processed at a time: their intermediate results stay in a core's own cache, which
# matters when a dozen processes share the memory's bandwidth.
_STRIP = 16
# The first class has the highest, the last has none.
_RANKS = np.arange(CLASSES - 1, -1, -1, dtype=np.uint8).reshape(CLASSES, 1, 1)
# Rows and columns of the logits that are kept for comparison.
_SAMPLED = 16


@dataclass(frozen=True)
class Results:
    """What is known of all batches at the end; shared memory that every process writes to.

    The last three are kept for comparison only, and have no rows otherwise.

    Args:
        confidence: Mean over the pixels of the probability of the most likely class; (steps, B).
        entropy: Mean over the pixels of the entropy of the classes, in nats; (steps, B).
        pixels: Pixels by class; (steps, B, CLASSES).
        stored: Bytes of the compressed mask; (steps, B).
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
                    ((steps, batch, CLASSES), torch.int64),
                    ((steps, batch), torch.int64),
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


def process_logits(
    logits: torch.Tensor, step: int, results: Results, first: int = 0
) -> torch.Tensor:
    """Class map, confidence and entropy of a batch, or of some of its images.

    Args:
        logits: float32 (N, CLASSES, H, W), on the host.
        step: Of the batch.
        results: Gets the confidence and entropy, and what is kept for comparison.
        first: Place of the first of the images in the batch.

    Returns:
        The class maps: uint8 (N, H, W). The logits are not needed any more.
    """
    batch = logits.numpy()
    count, _, height, width = batch.shape
    masks = np.zeros((count, height, width), np.uint8)
    scratch = _Scratch(min(_STRIP, height), width)
    pixels = height * width
    for number, (image, mask) in enumerate(zip(batch, masks, strict=True), start=first):
        entropy = confidence = 0.0
        for top in range(0, height, _STRIP):
            strip = image[:, top : top + _STRIP]
            best = scratch.classify(strip, mask[top : top + _STRIP])
            sums = scratch.score(strip, best)
            entropy += sums[0]
            confidence += sums[1]
        results.entropy[step, number] = entropy / pixels
        results.confidence[step, number] = confidence / pixels
    if len(results.checksum):
        for number, image in enumerate(batch, start=first):
            results.checksum[step, number] = zlib.crc32(image)
        every = _every(height)
        results.logits[step, first : first + count] = logits[:, :, ::every, ::every]
    return torch.from_numpy(masks)


class _Scratch:
    """Memory for the intermediate results of a strip of an image, used again for every strip.

    Args:
        rows: Of a strip, at most.
        width: Of the image.
    """

    def __init__(self, rows: int, width: int) -> None:
        self._best = np.empty((rows, width), np.float32)
        self._is_best = np.empty((CLASSES, rows, width), np.bool_)
        self._rank = np.empty((CLASSES, rows, width), np.uint8)
        self._shifted, self._power = np.empty((2, CLASSES, rows, width), np.float32)
        self._total, self._weighted = np.empty((2, rows, width), np.float32)

    def classify(self, strip: _Logits, mask: np.ndarray[Any, np.dtype[np.uint8]]) -> _Logits:
        """Write the most likely class of each pixel, the first of equals, the last for NaN.

        Args:
            strip: (CLASSES, rows, W).
            mask: Gets the classes: (rows, W).

        Returns:
            The logit of that class: (rows, W), valid until the next call.
        """
        rows = strip.shape[1]
        best, is_best, rank = self._best[:rows], self._is_best[:, :rows], self._rank[:, :rows]
        np.maximum.reduce(strip, axis=0, out=best)
        np.equal(strip, best, out=is_best)
        # A class has its rank where it is the best, else 0: faster than masked copies.
        np.multiply(is_best.view(np.uint8), _RANKS, out=rank)
        np.maximum.reduce(rank, axis=0, out=mask)
        np.subtract(np.uint8(CLASSES - 1), mask, out=mask)
        return best

    def score(self, strip: _Logits, best: _Logits) -> tuple[float, float]:
        """Sums over the pixels of the entropy and of the confidence.

        The softmax is exp(x - max) / total: its largest value is 1 / total, and its entropy
        log(total) - sum(exp(x - max) * (x - max)) / total.

        Args:
            strip: (CLASSES, rows, W).
            best: The largest of each pixel: (rows, W).
        """
        rows = strip.shape[1]
        shifted, power = self._shifted[:, :rows], self._power[:, :rows]
        total, weighted = self._total[:rows], self._weighted[:rows]
        np.subtract(strip, best, out=shifted)
        np.exp(shifted, out=power)
        np.add.reduce(power, axis=0, out=total)
        np.einsum("crw,crw->rw", power, shifted, out=weighted)
        np.divide(weighted, total, out=weighted)
        entropy = float(np.log(total).sum() - weighted.sum())
        return entropy, float(np.reciprocal(total).sum())


def process_classes(classes: torch.Tensor, step: int, results: Results, first: int = 0) -> None:
    """Count the pixels of each class, and compress the masks as a receiver would store them.

    Args:
        classes: uint8 (N, H, W), on the host.
        step: Of the batch.
        results: Gets the counts and sizes, and what is kept for comparison.
        first: Place of the first of the images in the batch.
    """
    for number, mask in enumerate(classes.numpy(), start=first):
        counts = np.bincount(mask.reshape(-1), minlength=CLASSES)
        results.pixels[step, number] = torch.from_numpy(counts)
        results.stored[step, number] = len(zlib.compress(mask, _COMPRESSION))
    if len(results.classes):
        results.classes[step, first : first + len(classes)] = classes


def _every(size: int) -> int:
    return max(1, size // _SAMPLED)
