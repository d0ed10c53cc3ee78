"""NVTX: which ranges a thread is in, and which rows are no ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.traces import writer
from tests.traces.expect import Expected, device, devices, gap, host, launch
from tests.traces.traps.gaps import kernel_a, kernel_b
from tests.traces.traps.registry import trap

if TYPE_CHECKING:
    from tests.traces.writer import TraceWriter


def _gap_is(*parts: dict[str, object], **report: object) -> Expected:
    """Kernels A and B with a gap of these parts between them."""
    return Expected(
        devices(
            device((100, 400), compute=200, idle=100, gaps=[gap(200, 300, *parts)]),
            **report,
        )
    )


@trap()
def nested_ranges(w: TraceWriter) -> Expected:
    """The innermost range names host code; the path has all of them, outermost first."""
    w.push_pop(0, 1000, "Batch 1")
    w.push_pop(210, 240, "load")
    kernel_a(w)
    kernel_b(w)
    return _gap_is(host(20, "Batch 1"), host(30, "Batch 1 / load"), launch(50, nvtx="Batch 1"))


@trap()
def range_of_another_thread(w: TraceWriter) -> Expected:
    """Only the feeding thread's ranges are around its code."""
    w.push_pop(0, 1000, "worker", tid=101)
    w.push_pop(0, 1000, "other process", pid=200)
    kernel_a(w)
    kernel_b(w)
    return _gap_is(host(50), launch(50))


@trap()
def start_end_ranges(w: TraceWriter) -> Expected:
    """One that ends on its own thread is around its code; one that ends on another is not."""
    w.start_end(0, 900, "ends here")
    w.start_end(0, 800, "ends elsewhere", end_tid=101)
    w.start_end(0, 1000, "begun elsewhere", tid=101, end_tid=100)
    kernel_a(w)
    kernel_b(w)
    return _gap_is(host(50, "ends here"), launch(50, nvtx="ends here"))


@trap()
def ranges_that_cross(w: TraceWriter) -> Expected:
    """Start/end ranges may cross: the path is in order of start, the longer first of equals."""
    w.start_end(0, 240, "long ago")
    w.push_pop(150, 300, "short")
    w.push_pop(150, 500, "long")
    kernel_a(w)
    kernel_b(w)
    return _gap_is(
        host(40, "long ago / long / short"),
        host(10, "long / short"),
        launch(50, nvtx="long / short"),
    )


@trap()
def ranges_without_an_end(w: TraceWriter) -> Expected:
    """Open when the recording stopped: they last to the end of the trace."""
    w.push_pop(50, None, "main loop")
    w.push_pop(220, None, "step")
    kernel_a(w)
    kernel_b(w)
    w.mark(205, "a mark has no end either")
    return _gap_is(
        host(20, "main loop"), host(30, "main loop / step"), launch(50, nvtx="main loop / step")
    )


@trap()
def ranges_before_the_session(w: TraceWriter) -> Expected:
    """A negative end is a time like any other; only NULL is an open range."""
    w.push_pop(-500, -350, "ended early")
    w.push_pop(-300, 350, "loop")
    w.start_end(-200, -1, "ended just before")
    kernel_a(w)
    kernel_b(w)
    return _gap_is(host(50, "loop"), launch(50, nvtx="loop"))


@trap()
def range_of_no_length(w: TraceWriter) -> Expected:
    """A range that begins and ends at one time is around nothing."""
    w.push_pop(220, 220, "empty")
    w.push_pop(240, 230, "backwards")
    kernel_a(w)
    kernel_b(w)
    expected = _gap_is(host(50), launch(50))
    return Expected(expected.report, dropped={"NVTX_EVENTS": 1})


@trap(traced=("osrt", "cuda"))
def no_nvtx(w: TraceWriter) -> Expected:
    """Not traced: everything is outside any range, and the report says why."""
    kernel_a(w)
    kernel_b(w)
    return _gap_is(host(50), launch(50), trace={"traced": {"nvtx": False}}, steps=None)


@trap()
def domains_only(w: TraceWriter) -> Expected:
    """The program annotated and no range arrived: nvtx 0.2.9 under an nsys of 2023.4 does that."""
    w.domain(-500, "PyTorch", 1)
    w.domain(-400, "CCCL", 2)
    w.nvtx_row(900, None, writer.NVTX_DOMAIN_DESTROY, "PyTorch", domainId=1)
    kernel_a(w)
    kernel_b(w)
    expected = _gap_is(host(50), launch(50), steps=None)
    return Expected(expected.report, warns="nvtx")


@trap()
def rows_that_are_no_ranges(w: TraceWriter) -> Expected:
    """Marks, categories, thread names and domains, whatever their times."""
    w.mark(210, "mark")
    w.nvtx_row(200, 300, writer.NVTX_CATEGORY, "category")
    w.nvtx_row(200, 300, writer.NVTX_THREAD_NAME, "thread name")
    w.nvtx_row(0, 300, writer.NVTX_DOMAIN_CREATE, "domain")
    kernel_a(w)
    kernel_b(w)
    return _gap_is(host(50), launch(50))


@trap()
def imported_ranges(w: TraceWriter) -> Expected:
    """Ranges imported from NVTXT files have types of their own."""
    w.nvtx_row(0, 1000, writer.NVTXT_PUSH_POP, "imported")
    w.nvtx_row(210, 250, writer.NVTXT_START_END, "started", endGlobalTid=writer.globaltid(100, 100))
    kernel_a(w)
    kernel_b(w)
    return _gap_is(
        host(10, "imported"), host(40, "imported / started"), launch(50, nvtx="imported")
    )


@trap()
def names_in_both_places(w: TraceWriter) -> Expected:
    """Registered strings are in StringIds, others in the row; where both are, the row's counts."""
    w.push_pop(0, 1000, "registered", registered=True)
    w.push_pop(205, 1000, "of the row", textId=w.string("of StringIds"))
    kernel_a(w)
    kernel_b(w)
    return _gap_is(
        host(5, "registered"),
        host(45, "registered / of the row"),
        launch(50, nvtx="registered / of the row"),
    )


@trap()
def ids_without_a_string(w: TraceWriter) -> Expected:
    """Ids that StringIds lacks: whatever the names then are, the times are right."""
    missing = 987_654
    w.push_pop(0, 1000, "", text=None, textId=missing)
    w.kernel(100, 200, call=w.api(80, 90, nameId=missing), shortName=missing, demangledName=missing)
    w.osrt(205, 215, "", nameId=missing)
    w.overhead(220, 225, "", nameId=missing)
    w.kernel(300, 400, call=w.api(250, 260, nameId=missing))
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[
                    gap(
                        200,
                        300,
                        {"cause": "host", "ns": 35},
                        {"cause": "osrt", "ns": 10},
                        {"cause": "overhead", "ns": 5},
                        {"cause": "launch", "ns": 50},
                    )
                ],
            )
        )
    )


@trap()
def steps_and_edge_idle(w: TraceWriter) -> Expected:
    """What the span adds before the first and after the last activity is the loop's as well."""
    for number in range(3):
        begin = 200 * number
        w.push_pop(begin, begin + 200, f"Batch {number}")
        w.kernel(begin + 50, begin + 150, call=w.api(begin + 20, begin + 30))
    # Gaps [150, 250) and [350, 450): 50 in the old batch, 20 in the new one, 30 of launch. Edges:
    # [0, 50) before the first kernel and [550, 600) after the last.
    return Expected(
        devices(
            device(
                (50, 550),
                compute=300,
                idle=200,
                gaps=[
                    gap(
                        150,
                        250,
                        host(50, "Batch 0"),
                        host(20, "Batch 1"),
                        launch(30, nvtx="Batch 1"),
                    ),
                    gap(
                        350,
                        450,
                        host(50, "Batch 1"),
                        host(20, "Batch 2"),
                        launch(30, nvtx="Batch 2"),
                    ),
                ],
            ),
            steps={
                "count": 3,
                "span_ns": 600,
                "edge_idle_ns": 100,
                "median_ns": 200,
                "p95_ns": 250,
                "per_second": 5e6,
            },
        )
    )


@trap()
def device_work_outlasts_the_last_step(w: TraceWriter) -> Expected:
    """Launched inside a step and run after it: the span lasts to the end of the work."""
    for number in range(2):
        begin = 100 * number
        w.push_pop(begin, begin + 100, f"step {number}")
        w.kernel(begin + 150, begin + 250, call=w.api(begin + 20, begin + 30))
    w.kernel(400, 500, call=w.api(300, 310))
    # Step 1 ends at 200, its kernel at 350; the last kernel belongs to no step.
    return Expected(
        devices(
            device((150, 500), compute=300, idle=50),
            steps={"count": 2, "span_ns": 350, "edge_idle_ns": 150, "per_second": 2 / 350e-9},
        )
    )
