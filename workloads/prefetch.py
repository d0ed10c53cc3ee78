"""An iterator that copies the next batch while the program computes on this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workloads.ranges import COPY, GET_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    from workloads.session import Session


class Prefetcher:
    """Iterates over batches on the device; the next one is always being copied.

    Args:
        batches: Of the host: tensors in pinned memory.
        session: Of the run.
        stream: That the copies are to go to.
    """

    def __init__(
        self, batches: Iterable[Iterable[torch.Tensor]], session: Session, stream: Any
    ) -> None:
        self._batches = iter(batches)
        self._session = session
        self._device = session.device
        self._stream = stream
        self._next: list[torch.Tensor] | None = None
        self._preload()

    def __iter__(self) -> Prefetcher:
        return self

    def __next__(self) -> list[torch.Tensor]:
        with self._session.range("get batch", GET_BATCH):
            if self._next is None:
                raise StopIteration
            computing = self._device.current_stream()
            computing.wait_stream(self._stream)
            batch = self._next
            for tensor in batch:
                # Allocated in the copying stream, which may reuse the memory when the tensor is
                # freed; it must not before the computing stream has read it.
                self._device.keep_alive(tensor, computing)
            self._preload()
        return batch

    def _preload(self) -> None:
        host = next(self._batches, None)
        if host is None:
            self._next = None
            return
        with self._session.range("copy batch", COPY), self._device.use(self._stream):
            self._next = [self._device.upload(tensor, non_blocking=True) for tensor in host]
