"""A DataLoader whose worker takes its time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch
import torch.utils.data

from workloads.ladders.gallery import _common

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workloads.session import Session


class _Slow(torch.utils.data.Dataset):  # type: ignore[misc]  # torch may be missing
    """Samples that take a while."""

    def __init__(self, values: int, seconds: float, count: int) -> None:
        self._values, self._seconds, self._count = values, seconds, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self._seconds)
        return torch.full((self._values,), float(index))


def batches(session: Session, values: int, seconds: float) -> Iterator[torch.Tensor]:
    """Batches of one sample, one per step, made by one worker.

    Args:
        session: Of the run.
        values: Of a sample.
        seconds: That the worker takes for one.
    """
    samples = _Slow(values, seconds, session.parameters.total_steps)
    loader = torch.utils.data.DataLoader(
        samples, num_workers=1, pin_memory=_common.on_cuda(session)
    )
    return iter(loader)
