"""Where the window's time went: compute, exposed copies, exposed memset, idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.intervals import IntervalSet
from analysis.metrics.activity import DeviceActivity
from analysis.trace import COPY_DIRECTIONS


@dataclass(frozen=True, slots=True)
class Partition:
    """A window, ns by what the device did; sums to the window.

    Attributes:
        compute_ns: Some kernel ran.
        exposed_copy_ns: No kernel ran and some copy did, by direction; a time shared by several
            directions goes to the first of `COPY_DIRECTIONS`.
        exposed_memset_ns: Nothing but memsets ran.
        idle_ns: Nothing ran.
    """

    compute_ns: int
    exposed_copy_ns: Mapping[str, int]
    exposed_memset_ns: int
    idle_ns: int


@dataclass(frozen=True, eq=False)
class Exposure:
    """The partition as interval sets over the whole capture, disjoint by construction."""

    compute: IntervalSet
    copies: Mapping[str, IntervalSet]
    memset: IntervalSet
    busy: IntervalSet

    def within(self, window: IntervalSet) -> Partition:
        """The partition of a window."""
        return Partition(
            compute_ns=(self.compute & window).total,
            exposed_copy_ns={name: (part & window).total for name, part in self.copies.items()},
            exposed_memset_ns=(self.memset & window).total,
            idle_ns=(window - self.busy).total,
        )


def expose(activity: DeviceActivity) -> Exposure:
    """Gives every busy instant of a device to one kind of activity."""
    taken = activity.kernels
    copies: dict[str, IntervalSet] = {}
    for direction in COPY_DIRECTIONS:
        copies[direction] = activity.copies[direction] - taken
        taken = taken | copies[direction]
    return Exposure(activity.kernels, copies, activity.memsets - taken, activity.busy)
