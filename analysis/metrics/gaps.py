"""The idle gaps of a device, every one of them attributed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.grouping import distinct
from analysis.intervals import HIGHEST, Int64, IntervalSet, pairs_overlapping
from analysis.metrics.activity import DeviceActivity
from analysis.metrics.attribution import Idle, Segments, attribute
from analysis.metrics.launches import DeviceWork, Feeders
from analysis.metrics.timelines import Timelines
from analysis.metrics.waits import WaitChains


@dataclass(frozen=True, eq=False)
class Gaps:
    """Idle gaps inside a window, in order; shape (n,). A gap that the window cuts in two is two.

    Attributes:
        idle: Where they are and who fed them.
        length: Lengths inside the window, ns.
        gap_length: Length of the whole gap of which the window shows this part, ns.
        feeders: Who ended them and how the feeding thread is known.
        segments: Their parts.
    """

    idle: Idle
    length: Int64
    gap_length: Int64
    feeders: Feeders
    segments: Segments


def find_gaps(
    activity: DeviceActivity,
    work: DeviceWork,
    window: IntervalSet,
    timelines: Timelines,
    chains: WaitChains,
) -> Gaps:
    """Finds and attributes the gaps of one device.

    Args:
        activity: The device's unions.
        work: Its activities in order.
        window: What is looked at.
        timelines: The threads.
        chains: Wait chains of the same trace.
    """
    whole = activity.busy.complement()
    mine, part = pairs_overlapping(window.start, window.end, whole)
    start = np.maximum(window.start[mine], whole.start[part])
    end = np.minimum(window.end[mine], whole.end[part])
    gaps, position = distinct(part)
    feeders = _take(work.feeders(whole.end[gaps]), position)
    began = whole.start[part]
    idle = Idle(start, end, began, feeders.thread, feeders.call)
    return Gaps(
        idle=idle,
        length=end - start,
        gap_length=_length(began, whole.end[part]),
        feeders=feeders,
        segments=attribute(timelines, chains, idle),
    )


def _length(start: Int64, end: Int64) -> Int64:
    """Lengths of gaps, of which the first and the last reach to infinity."""
    with np.errstate(over="ignore"):
        length = end - start
    return np.where(length < 0, HIGHEST, length)


def _take(feeders: Feeders, index: NDArray[np.intp]) -> Feeders:
    return Feeders(
        feeders.table[index],
        feeders.row[index],
        feeders.call[index],
        feeders.thread[index],
        feeders.inferred[index],
    )
