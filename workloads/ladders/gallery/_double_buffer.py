"""Input for two buffers on the device: one is filled while kernels read the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workloads.ladders.gallery import _common

if TYPE_CHECKING:
    from workloads.session import Session


class DoubleBuffer:
    """Pinned input, copied in a stream of its own.

    Args:
        session: Of the run.
        megabytes: Of a batch.
    """

    def __init__(self, session: Session, megabytes: int) -> None:
        self._device = session.device
        self._host = self._device.pinned_copy(
            torch.rand(_common.values(session.parameters, megabytes))
        )
        self._buffers = [torch.zeros_like(self._host, device=self._device.torch) for _ in range(2)]
        self._read = [self._device.event() for _ in range(2)]
        self._copying, self._computing = self._device.stream(), self._device.current_stream()

    def fill(self, step: int) -> None:
        """Copy a batch when its buffer has been read; kernels launched later wait for it."""
        self._copying.wait_event(self._read[step % 2])
        with self._device.use(self._copying):
            self._device.upload_into(self._buffers[step % 2], self._host)
        self._computing.wait_stream(self._copying)

    def release(self, step: int) -> None:
        """The kernels launched so far are the last that read the batch."""
        self._computing.record_event(self._read[step % 2])
