"""What each host thread was doing at any instant: NVTX path, CUDA call, OS runtime call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analysis.intervals import EMPTY, Int64, IntervalSet, earliest, interval, locate, union
from analysis.metrics import calls
from analysis.trace import Trace
from analysis.words import OUTSIDE


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
        self._paths: list[tuple[str, ...]] = [()]
        self._longer: dict[tuple[int, int], int] = {}
        self._path_texts: dict[int, str] = {}

    def thread(self, index: int) -> ThreadTimeline:
        """The timeline of a thread; -1 gives one without any calls or ranges."""
        if index not in self._threads:
            self._threads[index] = ThreadTimeline(self, index)
        return self._threads[index]

    def path_into(self, path: int, name: int) -> int:
        """The id of the path that leads one range further in.

        Args:
            path: The id of the path so far.
            name: The range's name, index into `Trace.names`.
        """
        step = (path, name)
        if step not in self._longer:
            self._longer[step] = len(self._paths)
            self._paths.append((*self._paths[path], self.trace.names[name]))
        return self._longer[step]

    def path_names(self, path: int) -> tuple[str, ...]:
        """The names along a path, from the outermost in; none outside any range."""
        return self._paths[path]

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
    def seen(self) -> IntervalSet:
        """From its first recorded call to the end of its last.

        A call that was open when the recording began or ended has no row: outside, the thread may
        be in a wait that nobody saw.
        """
        calls = [(self._trace.os_calls, self.os_rows), (self._trace.api_calls, self.api_rows)]
        start = np.concatenate([table.start[rows] for table, rows in calls])
        end = np.concatenate([table.end[rows] for table, rows in calls])
        return interval(int(start.min()), int(end.max())) if len(start) else EMPTY

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
        ranges, rows = self._trace.ranges, self.range_rows
        if self.index < 0 or not len(rows):
            return np.empty(0, np.int64), np.empty(0, np.int32)
        rows = rows[np.lexsort((rows, -ranges.end[rows], ranges.start[rows]))]
        names = ranges.name[rows].tolist()
        count = len(rows)
        # Ends before starts at one instant; ends from the innermost out, starts from the outermost.
        times = np.concatenate([ranges.end[rows][::-1], ranges.start[rows]])
        order = np.argsort(times, kind="stable")
        times = times[order]
        into = self._timelines.path_into
        ids = np.empty(len(times), np.int32)
        active: list[int] = []
        paths = [0]
        for position, event in enumerate(order.tolist()):
            begun, ended = event - count, count - 1 - event
            if begun >= 0:
                active.append(begun)
                paths.append(into(paths[-1], names[begun]))
            elif active[-1] == ended:
                active.pop()
                paths.pop()
            else:
                # Start/end ranges need not nest.
                at = active.index(ended)
                del active[at], paths[at + 1 :]
                for other in active[at:]:
                    paths.append(into(paths[-1], names[other]))
            ids[position] = paths[-1]
        last = np.append(times[1:] != times[:-1], True)
        return times[last], ids[last]

    def path_at(self, points: Int64) -> NDArray[np.int32]:
        """The id of the NVTX path at each point."""
        times, ids = self.paths
        if not len(times):
            return np.zeros(len(points), np.int32)
        index = np.searchsorted(times, points, side="right") - 1
        return np.where(index >= 0, ids[index], 0).astype(np.int32)
