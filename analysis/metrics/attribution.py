"""Splits idle time, exactly, into what the feeding thread was doing; see docs/definitions.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.grouping import distinct, group, sums, values_of
from analysis.intervals import Int64
from analysis.metrics.timelines import ThreadTimeline, Timelines
from analysis.metrics.waits import WaitChains

#: Causes of idle time; a cause column holds indices into this.
CAUSES = ("overhead", "queued", "launch", "cuda_api", "osrt", "host", "unknown")
OVERHEAD, QUEUED, LAUNCH, CUDA_API, OSRT, HOST, UNKNOWN = range(len(CAUSES))

#: So many stretches at a time: the arrays of a block are small enough to be used again.
_BLOCK = 1 << 17

_NO_CALL = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Idle:
    """Disjoint stretches of idle time in order, each with who should have ended it; shape (n,).

    Attributes:
        start: Start, ns.
        end: End, ns.
        began: When the whole gap began of which this is a part, ns.
        thread: Feeding thread, index into `Trace.threads`, -1 unknown.
        call: Row of the feeding call in `Trace.api_calls`, -1 without one.
    """

    start: Int64
    end: Int64
    began: Int64
    thread: NDArray[np.int32]
    call: Int64

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, eq=False)
class Segments:
    """Pieces of idle time of one cause each; shape (n,). They tile the idle time.

    Attributes:
        owner: Index of the stretch of `Idle` it belongs to, ascending.
        start: Start, ns.
        end: End, ns.
        cause: Index into `CAUSES`.
        name: Index into `Trace.names`; -1 for host and unknown, which the path names.
        via: The OS runtime call inside a CUDA call, index into `Trace.names`, -1 without.
        path: The feeding thread's NVTX path, an id of `Timelines`.
        holder: Who held up the feeding thread, index into `WaitChains.holders`, -1 nobody.
        held_ns: How much of the segment the holder covers, ns.
        os_call: Row in `Trace.os_calls` of the call that the feeding thread was in, if it shows as
            the segment's name or `via`; else -1.
    """

    owner: Int64
    start: Int64
    end: Int64
    cause: NDArray[np.int8]
    name: NDArray[np.int32]
    via: NDArray[np.int32]
    path: NDArray[np.int32]
    holder: NDArray[np.int32]
    held_ns: Int64
    os_call: Int64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def ns(self) -> Int64:
        """Lengths, ns."""
        return self.end - self.start


def attribute(timelines: Timelines, chains: WaitChains, idle: Idle) -> Segments:
    """Attributes idle time to the last nanosecond.

    Args:
        timelines: The threads.
        chains: The wait chains of the same trace.
        idle: What is to be explained.
    """
    parts = []
    for thread in values_of(idle.thread).tolist():
        of_thread = np.flatnonzero(idle.thread == thread)
        parts += [
            _of_thread(timelines, chains, idle, of_thread[first : first + _BLOCK], thread)
            for first in range(0, len(of_thread), _BLOCK)
        ]
    segments = _concatenate(parts)
    return _without_empty_holders(segments)


def _concatenate(parts: Sequence[Segments]) -> Segments:
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        if parts
        else np.empty(0, np.int64)
        for field in fields(Segments)
    }
    if (columns["start"][1:] >= columns["start"][:-1]).all():
        return Segments(**columns)
    order = np.argsort(columns["start"], kind="stable")
    return Segments(**{name: column[order] for name, column in columns.items()})


def _of_thread(
    timelines: Timelines, chains: WaitChains, idle: Idle, which: Int64, thread: int
) -> Segments:
    trace = timelines.trace
    timeline = timelines.thread(thread)
    start, end = idle.start[which], idle.end[which]
    call = idle.call[which]
    has_call = call >= 0
    call_start = np.full(len(which), _NO_CALL)
    call_end = np.full(len(which), _NO_CALL)
    call_start[has_call] = trace.api_calls.start[call[has_call]]
    call_end[has_call] = trace.api_calls.end[call[has_call]]
    queued = has_call & (call_end <= idle.began[which])

    owner, seg_start, seg_end = _cut(timeline, start, end, call_start, call_end, queued)

    in_cuda = timeline.cuda.at(seg_start)
    in_osrt = timeline.osrt.at(seg_start)
    in_overhead = timeline.overhead.at(seg_start)
    os_name = timeline.osrt.name[in_osrt] if len(timeline.osrt.name) else np.int32(-1)
    os_name = np.where(in_osrt >= 0, os_name, -1).astype(np.int32)
    is_queued = queued[owner]
    launching = ~is_queued & (seg_start >= call_start[owner])
    inside_call = launching & (seg_start < call_end[owner])
    waiting = timelines.is_wait[os_name]
    call_name = np.full(len(which), -1, np.int32)
    call_name[has_call] = trace.api_calls.name[call[has_call]]

    # From the lowest priority to the highest: each overwrites those before.
    cause = np.full(len(owner), HOST if thread >= 0 else UNKNOWN, np.int8)
    name = np.full(len(owner), -1, np.int32)
    via = np.full(len(owner), -1, np.int32)
    os_row = np.full(len(owner), -1, np.int64)

    def claim(mask: NDArray[np.bool_], code: int, names: NDArray[np.int32]) -> None:
        cause[mask] = code
        name[mask] = names[mask]
        via[mask] = -1
        os_row[mask] = -1

    def through_os(mask: NDArray[np.bool_]) -> None:
        os_row[mask] = timeline.osrt.row[in_osrt[mask]]

    claim(in_osrt >= 0, OSRT, os_name)
    through_os(in_osrt >= 0)
    cuda_names = timeline.cuda.name[in_cuda] if len(timeline.cuda.name) else name
    inner = in_osrt >= 0
    for mask, code, names in (
        (in_cuda >= 0, CUDA_API, cuda_names),
        (launching, LAUNCH, call_name[owner]),
        (inside_call & waiting, CUDA_API, call_name[owner]),
    ):
        claim(mask, code, names)
        nested = mask & inner & (inside_call if code == LAUNCH else True)
        via[nested] = os_name[nested]
        through_os(nested)
    claim(is_queued, QUEUED, call_name[owner])
    overhead_names = timeline.overhead.name[in_overhead] if len(timeline.overhead.name) else name
    claim(in_overhead >= 0, OVERHEAD, overhead_names)

    segments = Segments(
        owner=which[owner],
        start=seg_start,
        end=seg_end,
        cause=cause,
        name=name,
        via=via,
        path=timeline.path_at(seg_start),
        holder=np.full(len(owner), -1, np.int32),
        held_ns=np.zeros(len(owner), np.int64),
        os_call=os_row,
    )
    if thread >= 0:
        # A synchronising call waits for the device, whatever it sits in meanwhile.
        synchronising = (in_cuda >= 0) & timelines.synchronises[cuda_names]
        in_wait = waiting & (os_row >= 0) & (cause != LAUNCH) & ~synchronising
        _add_holders(chains, segments, thread, np.flatnonzero(in_wait), in_osrt)
    return segments


def _cut(
    timeline: ThreadTimeline,
    start: Int64,
    end: Int64,
    call_start: Int64,
    call_end: Int64,
    queued: NDArray[np.bool_],
) -> tuple[Int64, Int64, Int64]:
    """Cuts stretches wherever anything changes: index of the stretch, start, end of each piece."""
    edges = [start, end]
    edges += [edge[(edge > start) & (edge < end)] for edge in (call_start, call_end)]

    def cut_at(times: Int64, start: Int64, end: Int64) -> None:
        if len(start):
            low, high = np.searchsorted(times, [start[0], end[-1]])
            times = times[low:high]
            index = np.searchsorted(start, times, side="right") - 1
            inside = (index >= 0) & (times > start[index]) & (times < end[index])
            edges.append(times[inside])

    # Queued stretches have one cause from end to end, whatever the thread does.
    fed_start, fed_end = start[~queued], end[~queued]
    for layer in (timeline.cuda, timeline.osrt):
        cut_at(layer.start, fed_start, fed_end)
        cut_at(layer.end, fed_start, fed_end)
    cut_at(timeline.overhead.start, start, end)
    cut_at(timeline.overhead.end, start, end)
    cut_at(timeline.paths[0], start, end)

    points = np.concatenate(edges)
    # Each of the edges is in order already, of which only the stable sort makes use.
    points.sort(kind="stable")
    piece_start, piece_end = points[:-1], points[1:]
    first = np.append(np.searchsorted(piece_start, start), len(piece_start))
    owner = np.repeat(np.arange(len(start)), np.diff(first))
    keep = (piece_start < piece_end) & (piece_start < end[owner])
    return owner[keep], piece_start[keep], piece_end[keep]


def _add_holders(
    chains: WaitChains, segments: Segments, thread: int, waits: Int64, in_osrt: Int64
) -> None:
    """Fills in `holder` and `held_ns` of the segments in which the thread waits."""
    if not len(waits):
        return
    episodes = chains.episodes(thread)
    episode = episodes.of_call[in_osrt[waits]]
    wanted, position = distinct(episode)
    holder = chains.find(thread, episodes, wanted)[position]
    segments.holder[waits] = holder
    for index in values_of(holder[holder >= 0]).tolist():
        found = chains.holders[index]
        rows = waits[holder == index]
        measure = chains.measure(found.thread, found.rule)
        segments.held_ns[rows] = measure.measure(segments.start[rows], segments.end[rows])


def _without_empty_holders(segments: Segments) -> Segments:
    """Takes the holder away from parts of which it covers nothing."""
    held = np.flatnonzero(segments.holder >= 0)
    if len(held):
        keys = [
            getattr(segments, name)[held]
            for name in ("owner", "cause", "name", "via", "path", "holder")
        ]
        first, index = group(keys)
        empty = sums(index, segments.held_ns[held], len(first)) == 0
        segments.holder[held[empty[index]]] = -1
    return segments
