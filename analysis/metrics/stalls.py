"""OS runtime calls: how often, how long, and how much of that kept a device idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.grouping import group, sums, values_of
from analysis.intervals import Int64, IntervalSet, pairs_overlapping, union
from analysis.metrics.attribution import Segments
from analysis.metrics.result import NotAvailable
from analysis.metrics.timelines import Timelines
from analysis.metrics.waits import WaitChains

#: Reported even when it was never called: releasing fresh host memory is the classic hidden stall.
ALWAYS_REPORTED = "munmap"


@dataclass(frozen=True, slots=True)
class StallPath:
    """The calls of one function below one NVTX path of the calling threads."""

    path: str
    calls: int
    total_ns: int
    idle_ns: int


@dataclass(frozen=True, slots=True)
class Stall:
    """One OS runtime function.

    Attributes:
        function: Its name.
        calls: How many calls.
        total_ns: Their durations added up over all threads, ns.
        max_ns: The longest, ns.
        idle_ns: How much device idle time they caused, directly or by holding up the feeding
            thread, ns; summed over devices.
        nvtx: The same by path, largest first.
    """

    function: str
    calls: int
    total_ns: int
    max_ns: int
    idle_ns: int
    nvtx: tuple[StallPath, ...]


def stalls(
    timelines: Timelines,
    chains: WaitChains,
    segments: Sequence[Segments],
    window: IntervalSet | None,
) -> tuple[Stall, ...] | NotAvailable:
    """The stall table, by idle time caused, then total, then name.

    Args:
        timelines: The threads.
        chains: The wait chains that the segments refer to.
        segments: The idle segments of each device.
        window: What is looked at; None for the whole capture.
    """
    trace = timelines.trace
    if not trace.provenance.osrt:
        return NotAvailable("OS runtime calls were not traced")
    table = trace.os_calls
    idle = np.zeros(len(table), np.int64)
    for of_device in segments:
        inside = of_device.os_call >= 0
        idle += sums(of_device.os_call[inside], of_device.ns[inside], len(table))
        _add_held(idle, of_device, timelines, chains)

    length = table.end - table.start
    if window is not None:
        length = window.measure(table.start, table.end)
    seen = (length > 0) | (idle > 0)
    if window is None:
        seen = np.ones(len(table), bool)
    else:
        seen |= (table.start == table.end) & (window.locate(table.start) >= 0)
    rows = np.flatnonzero(seen)
    path = np.zeros(len(table), np.int64)
    for thread in values_of(table.thread[rows]).tolist():
        mine = rows[table.thread[rows] == thread]
        path[mine] = timelines.thread(thread).path_at(table.start[mine])

    found: dict[str, list[Stall]] = {}
    first, index = group([table.name[rows], path[rows]])
    calls = np.bincount(index, minlength=len(first))
    totals, idles = sums(index, length[rows], len(first)), sums(index, idle[rows], len(first))
    longest = np.zeros(len(first), np.int64)
    np.maximum.at(longest, index, length[rows])
    for i, row in enumerate(rows[first].tolist()):
        where = timelines.path_text(int(path[row]))
        part = StallPath(where, int(calls[i]), int(totals[i]), int(idles[i]))
        stall = Stall(
            trace.names[table.name[row]], part.calls, part.total_ns, int(longest[i]), part.idle_ns,
            (part,),
        )  # fmt: skip
        found.setdefault(stall.function, []).append(stall)
    merged = [_merge(parts) for parts in found.values()]
    if ALWAYS_REPORTED not in found:
        merged.append(Stall(ALWAYS_REPORTED, 0, 0, 0, 0, ()))
    return tuple(sorted(merged, key=lambda s: (-s.idle_ns, -s.total_ns, s.function)))


def _merge(parts: list[Stall]) -> Stall:
    return Stall(
        parts[0].function,
        sum(part.calls for part in parts),
        sum(part.total_ns for part in parts),
        max(part.max_ns for part in parts),
        sum(part.idle_ns for part in parts),
        tuple(
            sorted(
                (path for part in parts for path in part.nvtx),
                key=lambda path: (-path.idle_ns, -path.total_ns, path.path),
            )
        ),
    )


def _add_held(idle: Int64, segments: Segments, timelines: Timelines, chains: WaitChains) -> None:
    """Adds what the holders' own OS runtime calls cover of the waits that they held."""
    for index in values_of(segments.holder[segments.holder >= 0]).tolist():
        holder = chains.holders[index]
        rows = segments.holder == index
        held = union(segments.start[rows], segments.end[rows])
        held = held & chains.measure(holder.thread, holder.rule)
        layer = timelines.thread(holder.thread).osrt
        mine, call = pairs_overlapping(held.start, held.end, IntervalSet(layer.start, layer.end))
        amount = np.minimum(held.end[mine], layer.end[call]) - np.maximum(
            held.start[mine], layer.start[call]
        )
        idle += sums(layer.row[call], amount, len(idle))
