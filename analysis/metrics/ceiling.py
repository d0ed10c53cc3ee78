"""How fast the steps could be at most if one kind of loss went away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.intervals import IntervalSet, interval, union
from analysis.metrics.activity import DeviceActivity, rows_of_device
from analysis.metrics.overlap import PLACES
from analysis.metrics.steps import Loop
from analysis.trace import COPY_DIRECTIONS, MEMORY_KINDS, Trace

#: Smaller copies measure latency rather than bandwidth.
PINNED_SAMPLE_BYTES = 1_000_000

_PAGEABLE = MEMORY_KINDS.index("pageable")
_PINNED = MEMORY_KINDS.index("pinned")


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Steps per second now and at most; ceilings do not add up.

    Attributes:
        now_per_second: As it is.
        no_idle_per_second: Without idle.
        overlapped_per_second: With every copy hidden behind compute or the other direction.
        pinned_per_second: The same with pageable copies at the pinned rate; None without a rate.
        no_idle_ratio: Against now. So for the others; None where the figure is.
        pinned_gb_per_s: The rate, by direction, and where it is from.
    """

    now_per_second: float | None
    no_idle_per_second: float | None
    overlapped_per_second: float | None
    pinned_per_second: float | None
    no_idle_ratio: float | None
    overlapped_ratio: float | None
    pinned_ratio: float | None
    pinned_gb_per_s: dict[str, float]
    pinned_rate_from: dict[str, str]

    @property
    def best_per_second(self) -> float | None:
        """The furthest of the ceilings: all copies hidden, at the pinned rate where it is known."""
        return self.pinned_per_second or self.overlapped_per_second


def ceiling(
    trace: Trace, activity: DeviceActivity, loop: Loop, pinned_gbps: float | None
) -> Ceiling:
    """Ceilings of the steps.

    Args:
        trace: The trace.
        activity: The loop's device.
        loop: The steps.
        pinned_gbps: Rate of pinned copies, 10^9 bytes per second, used where the trace has none.
    """
    span = interval(*loop.span)
    length = span.total
    compute = (activity.kernels & span).total
    busy = (activity.busy & span).total
    copies = {name: (activity.copies[name] & span).total for name in ("h2d", "d2h")}
    rates, origin = pinned_rates(trace, activity.device, pinned_gbps)
    pinned = _at_pinned_rate(trace, activity, span, rates)
    count = len(loop.rows)

    def per_second(ns: float | None) -> float | None:
        return round(1e9 * count / ns, PLACES) if ns else None

    def ratio(ns: float | None) -> float | None:
        return round(length / ns, PLACES) if ns else None

    overlapped = max(compute, *copies.values())
    at_rate = None if pinned is None else max(compute, *pinned.values())
    return Ceiling(
        per_second(length),
        per_second(busy),
        per_second(overlapped),
        per_second(at_rate),
        ratio(busy),
        ratio(overlapped),
        ratio(at_rate),
        {name: round(rate, PLACES) for name, rate in rates.items()},
        origin,
    )


def pinned_rates(
    trace: Trace, device: int, given: float | None
) -> tuple[dict[str, float], dict[str, str]]:
    """Bytes per ns (which is GB/s) of pinned copies by direction, and where each is from.

    Args:
        trace: The trace.
        device: Index into `Trace.devices`.
        given: The rate of a direction that the trace has no pinned copies of, if it has none of
            the other either; None if that is not known.
    """
    copies = trace.copies
    rows = np.arange(len(copies))[rows_of_device(trace, copies, device)]
    large = rows[(copies.memory[rows] == _PINNED) & (copies.bytes[rows] >= PINNED_SAMPLE_BYTES)]
    measured: dict[str, float] = {}
    for name in ("h2d", "d2h"):
        mine = large[copies.direction[large] == COPY_DIRECTIONS.index(name)]
        time = union(copies.start[mine], copies.end[mine]).total
        if time:
            measured[name] = int(copies.bytes[mine].sum()) / time
    rates, origin = {}, {}
    for name, other in (("h2d", "d2h"), ("d2h", "h2d")):
        if name in measured:
            rates[name], origin[name] = measured[name], "measured"
        elif other in measured:
            rates[name], origin[name] = measured[other], f"measured on {other}; PCIe is symmetric"
        elif given:
            rates[name], origin[name] = given, "given"
    return rates, origin


def _at_pinned_rate(
    trace: Trace, activity: DeviceActivity, span: IntervalSet, rates: dict[str, float]
) -> dict[str, float] | None:
    """Copy time by direction with pageable copies at the pinned rate; None without a rate."""
    copies = trace.copies
    rows = np.arange(len(copies))[rows_of_device(trace, copies, activity.device)]
    pageable = copies.memory[rows] == _PAGEABLE
    started = span.locate(copies.start[rows]) >= 0
    result: dict[str, float] = {}
    for name in ("h2d", "d2h"):
        of_direction = copies.direction[rows] == COPY_DIRECTIONS.index(name)
        slow, fast = rows[of_direction & pageable & started], rows[of_direction & ~pageable]
        time = float((union(copies.start[fast], copies.end[fast]) & span).total)
        if len(slow):
            if name not in rates:
                return None
            time += int(copies.bytes[slow].sum()) / rates[name]
        result[name] = time
    return result
