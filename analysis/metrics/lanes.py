"""The events of a trace as the lanes of a timeline: what ran where, and who fed it.

Lanes hold no events, only which rows of the trace's tables they show and how these are stacked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.grouping import sums
from analysis.intervals import Int64
from analysis.metrics.activity import rows_of_device
from analysis.metrics.gaps import Gaps
from analysis.metrics.launches import Launches
from analysis.metrics.timelines import Timelines
from analysis.metrics.waits import Holder, WaitChains
from analysis.trace import COPY_DIRECTIONS, Trace

#: Threads that are shown: those behind the most idle time, then those that launch the most.
MOST_THREADS = 16


@dataclass(frozen=True, eq=False)
class Lane:
    """Events of one kind.

    Attributes:
        kind: "kernels", "graphs", a copy direction, "memsets", "nvtx", "cuda" or "osrt".
        table: The attribute of `Trace` that holds the events.
        rows: Their rows there, in order of start, of equal starts the longest first; shape (n,).
        depth: The row of the lane that shows each; within one no two overlap; shape (n,).
        calls: Row in `Trace.api_calls` of the call that launched each, -1 without one; None for
            lanes of threads.
    """

    kind: str
    table: str
    rows: Int64
    depth: NDArray[np.int32]
    calls: Int64 | None


@dataclass(frozen=True, eq=False)
class DeviceLanes:
    """A device.

    Attributes:
        device: Index into `Trace.devices`.
        lanes: Its lanes; kinds that never happened are left out.
        gaps: Its idle time inside the window, attributed.
    """

    device: int
    lanes: tuple[Lane, ...]
    gaps: Gaps


@dataclass(frozen=True, eq=False)
class ThreadLanes:
    """A thread that feeds a device or holds up one that does.

    Attributes:
        thread: Index into `Trace.threads`.
        idle_ns: Idle time that has to do with it, as the feeding thread or as the holder.
        lanes: Its lanes; kinds that never happened are left out.
    """

    thread: int
    idle_ns: int
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, eq=False)
class Lanes:
    """The timeline of one trace.

    Attributes:
        trace: The trace whose rows the lanes show.
        devices: In order of id.
        threads: Those with the most to do with idle time first.
        threads_left_out: How many other threads launch work or hold up one that does.
        paths: Text of each NVTX path, indexed by the `path` of `Segments`.
        holders: What the `holder` of `Segments` indexes.
    """

    trace: Trace
    devices: tuple[DeviceLanes, ...]
    threads: tuple[ThreadLanes, ...]
    threads_left_out: int
    paths: tuple[str, ...]
    holders: tuple[Holder, ...]


def lanes(
    timelines: Timelines,
    chains: WaitChains,
    launches: Launches,
    gaps: Mapping[int, Gaps],
    loop_thread: int,
) -> Lanes:
    """The timeline of some devices and of the threads behind their idle time.

    Args:
        timelines: The threads.
        chains: The wait chains that attributed the gaps.
        launches: Launching calls of the same trace.
        gaps: The gaps of each device, by index into `Trace.devices`.
        loop_thread: The thread of the steps; -1 without steps.
    """
    trace = timelines.trace
    devices = tuple(
        DeviceLanes(device, tuple(_of_device(trace, launches, device)), found)
        for device, found in gaps.items()
    )
    idle = _idle_of_threads(trace, chains, gaps.values())
    work = _launches_of_threads(trace, devices)
    if loop_thread >= 0:
        work[loop_thread] = max(work[loop_thread], 1)
    involved = np.flatnonzero((idle > 0) | (work > 0))
    shown = sorted(involved.tolist(), key=lambda thread: (-idle[thread], -work[thread], thread))
    if not gaps:
        # Without a device nobody feeds one; the busiest threads tell what was recorded.
        shown = _busiest(trace)
    return Lanes(
        trace=trace,
        devices=devices,
        threads=tuple(
            ThreadLanes(thread, int(idle[thread]), tuple(_of_thread(timelines, thread)))
            for thread in shown[:MOST_THREADS]
        ),
        threads_left_out=len(shown[MOST_THREADS:]),
        paths=tuple(timelines.path_text(path) for path in range(timelines.path_count)),
        holders=tuple(chains.holders),
    )


def stack(start: Int64, end: Int64) -> NDArray[np.int32]:
    """The lowest row in which each event fits beside those before it: a call's nesting depth.

    Args:
        start: Starts in ascending order, shape (n,).
        end: Ends, shape (n,).

    Returns:
        Rows from 0 on, shape (n,); events of one row do not overlap.
    """
    depth = np.zeros(len(start), np.int32)
    if not len(start):
        return depth
    # Only where the rows before reach into an event is there anything to stack.
    reach = np.maximum.accumulate(end)
    meets = np.append(False, start[1:] < reach[:-1])
    if not meets.any():
        return depth
    # A cluster is a run of events that overlap through each other; most are of one event.
    cluster = np.cumsum(~meets)
    several = np.flatnonzero(np.bincount(cluster)[cluster] > 1)
    free: list[int] = []
    at = 0
    starts, ends, clusters = (a[several].tolist() for a in (start, end, cluster))
    rows = []
    for begin, finish, here in zip(starts, ends, clusters, strict=True):
        if here != at:
            free, at = [], here
        for row, time in enumerate(free):
            if time <= begin:
                free[row] = finish
                break
        else:
            row = len(free)
            free.append(finish)
        rows.append(row)
    depth[several] = rows
    return depth


def _lane(
    trace: Trace, kind: str, table: str, rows: Int64, launches: Launches | None = None
) -> list[Lane]:
    if not len(rows):
        return []
    events = getattr(trace, table)
    start, end = events.start[rows], events.end[rows]
    if (start[1:] <= start[:-1]).any():
        order = np.lexsort((-end, start))
        rows, start, end = rows[order], start[order], end[order]
    calls = None
    if launches is not None:
        calls = launches.of(table)[rows]
    return [Lane(kind, table, rows, stack(start, end), calls)]


def _of_device(trace: Trace, launches: Launches, device: int) -> Sequence[Lane]:
    def rows(table: str) -> Int64:
        events = getattr(trace, table)
        return np.arange(len(events))[rows_of_device(trace, events, device)]

    found = _lane(trace, "kernels", "kernels", rows("kernels"), launches)
    found += _lane(trace, "graphs", "graphs", rows("graphs"), launches)
    copies = rows("copies")
    for code, direction in enumerate(COPY_DIRECTIONS):
        of_direction = copies[trace.copies.direction[copies] == code]
        found += _lane(trace, direction, "copies", of_direction, launches)
    return found + _lane(trace, "memsets", "memsets", rows("memsets"), launches)


def _of_thread(timelines: Timelines, thread: int) -> Sequence[Lane]:
    trace, timeline = timelines.trace, timelines.thread(thread)
    return [
        *_lane(trace, "nvtx", "ranges", np.flatnonzero(trace.ranges.thread == thread)),
        *_lane(trace, "cuda", "api_calls", timeline.api_rows),
        *_lane(trace, "osrt", "os_calls", timeline.os_rows),
    ]


def _idle_of_threads(trace: Trace, chains: WaitChains, gaps: Iterable[Gaps]) -> Int64:
    """Idle time by thread, as the one that feeds or the one that holds up; shape (threads,)."""
    idle = np.zeros(len(trace.threads), np.int64)
    for found in gaps:
        fed = found.idle.thread >= 0
        idle += sums(found.idle.thread[fed], found.length[fed], len(idle))
        segments = found.segments
        held = segments.holder >= 0
        if held.any():
            thread_of = np.array([holder.thread for holder in chains.holders], np.int64)
            holders = thread_of[segments.holder[held]]
            idle += sums(holders, segments.held_ns[held], len(idle))
    return idle


def _launches_of_threads(trace: Trace, devices: Iterable[DeviceLanes]) -> Int64:
    """How much each thread launched; shape (threads,)."""
    count = np.zeros(len(trace.threads), np.int64)
    for device in devices:
        for lane in device.lanes:
            if lane.calls is not None:
                threads = trace.api_calls.thread[lane.calls[lane.calls >= 0]]
                count += np.bincount(threads[threads >= 0], minlength=len(count))
    return count


def _busiest(trace: Trace) -> list[int]:
    events = [trace.ranges.thread, trace.api_calls.thread, trace.os_calls.thread]
    count = np.zeros(len(trace.threads), np.int64)
    for thread in events:
        count += np.bincount(thread[thread >= 0], minlength=len(count))
    order = np.argsort(-count, kind="stable")
    return [int(thread) for thread in order if count[thread]]
