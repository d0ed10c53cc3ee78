"""Copies by direction, host memory kind and kind of call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.grouping import group
from analysis.intervals import Int64, IntervalSet, union
from analysis.metrics.activity import rows_of_device
from analysis.metrics.launches import Launches
from analysis.metrics.overlap import PLACES
from analysis.trace import COPY_DIRECTIONS, MEMORY_KINDS, Trace

API_KINDS = ("async", "sync", "unknown")


@dataclass(frozen=True, slots=True)
class Transfer:
    """Copies of one kind.

    Attributes:
        direction: One of `COPY_DIRECTIONS`.
        memory: Kind of the host memory, one of `MEMORY_KINDS`.
        api: Whether they were called by an asynchronous API, one of `API_KINDS`.
        count: How many.
        bytes: Their sizes together.
        ns: Length of their union, ns.
        gb_per_s: Bytes over `ns`, 10^9 bytes per second; None for no time.
        synchronous: Whether the call waits for the copy: a synchronous API does, and pageable
            memory makes any call do. None where that is not known.
    """

    direction: str
    memory: str
    api: str
    count: int
    bytes: int
    ns: int
    gb_per_s: float | None
    synchronous: bool | None


def transfers(
    trace: Trace, launches: Launches, device: int, window: IntervalSet
) -> tuple[Transfer, ...]:
    """The transfer table of one device, in the order of directions, memory kinds, API kinds.

    Args:
        trace: The trace.
        launches: Its launching calls.
        device: Index into `Trace.devices`.
        window: Copies that start inside it are counted, whole.
    """
    copies = trace.copies
    rows = np.arange(len(copies))[rows_of_device(trace, copies, device)]
    rows = rows[window.locate(copies.start[rows]) >= 0]
    api = api_kinds(trace, launches, rows)
    first, index = (
        group([copies.direction[rows], copies.memory[rows], api])
        if len(rows)
        else (
            rows,
            rows,
        )
    )
    result = []
    for i, k in enumerate(first.tolist()):
        mine = rows[index == i]
        direction = COPY_DIRECTIONS[copies.direction[rows[k]]]
        memory, kind = MEMORY_KINDS[copies.memory[rows[k]]], API_KINDS[api[k]]
        size = int(copies.bytes[mine].sum())
        length = union(copies.start[mine], copies.end[mine]).total
        blocking = kind == "sync" or memory == "pageable"
        result.append(
            Transfer(
                direction,
                memory,
                kind,
                len(mine),
                size,
                length,
                round(size / length, PLACES) if length else None,
                True if blocking else None if kind == "unknown" else False,
            )
        )
    return tuple(result)


def api_kinds(trace: Trace, launches: Launches, rows: Int64) -> Int64:
    """Index into `API_KINDS` of the call of each copy.

    Args:
        trace: The trace.
        launches: Its launching calls.
        rows: Rows of `Trace.copies`.
    """
    is_async = np.array(["Async" in name for name in trace.names] + [False], bool)
    call = launches.of("copies")[rows]
    known = np.where(is_async[trace.api_calls.name[call]], 0, 1) if len(trace.api_calls) else call
    return np.where(call >= 0, known, 2)
