"""A pool of pinned, shared buffers, the processes that read them and the thread in between."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

from workloads.ladders.d2h._processing import Results
from workloads.ladders.d2h._workers import Buffers, OutputProcesses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    import torch

    from workloads.session import Session

# Enough for the processes to be late now and then, and not all of the memory.
BUFFERS = 8


class PinnedPool:
    """Takes outputs that are still being copied, and has them processed once they are there.

    Use as a context manager. A buffer goes round: `take` it, copy into it, `hand_over`; the monitor
    thread waits for the copy's event; a process reads the buffer and gives it back.

    Args:
        session: Of the run.
        shape: Of a buffer.
        dtype: Of a buffer.
        handle: What the processes do with one, see `_workers.handle_buffer`.
    """

    def __init__(
        self,
        session: Session,
        shape: Sequence[int],
        dtype: torch.dtype,
        handle: Callable[..., None],
    ) -> None:
        self._session = session
        self._device = session.device
        self.results = Results.empty(session.parameters, compare=session.compare)
        self._buffers = Buffers(shape, dtype, BUFFERS)
        self._processes = OutputProcesses(
            max(1, session.parameters.workers),
            handle,
            (self._buffers, self.results),
        )
        # Making an event is not free; they are used again.
        self._events = [self._device.event() for _ in range(BUFFERS)]
        self._copies: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
        self._monitor = threading.Thread(target=self._watch, name="event monitor", daemon=True)
        self._error: Exception | None = None

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The buffers."""
        return self._buffers.tensors

    def __enter__(self) -> PinnedPool:
        self._processes.__enter__()
        for tensor in self.tensors:
            self._device.pin(tensor)
        self._monitor.start()
        return self

    def take(self) -> int:
        """The index of a free buffer; waits for one."""
        self._check()
        return self._buffers.take(self._processes)

    def hand_over(self, step: int, index: int, *, behind: Any) -> None:
        """Have a buffer processed once what is in the stream `behind` now has been done."""
        self._events[index].record(behind)
        self._copies.put((step, index))

    def finish(self) -> None:
        """Wait until every output has been processed."""
        self._copies.put(None)
        self._monitor.join()
        self._check()
        self._processes.join()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._processes.__exit__(kind, error, traceback)
        self._device.synchronize()
        for tensor in self.tensors:
            self._device.unpin(tensor)
        self.results.put_into(self._session.outputs)

    def _watch(self) -> None:
        try:
            while (copy := self._copies.get()) is not None:
                step, index = copy
                self._events[index].synchronize()
                for part in self._buffers.parts(step, index):
                    self._processes.put(part)
        except Exception as error:  # noqa: BLE001  (raised in the loop's thread, by _check)
            self._error = error

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
