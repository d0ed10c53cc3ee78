"""The processes that take the outputs over, and how they are waited for.

Their start method is spawn: a forked child of a program that uses CUDA is not to be trusted.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import torch.multiprocessing

from analysis.errors import ToolError
from workloads.ladders.d2h._processing import Results, process_classes, process_logits
from workloads.ranges import OUTPUT, annotate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    import torch

CONTEXT: Any = torch.multiprocessing.get_context("spawn")

# Images that a process takes at a time, out of a buffer.
_PART = 8

# How often it is looked whether a process has died; no measure of speed.
_POLL_SECONDS = 1.0


class OutputProcesses:
    """Processes that run a function on every item of a joinable queue.

    Use as a context manager: they are there inside the ``with`` block, ready from its start, and
    ended at its end.

    Args:
        count: How many.
        handle: Called in them as ``handle(item, *arguments)``; a function of a module.
        arguments: What every call gets.
        waiting: Items that may lie in the queue before `put` waits; 0 for any number.
    """

    def __init__(
        self, count: int, handle: Callable[..., None], arguments: Sequence[Any], waiting: int = 0
    ) -> None:
        self._items = CONTEXT.JoinableQueue(waiting)
        ready = [CONTEXT.Event() for _ in range(count)]
        self._ready = ready
        self._processes = [
            CONTEXT.Process(
                target=_serve, args=(self._items, event, handle, arguments), daemon=True
            )
            for event in ready
        ]

    def __enter__(self) -> OutputProcesses:
        for process in self._processes:
            process.start()
        for event in self._ready:
            while not event.wait(_POLL_SECONDS):
                self.check()
        return self

    def put(self, item: Any) -> None:
        """Hand an item over; tensors in it are moved to shared memory first."""
        while True:
            try:
                self._items.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                self.check()
            else:
                return

    def join(self) -> None:
        """Wait until all items are done.

        Raises:
            ToolError: A process has died.
        """
        joiner = threading.Thread(target=self._items.join, daemon=True)
        joiner.start()
        while joiner.is_alive():
            joiner.join(_POLL_SECONDS)
            self.check()

    def check(self) -> None:
        """Raise ToolError if a process has died."""
        dead = [process for process in self._processes if process.exitcode is not None]
        if dead:
            raise ToolError(
                f"an output process ended with exit code {dead[0].exitcode}",
                hint="its own message is above; if it was killed (-9), memory may have run out",
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()


def _serve(items: Any, ready: Any, handle: Callable[..., None], arguments: Sequence[Any]) -> None:
    # Each process has one core to itself; libraries that start threads would fight over them.
    torch.set_num_threads(1)
    ready.set()
    while True:
        item = items.get()
        with annotate("process output", OUTPUT):
            handle(item, *arguments)
        # The item holds shared memory; it must be let go before the queue counts it as done.
        del item
        items.task_done()


def handle_tensor(item: tuple[int, torch.Tensor], results: Results) -> None:
    """Process a batch of logits that came through the queue."""
    step, logits = item
    process_classes(process_logits(logits, step, results), step, results)


class Part(NamedTuple):
    """Some images of a batch, in a buffer.

    Args:
        step: Of the batch.
        buffer: Its number.
        first: Place of the first of the images in the batch, and in the buffer.
    """

    step: int
    buffer: int
    first: int


class Buffers:
    """Shared-memory buffers, allocated once, and the queue of those that are free.

    A batch in a buffer is processed in parts, by as many processes as are free. It is done in a
    fraction of the time that one process would take, and so is the last one of a run.

    Args:
        shape: Of each buffer, the batch first.
        dtype: Of each buffer.
        count: How many.
    """

    def __init__(self, shape: Sequence[int], dtype: torch.dtype, count: int) -> None:
        self.tensors = [
            torch.empty(tuple(shape), dtype=dtype).share_memory_() for _ in range(count)
        ]
        self._batch_size = shape[0]
        self._free = CONTEXT.Queue()
        for index in range(count):
            self._free.put(index)
        # Parts of each buffer that are still to be read.
        self._unread = torch.full((count,), len(self.parts(0, 0))).share_memory_()
        self._lock = CONTEXT.Lock()

    def parts(self, step: int, index: int) -> list[Part]:
        """The items for the processes: what is in a buffer, in parts."""
        return [Part(step, index, first) for first in range(0, self._batch_size, _PART)]

    def images(self, part: Part) -> torch.Tensor:
        """The memory of a part."""
        return self.tensors[part.buffer][part.first : part.first + _PART]

    def give_back(self, part: Part) -> None:
        """Say that a part has been read; behind the last one the buffer is free."""
        with self._lock:
            self._unread[part.buffer] -= 1
            if self._unread[part.buffer]:
                return
            self._unread[part.buffer] = len(self.parts(part.step, part.buffer))
        self._free.put(part.buffer)

    def take(self, processes: OutputProcesses) -> int:
        """The index of a free buffer; waits for one.

        Raises:
            ToolError: A process that should give one back has died.
        """
        while True:
            try:
                return int(self._free.get(timeout=_POLL_SECONDS))
            except queue.Empty:
                processes.check()


def handle_buffer(part: Part, buffers: Buffers, results: Results) -> None:
    """Process logits that are in a buffer; give them back as soon as they are read."""
    classes = process_logits(buffers.images(part), part.step, results, part.first)
    buffers.give_back(part)
    process_classes(classes, part.step, results, part.first)


def handle_classes(part: Part, buffers: Buffers, results: Results) -> None:
    """Process class maps that are in a buffer."""
    process_classes(buffers.images(part), part.step, results, part.first)
    buffers.give_back(part)
