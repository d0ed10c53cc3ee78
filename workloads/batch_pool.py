"""Batches that worker processes make in a pool of buffers, which are pinned once and used again.

With ``pin_memory=True`` a DataLoader has one thread that maps the shared memory in which a worker
sent a batch, copies it into pinned memory, and unmaps it: tens of milliseconds for 200 MB, the last
part of them with the interpreter's lock. Here the workers write where the device can read.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import torch
import torch.multiprocessing

from workloads.data import (
    CHANNELS,
    PREFETCH,
    batches_ahead,
    batches_made,
    batches_on_their_way,
    image,
    label,
    normalise,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from workloads.parameters import Parameters
    from workloads.session import Session


class BatchPool:
    """An iterator over the batches of a run, in order, each in a pinned buffer.

    Use as a context manager. A buffer goes round: a worker takes one that is free and fills it; the
    loop gets it, and copies it to the device; behind that copy it is free again.

    Args:
        session: Of the run.
        stream: The stream in which the loop copies. It has to call the copy of a batch before it
            asks for the next.
        raw: Leave the pixels uint8 instead of normalising them on the host.
    """

    def __init__(self, session: Session, stream: Any, *, raw: bool = False) -> None:
        parameters = session.parameters
        count = batches_on_their_way(parameters)
        self._most_in_use = count - batches_ahead(parameters)
        shape = (count, parameters.batch_size, CHANNELS, *(parameters.image_size,) * 2)
        self._device = session.device
        self._stream = stream
        self._images = torch.empty(
            shape, dtype=torch.uint8 if raw else torch.float32
        ).share_memory_()
        self._labels = torch.empty(shape[:2], dtype=torch.int64).share_memory_()
        self._free = torch.multiprocessing.SimpleQueue()
        for index in range(count):
            self._free.put(index)
        self._events = [self._device.event() for _ in range(count)]
        self._in_use: deque[int] = deque()
        self._filled: Iterator[int] | None = None
        self._loader = torch.utils.data.DataLoader(
            _Filler(parameters, self._images, self._labels, self._free),
            batch_size=parameters.batch_size,
            num_workers=max(1, parameters.workers),
            prefetch_factor=PREFETCH,
            collate_fn=int,  # what comes from a worker is the buffer's index, no samples
        )

    def __enter__(self) -> BatchPool:
        self._filled = iter(self._loader)
        for tensor in (self._images, self._labels):
            self._device.pin(tensor)
        return self

    def __iter__(self) -> BatchPool:
        return self

    def __next__(self) -> list[torch.Tensor]:
        """Images and labels of the next batch; waits for the copy of the one before the last."""
        if self._filled is None:
            raise RuntimeError("the pool has not been entered")
        if self._in_use:
            self._events[self._in_use[-1]].record(self._stream)
        while len(self._in_use) >= self._most_in_use:
            index = self._in_use.popleft()
            self._events[index].synchronize()
            self._free.put(index)
        index = next(self._filled)
        self._in_use.append(index)
        return [self._images[index], self._labels[index]]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._filled = None  # ends the workers
        self._device.synchronize()
        for tensor in (self._images, self._labels):
            self._device.unpin(tensor)


class _Filler(torch.utils.data.Dataset):  # type: ignore[misc]  # torch is not there when types are checked
    """The samples of a run; a batch of them is written into a free buffer."""

    def __init__(
        self, parameters: Parameters, images: torch.Tensor, labels: torch.Tensor, free: Any
    ) -> None:
        self._parameters = parameters
        self._images, self._labels, self._free = images, labels, free

    def __len__(self) -> int:
        return self._parameters.batch_size * batches_made(self._parameters)

    def __getitems__(self, samples: list[int]) -> int:
        """Fill a buffer with samples; its index."""
        size, seed = self._parameters.image_size, self._parameters.seed
        index: int = self._free.get()
        images, labels = self._images[index].numpy(), self._labels[index]
        for place, sample in enumerate(samples):
            pixels = image(sample, size, seed)
            if images.dtype == pixels.dtype:
                images[place] = pixels
            else:
                normalise(pixels, out=images[place])
            labels[place] = label(sample, seed)
        return index
