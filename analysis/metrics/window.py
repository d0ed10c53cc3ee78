"""The window that a user chooses by time or by NVTX ranges."""

from __future__ import annotations

import re

import numpy as np

from analysis.errors import InputError, NotTracedError
from analysis.grouping import values_of
from analysis.intervals import IntervalSet, interval, union
from analysis.metrics.launches import TABLES
from analysis.trace import Trace


def compiled(pattern: str, option: str) -> re.Pattern[str]:
    """A pattern that the user gave.

    Raises:
        InputError: It is no regular expression.
    """
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InputError(
            f"{option} {pattern!r} is not a regular expression: {error}",
            hint="it is matched against the whole name of a range, such as 'Batch .*'",
        ) from None


def select(
    trace: Trace, from_ns: int | None, to_ns: int | None, nvtx: str | None
) -> IntervalSet | None:
    """The window that the user chose; None for the default one.

    Args:
        trace: The trace.
        from_ns: Its start, ns; None for the first activity.
        to_ns: Its end, ns; None for the last activity.
        nvtx: What the whole name of the ranges matches that it consists of; None for all time.

    Raises:
        InputError: It is empty, or no range matches.
        NotTracedError: Ranges are asked for, and none was recorded.
    """
    chosen: IntervalSet | None = None
    if from_ns is not None or to_ns is not None:
        low = from_ns if from_ns is not None else _first_activity(trace)
        high = to_ns if to_ns is not None else _last_activity(trace)
        chosen = interval(low, high)
        if not len(chosen):
            raise InputError(
                f"the window is empty: it would run from {low:,} to {high:,} ns",
                hint="times count from the session's start; `nsyslab info` shows what there is",
            )
    if nvtx is not None:
        ranges = _ranges_window(trace, nvtx)
        chosen = ranges if chosen is None else chosen & ranges
        if not len(chosen):
            raise InputError(f"no range that matches {nvtx!r} lies inside the window")
    return chosen


def _ranges_window(trace: Trace, pattern: str) -> IntervalSet:
    expression = compiled(pattern, "--nvtx")
    if not len(trace.ranges):
        raise NotTracedError(
            f"--nvtx {pattern!r} selects nothing: no NVTX range was recorded",
            hint="record with --trace=nvtx, and see `nsyslab info` for what was",
        )
    names = sorted({trace.names[name] for name in values_of(trace.ranges.name).tolist()})
    matching = [name for name in names if expression.fullmatch(name)]
    if not matching:
        import difflib

        close = difflib.get_close_matches(pattern, names, n=5, cutoff=0.3) or names[:5]
        raise InputError(
            f"no NVTX range matches {pattern!r}",
            hint="the whole name must match; there are: " + ", ".join(repr(name) for name in close),
        )
    index = {name: i for i, name in enumerate(trace.names)}
    keep = np.isin(trace.ranges.name, [index[name] for name in matching])
    return union(trace.ranges.start[keep], trace.ranges.end[keep])


def _first_activity(trace: Trace) -> int:
    tables = [getattr(trace, name) for name in TABLES]
    return min((int(table.start.min()) for table in tables if len(table)), default=0)


def _last_activity(trace: Trace) -> int:
    tables = [getattr(trace, name) for name in TABLES]
    return max((int(table.end.max()) for table in tables if len(table)), default=trace.end)
