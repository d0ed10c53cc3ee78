"""What limits the program in its steady state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.grouping import values_of
from analysis.intervals import IntervalSet, interval
from analysis.metrics.activity import DeviceActivity
from analysis.metrics.attribution import CUDA_API, HOST, LAUNCH, OVERHEAD, QUEUED, UNKNOWN
from analysis.metrics.gaps import Gaps
from analysis.metrics.partition import Exposure
from analysis.metrics.timelines import Timelines
from analysis.metrics.waits import WaitChains

#: Below this share of the steady state nothing is worth removing.
COMPUTE_BOUND_SHARE = 0.03
#: Gaps shorter than this are made by a host that cannot launch fast enough, not by one that works.
SHORT_GAP_NS = 100_000

#: Losses by class, in the order in which the first of equals names the verdict.
CLASSES = ("copy", "sync", "launch", "host")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one device.

    Attributes:
        name: "compute-bound", "copy-bound", "sync-bound", "launch-bound", "host-bound" or
            "not-enough-data".
        removable_ns: Removable loss by class, ns.
        steady_ns: From the first kernel's start to the last one's end, ns.
        fill_ns: What the window holds before it, ns.
        drain_ns: What the window holds after it, ns.
    """

    name: str
    removable_ns: dict[str, int]
    steady_ns: int
    fill_ns: int
    drain_ns: int


def judge(
    activity: DeviceActivity,
    exposure: Exposure,
    window: IntervalSet,
    gaps: Gaps,
    timelines: Timelines,
    chains: WaitChains,
    kernel_count: int,
) -> Verdict:
    """Classifies the removable loss of one device.

    Args:
        activity: The device.
        exposure: Its partition.
        window: What is looked at.
        gaps: Its gaps inside the window.
        timelines: The threads.
        chains: Wait chains that the gaps refer to.
        kernel_count: How many kernels and graph replays the window holds.
    """
    kernels = activity.kernels & window
    if kernel_count < 2 or not len(kernels):
        return Verdict("not-enough-data", dict.fromkeys(CLASSES, 0), 0, 0, 0)
    low, high = kernels.hull
    steady = window & interval(low, high)
    copies = sum((part & steady).total for part in exposure.copies.values())
    loss = {"copy": copies, **_idle_losses(gaps, low, high, timelines, chains)}
    if sum(loss.values()) < COMPUTE_BOUND_SHARE * steady.total:
        name = "compute-bound"
    else:
        name = f"{max(CLASSES, key=loss.__getitem__)}-bound"
    before, after = interval(window.hull[0], low), interval(high, window.hull[1])
    return Verdict(name, loss, steady.total, (window & before).total, (window & after).total)


def _idle_losses(
    gaps: Gaps, low: int, high: int, timelines: Timelines, chains: WaitChains
) -> dict[str, int]:
    segments, idle = gaps.segments, gaps.idle
    short = gaps.gap_length < SHORT_GAP_NS
    drained = np.zeros(len(idle), bool)
    for thread in values_of(idle.thread[short & (idle.thread >= 0)]).tolist():
        mine = short & (idle.thread == thread)
        synchronising = timelines.thread(thread).synchronising
        drained[mine] = synchronising.locate(idle.began[mine]) >= 0
    of_profiler = np.array([holder.overhead for holder in chains.holders] + [False], bool)

    cause, owner = segments.cause, segments.owner
    counted = (segments.start >= low) & (segments.end <= high)
    counted &= (cause != OVERHEAD) & (cause != UNKNOWN)
    held = segments.holder >= 0
    counted &= ~(held & of_profiler[segments.holder])
    # In the order of the definition: the first that fits decides.
    sync = drained[owner]
    host = ~sync & held
    sync = sync | (~host & (cause == CUDA_API))
    launch = ~sync & ~host & ((cause == LAUNCH) | (cause == QUEUED))
    launch |= ~sync & ~host & (cause == HOST) & short[owner]
    rest = ~sync & ~launch
    ns = segments.ns
    return {
        "sync": int(ns[counted & sync].sum()),
        "launch": int(ns[counted & launch].sum()),
        "host": int(ns[counted & rest].sum()),
    }
