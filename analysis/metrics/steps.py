"""The iterations of the program's loop, found in its NVTX ranges."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analysis.grouping import sums, values_of
from analysis.intervals import Int64, IntervalSet, earliest, interval
from analysis.metrics.activity import DeviceActivity
from analysis.metrics.launches import TABLES, Launches
from analysis.metrics.overlap import PLACES
from analysis.metrics.partition import Exposure
from analysis.metrics.result import NotAvailable
from analysis.trace import Trace

_COUNTER = re.compile(r"\d+")

#: Of families with nearly all the device time the outermost is the loop: the ranges around it
#: (epochs, phases) have as much, those inside it a part.
_SHARE_OF_BEST = 0.9
#: Two ranges may be anything; three are a loop.
_LOOP_COUNT = 3


@lru_cache(maxsize=1 << 16)
def family(name: str) -> str:
    """A range's name without its counters: "Batch 10" gives "Batch #"."""
    return _COUNTER.sub("#", name)


@dataclass(frozen=True, eq=False)
class Loop:
    """The ranges that are the steps.

    Attributes:
        pattern: Family of the ranges, or the pattern that the user gave.
        device: The device that the steps keep busy, index into `Trace.devices`.
        thread: Where the ranges are, index into `Trace.threads`.
        rows: Their rows in `Trace.ranges`, in order of time.
        ends: When each step is over: its device work and that of the steps before has ended (its
            range, where it launched none). The last one's is the end of the span.
        span: From the first step's start to the end of the last step and of the steps' work.
    """

    pattern: str
    device: int
    thread: int
    rows: Int64
    ends: Int64
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step: the partition of the device inside its period, ns."""

    name: str
    start_ns: int
    period_ns: int
    compute_ns: int
    exposed_copy_ns: Mapping[str, int]
    exposed_memset_ns: int
    idle_ns: int


@dataclass(frozen=True, slots=True)
class Steps:
    """All steps; times in ns."""

    pattern: str
    device: int
    thread: int
    count: int
    span_start_ns: int
    span_ns: int
    edge_idle_ns: int
    median_ns: int
    p95_ns: int
    spread_ns: int
    per_second: float
    rows: tuple[StepRow, ...]


def find_loop(
    trace: Trace,
    launches: Launches,
    *,
    pattern: re.Pattern[str] | None = None,
    window: IntervalSet | None = None,
) -> Loop | NotAvailable:
    """Finds the steps.

    Args:
        trace: The trace.
        launches: Its launching calls.
        pattern: What the whole name of a step matches; None to find the loop.
        window: Only ranges that start inside it; None for all.
    """
    ranges = trace.ranges
    usable = ranges.push_pop & ~ranges.open & (ranges.thread >= 0)
    if window is not None:
        usable &= window.locate(ranges.start) >= 0
    rows = np.flatnonzero(usable)
    if not len(rows):
        return NotAvailable(
            "no NVTX push/pop range was recorded"
            if trace.provenance.nvtx
            else "NVTX ranges were not traced"
        )
    work = _LaunchedWork(trace, launches)
    families = _families(trace, rows, pattern)
    scored = [(work.in_ranges(thread, members), key, members) for key, thread, members in families]
    # Where several threads have the same family, that of the one with the most device time.
    best_of: dict[str, tuple[int, str, Int64]] = {}
    for entry in scored:
        time, key, members = entry
        rank = (time, -int(ranges.thread[members[0]]))
        other = best_of.get(key)
        if time > 0 and (other is None or rank > (other[0], -int(ranges.thread[other[2][0]]))):
            best_of[key] = entry
    scored = list(best_of.values())
    if not scored:
        what = f"matches {pattern.pattern!r}" if pattern else "has a counter in its name"
        return NotAvailable(f"no range that launched device work {what}, more than once")
    best = max(time for time, _, _ in scored)
    near = [entry for entry in scored if entry[0] >= _SHARE_OF_BEST * best]
    near = [entry for entry in near if len(entry[2]) >= _LOOP_COUNT] or near

    def size(members: Int64) -> int:
        return int((ranges.end[members] - ranges.start[members]).sum())

    _, key, members = min(near, key=lambda e: (-size(e[2]), e[1]))
    thread = int(ranges.thread[members[0]])
    device, ends = work.device_and_ends(thread, members)
    ends[-1] = max(int(ranges.end[members[-1]]), int(ends[-1]))
    span = int(ranges.start[members[0]]), int(ends[-1])
    return Loop(pattern.pattern if pattern else key, device, thread, members, ends, span)


def _families(
    trace: Trace, rows: Int64, pattern: re.Pattern[str] | None
) -> list[tuple[str, int, Int64]]:
    """Candidates: key, thread, rows in order of time without those inside another one."""
    ranges = trace.ranges
    keys: dict[int, str | None] = {}
    for name in values_of(ranges.name[rows]).tolist():
        text = trace.names[name]
        if pattern:
            keys[name] = text if pattern.fullmatch(text) else None
        else:
            keys[name] = family(text) if _COUNTER.search(text) else None
    members: dict[tuple[str, int], list[int]] = {}
    for row, name, thread in zip(
        rows.tolist(), ranges.name[rows].tolist(), ranges.thread[rows].tolist(), strict=True
    ):
        key = keys[name]
        if key is not None:
            members.setdefault(("" if pattern else key, thread), []).append(row)
    found = []
    for (key, thread), of_family in members.items():
        index = np.array(of_family, np.int64)
        outer, start, _ = earliest(ranges.start[index], ranges.end[index])
        outer = outer[start == ranges.start[index[outer]]]
        index = index[outer]
        names = values_of(ranges.name[index])
        if len(index) > 1 and (pattern or len(names) > 1):
            found.append((key, thread, index))
    return found


class _LaunchedWork:
    """Device work by the API call that launched it."""

    def __init__(self, trace: Trace, launches: Launches) -> None:
        self._trace = trace
        self._launches = launches
        calls = len(trace.api_calls)
        #: Device time that each call launched, ns, and whether it launched any work, empty or not.
        self._time = np.zeros(calls, np.int64)
        self._launched = np.zeros(calls, bool)
        for name in TABLES:
            work, call = getattr(trace, name), launches.of(name)
            length = work.end - work.start
            known = call >= 0
            if not known.all():
                call, length = call[known], length[known]
            if len(call):
                self._time += sums(call, length, calls)
                self._launched[call] = True
        self._by_thread: dict[int, tuple[Int64, Int64, Int64]] = {}

    def _of(self, thread: int) -> tuple[Int64, Int64, Int64]:
        """A thread's launching calls: rows in order of start, starts, running total of time."""
        if thread not in self._by_thread:
            api = self._trace.api_calls
            rows = np.flatnonzero((api.thread == thread) & self._launched)
            start = api.start[rows]
            if (start[1:] < start[:-1]).any():
                order = np.argsort(start, kind="stable")
                rows, start = rows[order], start[order]
            total = np.concatenate([[0], np.cumsum(self._time[rows])])
            self._by_thread[thread] = rows, start, total
        return self._by_thread[thread]

    def in_ranges(self, thread: int, ranges: Int64) -> int:
        """Device time launched inside some ranges of a thread, added up, ns."""
        total = self._of(thread)[2]
        first, last = self._inside(thread, ranges)
        return int((total[last] - total[first]).sum())

    def _inside(self, thread: int, ranges: Int64) -> tuple[Int64, Int64]:
        """The first call of `_of` inside each range, and the first one behind it."""
        start, within = self._of(thread)[1], self._trace.ranges
        return (
            np.searchsorted(start, within.start[ranges]),
            np.searchsorted(start, within.end[ranges]),
        )

    def device_and_ends(self, thread: int, ranges: Int64) -> tuple[int, Int64]:
        """The device with the most of that time (the first of equals), and when ranges are over.

        That is when the work of a range and of those before has ended; a range without work ends
        itself.
        """
        trace = self._trace
        first, last = self._inside(thread, ranges)
        count = last - first
        before = np.cumsum(count) - count
        position = np.arange(int(count.sum())) + np.repeat(first - before, count)
        step_of_call = np.full(len(trace.api_calls) + 1, -1)  # the last one's is that of no call
        step_of_call[self._of(thread)[0][position]] = np.repeat(np.arange(len(ranges)), count)
        time = np.zeros(len(trace.devices), np.int64)
        ends = np.zeros(len(ranges), np.int64)
        has_work = np.zeros(len(ranges), bool)
        for name in TABLES:
            work, step = getattr(trace, name), step_of_call[self._launches.of(name)]
            mine = np.flatnonzero(step >= 0)
            step = step[mine]
            time += sums(work.device[mine], work.end[mine] - work.start[mine], len(time))
            np.maximum.at(ends, step, work.end[mine])
            has_work[step] = True
        ends = np.where(has_work, ends, trace.ranges.end[ranges])
        # No step ends before the first one starts, whatever clocks say.
        ends = np.maximum(ends, trace.ranges.start[ranges[0]])
        return int(np.argmax(time)), np.maximum.accumulate(ends)


def edges(loop: Loop, activity: DeviceActivity) -> IntervalSet:
    """What the span adds before the device's first and after its last activity."""
    low, high = loop.span
    before = interval(low, min(activity.first, high))
    return before | interval(max(activity.last, low), high)


def steps(trace: Trace, loop: Loop, activity: DeviceActivity, exposure: Exposure) -> Steps:
    """The steps with the partition of their device inside each period.

    Args:
        trace: The trace.
        loop: The steps' ranges.
        activity: The loop's device.
        exposure: Its partition.
    """
    ranges = trace.ranges
    low, high = loop.span
    start, end = np.append(low, loop.ends[:-1]), loop.ends
    periods = (end - start).tolist()
    compute = exposure.compute.measure(start, end).tolist()
    copies = {name: part.measure(start, end).tolist() for name, part in exposure.copies.items()}
    memset = exposure.memset.measure(start, end).tolist()
    busy = exposure.busy.measure(start, end).tolist()
    rows = tuple(
        StepRow(
            name=trace.names[ranges.name[row]],
            start_ns=int(start[i]),
            period_ns=periods[i],
            compute_ns=compute[i],
            exposed_copy_ns={name: values[i] for name, values in copies.items()},
            exposed_memset_ns=memset[i],
            idle_ns=periods[i] - busy[i],
        )
        for i, row in enumerate(loop.rows.tolist())
    )
    return Steps(
        pattern=loop.pattern,
        device=trace.devices[loop.device].id,
        thread=trace.threads[loop.thread].tid,
        count=len(rows),
        span_start_ns=low,
        span_ns=high - low,
        edge_idle_ns=edges(loop, activity).total,
        median_ns=median(periods),
        p95_ns=percentile(periods, 95),
        spread_ns=max(periods) - min(periods),
        per_second=round(1e9 * len(rows) / (high - low), PLACES),
        rows=rows,
    )


def median(values: Sequence[int]) -> int:
    """The median; of an even count the mean of the middle two, rounded down."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


def percentile(values: Sequence[int], percent: int) -> int:
    """The nearest-rank percentile: the smallest value that `percent` % do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(percent * len(ordered) / 100), 1) - 1]
