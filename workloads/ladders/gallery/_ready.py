"""A DataLoader whose worker has its batch ready: what it takes is the pinning alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch
import torch.utils.data

from workloads.ladders.gallery import _common

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session


def needs(parameters: Parameters, megabytes: int) -> Needs:
    """With the batch in shared memory."""
    shared = 4 * _common.values(parameters, megabytes)
    return dataclasses.replace(_common.needs(parameters), shared=shared)


class _Ready(torch.utils.data.Dataset):  # type: ignore[misc]  # torch may be missing
    """The same batch over and over: the worker puts it into shared memory once."""

    def __init__(self, values: int, count: int) -> None:
        self._batch, self._count = torch.rand(values), count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._batch


def batches(session: Session, megabytes: int) -> Iterator[torch.Tensor]:
    """Pinned batches, one per step, that one worker has ready.

    Args:
        session: Of the run.
        megabytes: Of a batch.
    """
    parameters = session.parameters
    samples = _Ready(_common.values(parameters, megabytes), parameters.total_steps)
    loader = torch.utils.data.DataLoader(
        samples, batch_size=None, num_workers=1, pin_memory=_common.on_cuda(session)
    )
    return iter(loader)
