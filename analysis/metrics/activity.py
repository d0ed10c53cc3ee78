"""What each device did, as interval sets, and the window that is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analysis.intervals import EMPTY, IntervalSet, interval, union
from analysis.trace import COPY_DIRECTIONS, Trace
from analysis.trace.model import Activities


@dataclass(frozen=True, eq=False)
class DeviceActivity:
    """The unions of one device's activities over the whole capture.

    Attributes:
        device: Index into `Trace.devices`.
        kernels: Kernels and graph replays (K).
        copies: By direction, all of `COPY_DIRECTIONS`.
        memsets: Memory fills (M).
        first: Start of the first activity, ns; empty activities count.
        last: End of the last one.
    """

    device: int
    first: int
    last: int
    kernels: IntervalSet
    copies: Mapping[str, IntervalSet]
    memsets: IntervalSet

    @cached_property
    def all_copies(self) -> IntervalSet:
        """Copies of any direction (C)."""
        every = EMPTY
        for copies in self.copies.values():
            every = every | copies
        return every

    @cached_property
    def busy(self) -> IntervalSet:
        """Whatever the device did (K u C u M)."""
        return self.kernels | (self.all_copies | self.memsets)

    @cached_property
    def without_kernels(self) -> IntervalSet:
        """All time in which no kernel ran."""
        return self.kernels.complement()

    def default_window(self) -> IntervalSet:
        """From the first to the last activity."""
        return interval(self.first, self.last)


def of_device(trace: Trace, device: int) -> DeviceActivity:
    """The activities of one device, which has some.

    Args:
        trace: The trace.
        device: Index into `Trace.devices`.
    """

    def covered(*tables: Activities) -> IntervalSet:
        parts = [(t, rows_of_device(trace, t, device)) for t in tables if len(t)]
        if not parts:
            return EMPTY
        return union(
            np.concatenate([table.start[rows] for table, rows in parts]),
            np.concatenate([table.end[rows] for table, rows in parts]),
        )

    copies = trace.copies
    tables = (trace.kernels, trace.graphs, copies, trace.memsets)
    seen = [(t, rows_of_device(trace, t, device)) for t in tables]
    seen = [(table, rows) for table, rows in seen if len(table.start[rows])]
    of_this = rows_of_device(trace, copies, device)
    directions = copies.direction[of_this]
    start, end = copies.start[of_this], copies.end[of_this]
    return DeviceActivity(
        device,
        first=min(int(table.start[rows].min()) for table, rows in seen),
        last=max(int(table.end[rows].max()) for table, rows in seen),
        kernels=covered(trace.kernels, trace.graphs),
        copies={
            name: union(start[directions == code], end[directions == code])
            for code, name in enumerate(COPY_DIRECTIONS)
        },
        memsets=covered(trace.memsets),
    )


def rows_of_device(
    trace: Trace, table: Activities, device: int
) -> slice | np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """An index that selects a device's rows of a table; a slice where it has them all."""
    return slice(None) if len(trace.devices) == 1 else table.device == device
