"""h2d_streams, but a buffer is free as soon as it is handed out, before it has been copied.

The trace: looks like h2d_streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.batch_pool import BatchPool
from workloads.ladders.h2d import _common
from workloads.prefetch import Prefetcher
from workloads.registry import Workload
from workloads.training import Training

if TYPE_CHECKING:
    import torch

    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(ladder="h2d", rung=5, title="free before the copy", shows="wrong results")


class HastyPool(BatchPool):
    def __enter__(self) -> BatchPool:
        super().__enter__()
        for _ in range(self._most_in_use):  # so that the next to be filled is the one just freed
            self._free.get()
        return self

    def __next__(self) -> list[torch.Tensor]:
        assert self._filled is not None
        index = next(self._filled)
        self._free.put(index)
        return [self._images[index], self._labels[index]]


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    training, copying = Training(session), session.device.stream()
    with HastyPool(session, copying) as batches:
        prefetcher = Prefetcher(batches, session, copying)
        for _ in session.steps():
            training.step(*next(prefetcher))
    training.finish()
