"""Which API call launched an activity, and which activity ended a gap."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analysis.grouping import Positions
from analysis.intervals import Int64
from analysis.metrics.activity import rows_of_device
from analysis.trace import Trace
from analysis.trace.model import Activities

# CUPTI's correlation ids are unsigned 32-bit; above them the process fits into one key.
_CORRELATION_BITS = 32

#: The tables that hold activities, in the order in which one of equal starts is chosen.
TABLES = ("kernels", "graphs", "copies", "memsets")


class Launches:
    """Finds the launching call of device work by correlation id and process.

    Several calls may share an id (a driver call inside a runtime call); the one that starts first
    counts, of those the one that ends last, of those the first row.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        api = trace.api_calls
        process_of = np.array([thread.process for thread in trace.threads], np.int64)
        rows = np.flatnonzero((api.correlation > 0) & (api.thread >= 0))
        if len(rows):
            keys = _keys(process_of[api.thread[rows]], api.correlation[rows])
            if (keys[1:] <= keys[:-1]).any():
                order = np.argsort(keys, kind="stable")
                keys, rows = keys[order], rows[order]
                first = np.append(True, keys[1:] != keys[:-1])
                if not first.all():
                    shared = ~first | ~np.append(first[1:], True)
                    some = rows[shared]
                    best = np.lexsort((some, -api.end[some], api.start[some], keys[shared]))
                    rows[shared] = some[best]
                    keys, rows = keys[first], rows[first]
        else:
            keys = np.empty(0, np.int64)
        self._keys, self._rows = Positions(keys), rows
        self._of_table: dict[str, Int64] = {}

    def of(self, table: str) -> Int64:
        """The launching call's row in `Trace.api_calls` of each activity of a table.

        Args:
            table: One of `TABLES`.

        Returns:
            Rows, -1 for an activity without a call; as long as the table.
        """
        if table not in self._of_table:
            work: Activities = getattr(self._trace, table)
            wanted = _keys(work.process.astype(np.int64), work.correlation)
            index = self._keys.of(wanted)
            found = (index >= 0) & (work.correlation > 0)
            rows = self._rows[np.where(found, index, 0)] if len(self._rows) else index
            self._of_table[table] = rows if found.all() else np.where(found, rows, -1)
        return self._of_table[table]


def _keys(process: Int64, correlation: Int64) -> Int64:
    return (process << _CORRELATION_BITS) | correlation


@dataclass(frozen=True, eq=False)
class Feeders:
    """Who fed the activities that end gaps; arrays of shape (gaps,).

    Attributes:
        table: Index into `TABLES` of the activity that ends the gap, -1 when none does.
        row: Its row there.
        call: Row of the feeding call in `Trace.api_calls`, -1 when there is none.
        thread: Index of the feeding thread, -1 when nobody can be named.
        inferred: Whether the thread is that of another activity's call.
    """

    table: NDArray[np.int8]
    row: Int64
    call: Int64
    thread: NDArray[np.int32]
    inferred: NDArray[np.bool_]


class DeviceWork:
    """The activities of one device as one sequence in order of start.

    Of equal starts kernels come first, then graph replays, copies, memsets, in order of rows.

    Args:
        trace: The trace.
        launches: Its launching calls.
        device: Index into `Trace.devices`.
    """

    def __init__(self, trace: Trace, launches: Launches, device: int) -> None:
        self._trace = trace
        self._launches = launches
        self._tables: list[Activities] = [getattr(trace, name) for name in TABLES]
        self._rows = [
            np.arange(len(table))[rows_of_device(trace, table, device)] for table in self._tables
        ]

    @cached_property
    def _sorted(self) -> list[tuple[Int64, Int64]]:
        """Per table: starts in order, and the rows they belong to."""
        found = []
        for table, rows in zip(self._tables, self._rows, strict=True):
            start = table.start[rows]
            in_order = not (start[1:] < start[:-1]).any()
            order = slice(None) if in_order else np.argsort(start, kind="stable")
            found.append((start[order], rows[order]))
        return found

    def starting_at(self, times: Int64) -> tuple[NDArray[np.int8], Int64]:
        """The activity that starts at each time: table and row, -1 where there is none."""
        table = np.full(len(times), -1, np.int8)
        row = np.full(len(times), -1, np.int64)
        for code, (start, rows) in enumerate(self._sorted):
            if not len(start):
                continue
            index = np.searchsorted(start, times)
            index[index == len(start)] = 0
            hit = (table < 0) & (start[index] == times)
            table[hit], row[hit] = code, rows[index[hit]]
        return table, row

    def calls_of(self, table: NDArray[np.int8], row: Int64) -> Int64:
        """The launching call's row of each activity, -1 without one."""
        call = np.full(len(row), -1, np.int64)
        for code, name in enumerate(TABLES):
            here = table == code
            if here.any():
                call[here] = self._launches.of(name)[row[here]]
        return call

    @cached_property
    def sequence(self) -> tuple[NDArray[np.int8], Int64, Int64, NDArray[np.int32], Int64]:
        """All activities in order: table, row, start, process, launching call's row."""
        table = np.concatenate(
            [np.full(len(rows), code, np.int8) for code, (_, rows) in enumerate(self._sorted)]
        )
        row = np.concatenate([rows for _, rows in self._sorted])
        start = np.concatenate([starts for starts, _ in self._sorted])
        order = np.argsort(start, kind="stable")
        table, row, start = table[order], row[order], start[order]
        process = np.empty(len(row), np.int32)
        for code, work in enumerate(self._tables):
            here = table == code
            process[here] = work.process[row[here]]
        return table, row, start, process, self.calls_of(table, row)

    def feeders(self, gap_end: Int64) -> Feeders:
        """Who should have fed the device in each gap.

        Args:
            gap_end: Their ends, ns, shape (n,): where an activity starts, or past the last one.
        """
        table, row = self.starting_at(gap_end)
        call = self.calls_of(table, row)
        threads = self._trace.api_calls.thread
        thread = np.full(len(call), -1, np.int32)
        thread[call >= 0] = threads[call[call >= 0]]
        inferred = np.zeros(len(call), bool)
        for i in np.flatnonzero(call < 0):
            stand_in = self._stand_in(int(gap_end[i]), bool(table[i] >= 0))
            if stand_in >= 0:
                thread[i], inferred[i] = threads[stand_in], True
        return Feeders(table, row, call, thread, inferred)

    def _stand_in(self, gap_end: int, ended: bool) -> int:
        """The call that stands in for a missing one, -1 without any.

        That of the next activity of the same process that has one, else of the last one before.
        """
        _, _, start, process, call = self.sequence
        if not len(start):
            return -1
        # The activity that ends the gap; after the last gap the last one before it.
        side = np.searchsorted(start, gap_end, side="left")
        at = int(side) if ended else int(side) - 1
        known = self._called[int(process[max(at, 0)])]
        after = np.searchsorted(known, at, side="right")
        if ended and after < len(known):
            return int(call[known[after]])
        before = int(after) - 1
        return int(call[known[before]]) if before >= 0 else -1

    @cached_property
    def _called(self) -> dict[int, Int64]:
        """Per process the positions in `sequence` of activities that have a launching call."""
        _, _, _, process, call = self.sequence
        return {
            int(index): np.flatnonzero((process == index) & (call >= 0))
            for index in np.unique(process)
        }
