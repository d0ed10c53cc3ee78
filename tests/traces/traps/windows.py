"""A window chosen by hand, and a threshold that lists nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.traces.expect import Expected, device, devices, gap, host, launch, queued
from tests.traces.traps.gaps import kernel_a, kernel_b
from tests.traces.traps.registry import trap

if TYPE_CHECKING:
    from tests.traces.writer import TraceWriter


def _from(ns: int) -> tuple[str, str]:
    return "--from", f"{ns}ns"


def _to(ns: int) -> tuple[str, str]:
    return "--to", f"{ns}ns"


@trap()
def window_by_time(w: TraceWriter) -> Expected:
    """Gap and activity that straddle an edge are clipped, the gap after it was attributed."""
    kernel_a(w)
    kernel_b(w)
    report = devices(
        device((220, 350), compute=50, idle=80, gaps=[gap(220, 300, host(30), launch(50))])
    )
    return Expected(report, options=(*_from(220), *_to(350)))


@trap()
def window_that_begins_after_the_call(w: TraceWriter) -> Expected:
    """The call returned before the window, not before the gap: a launch, not queued."""
    kernel_a(w)
    w.kernel(300, 400, call=w.api(205, 215))
    report = devices(device((220, 400), compute=100, idle=80, gaps=[gap(220, 300, launch(80))]))
    return Expected(report, options=_from(220))


@trap()
def window_beyond_all_activity(w: TraceWriter) -> Expected:
    """Before the first activity its call explains; after the last its thread stands in."""
    kernel_a(w)
    kernel_b(w)
    w.push_pop(380, 470, "wind down")
    report = devices(
        device(
            (0, 500),
            compute=200,
            idle=300,
            gaps=[
                gap(0, 100, host(80), launch(20)),
                gap(200, 300, host(50), launch(50)),
                gap(400, 500, host(70, "wind down"), host(30), inferred=True, feeding_call=None),
            ],
        )
    )
    return Expected(report, options=(*_from(0), *_to(500)))


@trap()
def window_by_range(w: TraceWriter) -> Expected:
    """One batch: activities and gaps are clipped to the range."""
    w.push_pop(0, 250, "Batch 1")
    w.push_pop(250, 450, "Batch 2")
    kernel_a(w)
    kernel_b(w)
    w.kernel(500, 600, call=w.api(480, 485))
    report = devices(
        device(
            (250, 450),
            compute=100,
            idle=100,
            gaps=[
                gap(250, 300, launch(50, nvtx="Batch 2")),
                gap(400, 450, host(50, "Batch 2")),
            ],
        )
    )
    return Expected(report, options=("--nvtx", "Batch 2"))


@trap()
def window_of_several_ranges(w: TraceWriter) -> Expected:
    """The union of all ranges that match, whichever thread they are on; not what lies between."""
    w.push_pop(50, 150, "forward")
    w.push_pop(350, 450, "forward", tid=101)
    w.push_pop(400, 430, "forward")
    w.push_pop(150, 350, "backward")
    kernel_a(w)
    kernel_b(w)
    w.kernel(460, 500, call=w.api(440, 441))
    # [50, 100) before A, its call at [80, 90); [400, 450) before the last kernel.
    report = devices(
        device(
            (50, 450),
            duration=200,
            compute=100,
            idle=100,
            gaps=[
                gap(50, 100, host(30, "forward"), launch(20, nvtx="forward")),
                gap(400, 450, host(30, "forward"), host(10), launch(10)),
            ],
        )
    )
    return Expected(report, options=("--nvtx", "forward"))


@trap()
def window_by_time_and_range(w: TraceWriter) -> Expected:
    """Together they intersect."""
    w.push_pop(50, 350, "loop")
    kernel_a(w)
    kernel_b(w)
    report = devices(
        device(
            (240, 350),
            compute=50,
            idle=60,
            gaps=[gap(240, 300, host(10, "loop"), launch(50, nvtx="loop"))],
        )
    )
    return Expected(report, options=("--nvtx", "loop", *_from(240), *_to(1000)))


@trap()
def threshold_that_lists_no_gap(w: TraceWriter) -> Expected:
    """Unlisted is not unexplained: the causes still sum to the idle time."""
    kernel_a(w)
    kernel_b(w)
    w.kernel(410, 500, call=w.api(310, 320))
    report = devices(
        device((100, 500), compute=290, idle=110, by_cause=[host(50), launch(50), queued(10)])
    )
    report["devices"][0]["gaps"] = []
    report["devices"][0]["idle"] |= {"gap_count": 2, "unlisted_ns": 110}
    return Expected(report, options=("--min-gap", "101ns"))


@trap()
def threshold_between_two_gaps(w: TraceWriter) -> Expected:
    """A gap of exactly the threshold is listed, a shorter one is not."""
    kernel_a(w)
    kernel_b(w)
    w.kernel(410, 500, call=w.api(310, 320))
    report = devices(
        device((100, 500), compute=290, idle=110, by_cause=[host(50), launch(50), queued(10)])
    )
    report["devices"][0]["gaps"] = [gap(200, 300, host(50), launch(50))]
    report["devices"][0]["idle"] |= {"gap_count": 2, "unlisted_ns": 10}
    return Expected(report, options=("--min-gap", "100ns"))
