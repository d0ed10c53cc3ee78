"""Wait chains: which thread held up a thread that sat in a wait.

Overlap is evidence, not proof. The rules, in order, are those of docs/definitions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analysis.grouping import dominant, sums, values_of
from analysis.intervals import EMPTY, Int64, IntervalSet, pairs_overlapping, union

if TYPE_CHECKING:
    from analysis.metrics.timelines import ThreadTimeline, Timelines

#: Waits of one name this close to each other are one: CPython asks for its lock every 5 ms.
EPISODE_PAUSE_NS = 1_000_000

HOST_CODE = "host code"


@dataclass(frozen=True, slots=True)
class Holder:
    """A thread that held up another.

    Attributes:
        thread: Index into `Trace.threads`.
        rule: Which of the rules found it (1 working call, 2 range, 3 host code, 4 read).
        name: What it was doing.
        via: The OS runtime call inside the CUDA call that gave the name, if any.
        overhead: Whether what it did was the profiler's work.
    """

    thread: int
    rule: int
    name: str
    via: str | None
    overhead: bool

    @property
    def in_host_code(self) -> bool:
        """Whether no more is known of it than that it moved, and was in no wait."""
        return self.rule == 3


@dataclass(frozen=True, eq=False)
class Episodes:
    """Runs of waits of one thread.

    Attributes:
        start: Starts of the waits, ns, shape (waits,).
        end: Their ends.
        of: The episode of each wait, shape (waits,).
        of_call: The episode of each call of the thread's OS layer, -1 for calls that are no waits.
        count: How many episodes there are.
    """

    start: Int64
    end: Int64
    of: Int64
    of_call: Int64
    count: int


@dataclass(frozen=True, eq=False)
class _WorkLayer:
    """What a thread worked on, as disjoint labelled intervals."""

    start: Int64
    end: Int64
    name: NDArray[np.int32]
    via: NDArray[np.int32]
    overhead: NDArray[np.bool_]

    @cached_property
    def covered(self) -> IntervalSet:
        return union(self.start, self.end)


class WaitChains:
    """Holders of waits.

    Args:
        timelines: The threads of the trace.
    """

    def __init__(self, timelines: Timelines) -> None:
        self._timelines = timelines
        self._work: dict[int, _WorkLayer] = {}
        self._episodes: dict[int, Episodes] = {}
        self._measures: dict[tuple[int, int], IntervalSet] = {}
        trace = timelines.trace
        seen = [trace.api_calls.thread, trace.os_calls.thread, trace.ranges.thread]
        found = values_of(np.concatenate([*seen, trace.overheads.thread]))
        self._candidates = found[found >= 0].tolist()
        self.holders: list[Holder] = []
        self._index: dict[Holder, int] = {}

    def episodes(self, thread: int) -> Episodes:
        """The waits of a thread, grouped into episodes."""
        if thread not in self._episodes:
            self._episodes[thread] = self._find_episodes(thread)
        return self._episodes[thread]

    def _find_episodes(self, thread: int) -> Episodes:
        layer = self._timelines.thread(thread).osrt
        waits = np.flatnonzero(self._timelines.is_wait[layer.name])
        start, end, name = layer.start[waits], layer.end[waits], layer.name[waits]
        begins = np.ones(len(waits), bool)
        begins[1:] = (name[1:] != name[:-1]) | (start[1:] - end[:-1] > EPISODE_PAUSE_NS)
        of = np.cumsum(begins) - 1
        of_call = np.full(len(layer.row), -1, np.int64)
        of_call[waits] = of
        return Episodes(start, end, of, of_call, int(begins.sum()))

    def measure(self, thread: int, rule: int) -> IntervalSet:
        """When a thread was, by a rule's measure, doing what made it a holder."""
        key = (thread, rule)
        if key not in self._measures:
            timeline = self._timelines.thread(thread)
            if rule == 1:
                found = self._work_of(thread).covered
            elif rule == 2:
                found = self._closed_ranges(timeline) - timeline.blocked
            elif rule == 3:
                found = timeline.blocked.complement()
            else:
                found = timeline.osrt.where(self._timelines.is_read[timeline.osrt.name])
            self._measures[key] = found
        return self._measures[key]

    def find(self, thread: int, episodes: Episodes, wanted: Int64) -> Int64:
        """The holder of each of some episodes of a thread.

        Args:
            thread: The waiting thread.
            episodes: Its episodes.
            wanted: Which of them, ascending.

        Returns:
            Indices into `holders`, -1 where nobody is found; shape of `wanted`.
        """
        position = np.full(episodes.count, -1, np.int64)
        position[wanted] = np.arange(len(wanted))
        mine = position[episodes.of] >= 0
        start, end = episodes.start[mine], episodes.end[mine]
        owner = position[episodes.of[mine]]
        length = sums(owner, end - start, len(wanted))
        first = np.searchsorted(owner, np.arange(len(wanted)))
        last = np.searchsorted(owner, np.arange(len(wanted)), side="right") - 1
        low, high = start[first], end[last]

        result = np.full(len(wanted), -1, np.int64)
        process = self._timelines.trace.threads[thread].process
        others = [t for t in self._candidates if t != thread]
        threads = self._timelines.trace.threads
        for pool in (
            [t for t in others if threads[t].process == process],
            [t for t in others if threads[t].process != process],
        ):
            for rule in (1, 2, 3, 4):
                open_ = result < 0
                if not open_.any():
                    return result
                best = np.zeros(len(wanted), np.int64)
                holder = np.full(len(wanted), -1, np.int64)
                for candidate in pool:
                    measure = self.measure(candidate, rule)
                    amount = sums(owner, measure.measure(start, end), len(wanted))
                    if rule >= 3:
                        amount[~self._moves(candidate, low, high)] = 0
                    better = amount > best
                    best[better], holder[better] = amount[better], candidate
                found = open_ & (2 * best > length)
                for candidate in values_of(holder[found]).tolist():
                    which = np.flatnonzero(found & (holder == candidate))
                    rows = np.isin(owner, which)
                    result[which] = self._named(
                        candidate, rule, start[rows], end[rows], owner[rows], len(wanted)
                    )[which]
        return result

    def _moves(self, thread: int, low: Int64, high: Int64) -> NDArray[np.bool_]:
        """Whether a call of the thread begins or ends inside each ``[low, high]``."""
        timeline, trace = self._timelines.thread(thread), self._timelines.trace
        moved = np.zeros(len(low), bool)
        for table, rows in (
            (trace.os_calls, timeline.os_rows),
            (trace.api_calls, timeline.api_rows),
        ):
            begins = np.sort(table.start[rows], kind="stable")
            ends = np.sort(table.end[rows], kind="stable")
            moved |= np.searchsorted(begins, high) > np.searchsorted(begins, low)
            moved |= np.searchsorted(ends, high, "right") > np.searchsorted(ends, low, "right")
        return moved

    def _named(
        self, thread: int, rule: int, start: Int64, end: Int64, owner: Int64, count: int
    ) -> Int64:
        """The holder, by what fills most of each owner's waits; index per owner."""
        trace, rank = self._timelines.trace, self._timelines.name_rank
        result = np.full(count, -1, np.int64)
        if rule == 3:
            result[owner] = self._add(Holder(thread, rule, HOST_CODE, None, False))
            return result
        if rule == 2:
            return self._named_by_path(thread, start, end, owner, result)
        if rule == 1:
            work = self._work_of(thread)
            layer_start, layer_end, layer_name = work.start, work.end, work.name
        else:
            layer = self._timelines.thread(thread).osrt
            keep = self._timelines.is_read[layer.name]
            layer_start, layer_end = layer.start[keep], layer.end[keep]
            layer_name = layer.name[keep]
        mine, piece = pairs_overlapping(start, end, IntervalSet(layer_start, layer_end))
        amount = np.minimum(end[mine], layer_end[piece]) - np.maximum(
            start[mine], layer_start[piece]
        )
        name = dominant(owner[mine], layer_name[piece], amount, rank, count)
        via = np.full(count, -1, np.int64)
        overhead = np.zeros(count, bool)
        if rule == 1:
            inner = work.via[piece]
            fits = (inner >= 0) & (layer_name[piece] == name[owner[mine]])
            via = dominant(owner[mine][fits], inner[fits], amount[fits], rank, count)
            profiler = work.overhead[piece] & (layer_name[piece] == name[owner[mine]])
            overhead[owner[mine][profiler]] = True
        for i in values_of(owner).tolist():
            inside = trace.names[via[i]] if via[i] >= 0 else None
            result[i] = self._add(
                Holder(thread, rule, trace.names[name[i]], inside, bool(overhead[i]))
            )
        return result

    def _named_by_path(
        self, thread: int, start: Int64, end: Int64, owner: Int64, result: Int64
    ) -> Int64:
        timeline = self._timelines.thread(thread)
        measure = self.measure(thread, 2)
        for i in values_of(owner).tolist():
            waits = union(start[owner == i], end[owner == i]) & measure
            times, _ = timeline.paths
            points = np.union1d(np.concatenate([waits.start, waits.end]), times)
            inside = waits.locate(points[:-1]) >= 0
            filled: dict[str, int] = {}
            paths = timeline.path_at(points[:-1])
            for path, length in zip(paths[inside], np.diff(points)[inside], strict=True):
                text = self._timelines.path_text(int(path))
                filled[text] = filled.get(text, 0) + int(length)
            name = min(filled, key=lambda text: (-filled[text], text))
            result[i] = self._add(Holder(thread, 2, name, None, False))
        return result

    def _add(self, holder: Holder) -> int:
        if holder not in self._index:
            self._index[holder] = len(self.holders)
            self.holders.append(holder)
        return self._index[holder]

    def _closed_ranges(self, timeline: ThreadTimeline) -> IntervalSet:
        ranges = self._timelines.trace.ranges
        rows = timeline.range_rows
        rows = rows[~ranges.open[rows]]
        return union(ranges.start[rows], ranges.end[rows])

    def _work_of(self, thread: int) -> _WorkLayer:
        if thread not in self._work:
            self._work[thread] = self._build_work(thread)
        return self._work[thread]

    def _build_work(self, thread: int) -> _WorkLayer:
        timeline = self._timelines.thread(thread)
        cuda, osrt, overhead = timeline.cuda, timeline.osrt, timeline.own_overhead
        covered: IntervalSet = EMPTY
        for layer in (cuda, osrt, overhead):
            covered = covered | union(layer.start, layer.end)
        covered = covered - timeline.blocked
        edges = [layer.start for layer in (cuda, osrt, overhead)]
        edges += [layer.end for layer in (cuda, osrt, overhead)]
        points = values_of(np.concatenate([*edges, covered.start, covered.end]))
        start, end = points[:-1], points[1:]
        inside = covered.locate(start) >= 0
        start, end = start[inside], end[inside]
        in_cuda, in_osrt, in_overhead = (layer.at(start) for layer in (cuda, osrt, overhead))
        name = np.full(len(start), -1, np.int32)
        via = np.full(len(start), -1, np.int32)
        for found, layer in ((in_overhead, overhead), (in_osrt, osrt), (in_cuda, cuda)):
            name[found >= 0] = layer.name[found[found >= 0]]
        both = (in_cuda >= 0) & (in_osrt >= 0)
        via[both] = osrt.name[in_osrt[both]]
        profiler = (in_cuda < 0) & (in_osrt < 0)
        return _WorkLayer(start, end, name, via, profiler)
