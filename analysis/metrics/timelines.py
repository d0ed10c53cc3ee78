"""What each host thread was doing at any instant: NVTX path, CUDA call, OS runtime call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analysis.intervals import Int64, IntervalSet, earliest, locate, union
from analysis.metrics import calls
from analysis.trace import Trace

#: The path, and the host part's name, of an instant that no range covers.
OUTSIDE = "outside any range"


@dataclass(frozen=True, eq=False)
class Layer:
    """Outermost calls of one thread and kind, disjoint and in order.

    Attributes:
        row: Row of the call in its table.
        start: From when it is the outermost, ns.
        end: Its end, ns.
        name: Index into `Trace.names`.
    """

    row: Int64
    start: Int64
    end: Int64
    name: NDArray[np.int32]

    def at(self, points: Int64) -> Int64:
        """Index into the layer of the call that covers each point, -1 where none does."""
        return locate(points, self.start, self.end)

    def where(self, keep: NDArray[np.bool_]) -> IntervalSet:
        """The union of some of the calls."""
        return union(self.start[keep], self.end[keep])


class Timelines:
    """The threads of a trace; what is asked for is computed once.

    Args:
        trace: The trace.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._threads: dict[int, ThreadTimeline] = {}
        # Paths are interned: id to names from outermost in. 0 is the empty path.
        self._paths: list[tuple[int, ...]] = [()]
        self._path_ids: dict[tuple[int, ...], int] = {(): 0}
        self._path_texts: dict[int, str] = {}

    def thread(self, index: int) -> ThreadTimeline:
        """The timeline of a thread; -1 gives one without any calls or ranges."""
        if index not in self._threads:
            self._threads[index] = ThreadTimeline(self, index)
        return self._threads[index]

    def path_id(self, path: tuple[int, ...]) -> int:
        """The id of a path, given as indices into `Trace.names` from the outermost in."""
        if path not in self._path_ids:
            self._path_ids[path] = len(self._paths)
            self._paths.append(path)
        return self._path_ids[path]

    def path_names(self, path: int) -> tuple[str, ...]:
        """The names along a path, from the outermost in; none outside any range."""
        return tuple(self.trace.names[name] for name in self._paths[path])

    @property
    def path_count(self) -> int:
        """How many paths have been met so far; their ids are 0 to that."""
        return len(self._paths)

    def path_text(self, path: int) -> str:
        """The path as reports show it: ``Batch 11 / copy to CPU``."""
        if path not in self._path_texts:
            self._path_texts[path] = " / ".join(self.path_names(path)) or OUTSIDE
        return self._path_texts[path]

    @cached_property
    def name_rank(self) -> Int64:
        """The position of each name in alphabetical order."""
        rank = np.empty(len(self.trace.names), np.int64)
        rank[sorted(range(len(rank)), key=self.trace.names.__getitem__)] = np.arange(len(rank))
        return rank

    @cached_property
    def is_wait(self) -> NDArray[np.bool_]:
        """Whether each name is an OS runtime wait; index -1 gives False. So for the others."""
        return calls.flags(self.trace.names, calls.is_wait)

    @cached_property
    def is_sleep(self) -> NDArray[np.bool_]:
        """Whether each name is an OS runtime sleep."""
        return calls.flags(self.trace.names, calls.is_sleep)

    @cached_property
    def is_read(self) -> NDArray[np.bool_]:
        """Whether each name is an OS runtime read."""
        return calls.flags(self.trace.names, calls.is_read)

    @cached_property
    def synchronises(self) -> NDArray[np.bool_]:
        """Whether each name is a CUDA call that waits for the device."""
        return calls.flags(self.trace.names, calls.synchronises)


class ThreadTimeline:
    """One thread; see `Timelines.thread`."""

    def __init__(self, timelines: Timelines, index: int) -> None:
        self._timelines = timelines
        self._trace = timelines.trace
        self.index = index

    @cached_property
    def api_rows(self) -> Int64:
        """Rows of the thread's CUDA calls, nested ones too."""
        return np.flatnonzero(self._trace.api_calls.thread == self.index)

    @cached_property
    def os_rows(self) -> Int64:
        """Rows of the thread's OS runtime calls, nested ones too."""
        return np.flatnonzero(self._trace.os_calls.thread == self.index)

    @cached_property
    def cuda(self) -> Layer:
        """The outermost CUDA calls."""
        table, rows = self._trace.api_calls, self.api_rows
        index, start, end = earliest(table.start[rows], table.end[rows])
        return Layer(rows[index], start, end, table.name[rows[index]])

    @cached_property
    def osrt(self) -> Layer:
        """The outermost OS runtime calls."""
        table, rows = self._trace.os_calls, self.os_rows
        index, start, end = earliest(table.start[rows], table.end[rows])
        return Layer(rows[index], start, end, table.name[rows[index]])

    @cached_property
    def overhead(self) -> Layer:
        """Profiler overhead that concerns this thread: its own, its process's or everybody's."""
        table = self._trace.overheads
        process = self._trace.threads[self.index].process if self.index >= 0 else -1
        nobodys = (table.thread < 0) & ((table.process < 0) | (table.process == process))
        mine = table.thread == self.index if self.index >= 0 else np.zeros(len(table), bool)
        rows = np.flatnonzero(mine | nobodys)
        index, start, end = earliest(table.start[rows], table.end[rows])
        return Layer(rows[index], start, end, table.name[rows[index]])

    @cached_property
    def own_overhead(self) -> Layer:
        """Profiler overhead on this very thread."""
        table = self._trace.overheads
        rows = np.flatnonzero(table.thread == self.index) if self.index >= 0 else np.empty(0, int)
        index, start, end = earliest(table.start[rows], table.end[rows])
        return Layer(rows[index], start, end, table.name[rows[index]])

    @cached_property
    def blocked(self) -> IntervalSet:
        """When the thread did nothing but wait: OS waits and sleeps, and CUDA synchronisation."""
        names = self._timelines
        osrt = self.osrt.where(names.is_wait[self.osrt.name] | names.is_sleep[self.osrt.name])
        return osrt | self.cuda.where(names.synchronises[self.cuda.name])

    @cached_property
    def synchronising(self) -> IntervalSet:
        """When the thread was inside a synchronising CUDA call, nested or not."""
        table = self._trace.api_calls
        rows = self.api_rows[self._timelines.synchronises[table.name[self.api_rows]]]
        return union(table.start[rows], table.end[rows])

    @cached_property
    def range_rows(self) -> Int64:
        """Rows of the ranges that make up the thread's NVTX path."""
        ranges = self._trace.ranges
        mine = (ranges.thread == self.index) & (
            ranges.push_pop | (ranges.end_thread == self.index) | (ranges.open)
        )
        return np.flatnonzero(mine & (ranges.start < ranges.end))

    @cached_property
    def paths(self) -> tuple[Int64, NDArray[np.int32]]:
        """The NVTX path as a step function: times at which it changes, and its id from then on."""
        if self.index < 0:
            return np.empty(0, np.int64), np.empty(0, np.int32)
        ranges, rows = self._trace.ranges, self.range_rows
        rows = rows[np.lexsort((rows, -ranges.end[rows], ranges.start[rows]))]
        names = ranges.name[rows].tolist()
        # Ends before starts at one instant; starts in path order, outermost first.
        events = sorted(
            [(end, 0, i) for i, end in enumerate(ranges.end[rows].tolist())]
            + [(start, 1, i) for i, start in enumerate(ranges.start[rows].tolist())]
        )
        times: list[int] = []
        ids: list[int] = []
        active: list[int] = []
        for time, begins, i in events:
            if begins:
                active.append(i)
            else:
                active.remove(i)
            path = self._timelines.path_id(tuple(names[k] for k in active))
            if times and times[-1] == time:
                ids[-1] = path
            else:
                times.append(time)
                ids.append(path)
        return np.array(times, np.int64), np.array(ids, np.int32)

    def path_at(self, points: Int64) -> NDArray[np.int32]:
        """The id of the NVTX path at each point."""
        times, ids = self.paths
        if not len(times):
            return np.zeros(len(points), np.int32)
        index = np.searchsorted(times, points, side="right") - 1
        return np.where(index >= 0, ids[index], 0).astype(np.int32)
