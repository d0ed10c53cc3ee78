"""The same as h2d_streams, as an iterator around the loader; the loop is the baseline's again.

The trace: as h2d_streams. The win is in the code: any loop can be given such an iterator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workloads.data import loader
from workloads.ladders.h2d import _common
from workloads.ranges import COPY, GET_BATCH
from workloads.registry import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="h2d",
    rung=5,
    title="the same as a prefetching iterator",
    shows="copies beside the kernels; compute fills the window",
    published=6.44,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, workers=_common.require_workers(parameters))


class Prefetcher:
    """Iterates over batches on the device; the next one is always being copied.

    Args:
        batches: Of the host, in pinned memory.
        session: Of the run.
    """

    def __init__(self, batches: Iterator[Any], session: Session) -> None:
        self._batches = batches
        self._session = session
        self._device = session.device
        self._stream = self._device.stream()
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
                # Allocated in the copying stream, read in the computing one.
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


def run(session: Session) -> None:
    device, training = session.device, _common.Training(session)
    workers = _common.require_workers(session.parameters)
    batches = iter(loader(session.parameters, workers=workers, pin_memory=_common.pins(device)))
    prefetcher = Prefetcher(batches, session)
    for _ in session.steps():
        images, labels = next(prefetcher)
        training.step(images, labels)
    training.finish()
