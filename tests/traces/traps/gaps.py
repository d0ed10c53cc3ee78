"""Parts of a gap: who was to feed the device, and what that thread did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.traces.expect import (
    Expected,
    cuda_api,
    device,
    devices,
    gap,
    host,
    launch,
    osrt,
    overhead,
    queued,
    unknown,
)
from tests.traces.traps.registry import trap

if TYPE_CHECKING:
    from tests.traces.writer import TraceWriter


def kernel_a(w: TraceWriter) -> None:
    """Kernel A, [100, 200), launched by thread 100."""
    w.kernel(100, 200, call=w.api(80, 90), name="A")


def kernel_b(w: TraceWriter) -> None:
    """Kernel B, [300, 400), launched by thread 100 in [250, 260)."""
    w.kernel(300, 400, call=w.api(250, 260), name="B")


@trap()
def plain(w: TraceWriter) -> Expected:
    """The skeleton itself: host code until the launch, then the launch and its latency."""
    kernel_a(w)
    kernel_b(w)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, host(50), launch(50))],
                by_cause=[host(50), launch(50)],
            )
        )
    )


@trap()
def queued_before_the_gap(w: TraceWriter) -> Expected:
    """A feeding call that has returned: the device, not the host, made the gap."""
    kernel_a(w)
    w.kernel(300, 400, call=w.api(91, 95))
    w.osrt(200, 300, "munmap")
    return Expected(
        devices(device((100, 400), compute=200, idle=100, gaps=[gap(200, 300, queued(100))]))
    )


@trap()
def call_returns_as_the_gap_begins(w: TraceWriter) -> Expected:
    """Returning at the very start is queued; one nanosecond later is a launch."""
    kernel_a(w)
    w.kernel(300, 400, call=w.api(150, 200))
    w.kernel(500, 600, call=w.api(350, 401))
    return Expected(
        devices(
            device(
                (100, 600),
                compute=300,
                idle=200,
                gaps=[gap(200, 300, queued(100)), gap(400, 500, launch(100))],
            )
        )
    )


@trap()
def synchronise_then_launch(w: TraceWriter) -> Expected:
    """A synchronise that began before the gap counts for what of it lies inside."""
    kernel_a(w)
    w.api(91, 220, "cudaDeviceSynchronize_v3020")
    kernel_b(w)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, cuda_api(20, "cudaDeviceSynchronize"), host(30), launch(50))],
            )
        )
    )


@trap()
def os_call_inside_a_cuda_call(w: TraceWriter) -> Expected:
    """The time stays the CUDA call's; `via` names what it did there."""
    kernel_a(w)
    w.api(200, 240, "cudaFree_v3020")
    w.osrt(205, 235, "ioctl")
    kernel_b(w)
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
                        cuda_api(10, "cudaFree"),
                        cuda_api(30, "cudaFree", via="ioctl"),
                        host(10),
                        launch(50),
                    )
                ],
            )
        ),
    )


@trap()
def nested_calls(w: TraceWriter) -> Expected:
    """A driver call inside a runtime call, an OS call inside another: the outermost names it."""
    kernel_a(w)
    w.api(200, 220, "cudaMalloc_v3020")
    w.api(205, 215, "cuMemAlloc")
    w.osrt(220, 240, "fopen64")
    w.osrt(225, 235, "open64", nestingLevel=1)
    kernel_b(w)
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
                        cuda_api(20, "cudaMalloc"),
                        osrt(20, "fopen64"),
                        host(10),
                        launch(50),
                    )
                ],
            )
        ),
    )


@trap()
def os_call_that_spans_the_launch(w: TraceWriter) -> Expected:
    """Order of priority: the launch comes before the OS runtime call around it, its `via`."""
    kernel_a(w)
    w.osrt(190, 350, "munmap")
    kernel_b(w)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, osrt(50, "munmap"), launch(10, via="munmap"), launch(40))],
            )
        )
    )


@trap()
def profiler_overhead(w: TraceWriter) -> Expected:
    """Flushes of the feeding thread and of no thread count, another thread's do not."""
    kernel_a(w)
    w.overhead(210, 230)
    w.overhead(235, 240, "Unknown", globalTid=None)
    w.overhead(200, 250, "CUDA profiling data flush", tid=101)
    kernel_b(w)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, overhead(20), overhead(5, "Unknown"), host(25), launch(50))],
            )
        )
    )


@trap()
def overhead_takes_from_every_other_cause(w: TraceWriter) -> Expected:
    """Overhead first: out of a queued gap, out of a launch, out of a call."""
    kernel_a(w)
    w.api(91, 150, "cudaFree_v3020")
    w.kernel(300, 400, call=w.api(160, 170))
    w.overhead(280, 290)
    w.overhead(440, 480)
    w.api(410, 445, "cudaFree_v3020")
    w.kernel(500, 600, call=w.api(460, 470))
    # Second gap [400, 500): host [400, 410), cudaFree [410, 440), overhead [440, 480), launch.
    return Expected(
        devices(
            device(
                (100, 600),
                compute=300,
                idle=200,
                gaps=[
                    gap(200, 300, queued(90), overhead(10)),
                    gap(400, 500, host(10), cuda_api(30, "cudaFree"), overhead(40), launch(20)),
                ],
            )
        )
    )


@trap()
def gpu_row_without_api_row(w: TraceWriter) -> Expected:
    """The thread that feeds the next activity stands in; the gap says that this is inferred."""
    kernel_a(w)
    w.kernel(300, 310)
    w.kernel(320, 400, call=w.api(290, 295))
    # In the first gap the call is not the feeding one: just another call of that thread.
    return Expected(
        devices(
            device(
                (100, 400),
                compute=190,
                idle=110,
                gaps=[
                    gap(
                        200,
                        300,
                        host(95),
                        cuda_api(5, "cudaLaunchKernel"),
                        inferred=True,
                        feeding_call=None,
                    ),
                    gap(310, 320, queued(10)),
                ],
            )
        )
    )


@trap()
def last_gpu_row_without_api_row(w: TraceWriter) -> Expected:
    """When no later activity has a call, the last one before does."""
    kernel_a(w)
    w.osrt(220, 260, "munmap")
    w.kernel(300, 400)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, host(60), osrt(40, "munmap"), inferred=True)],
            )
        )
    )


@trap()
def no_api_rows_at_all(w: TraceWriter) -> Expected:
    """Nobody can be named, and it is said so."""
    w.kernel(100, 200)
    w.osrt(200, 300, "munmap")
    w.kernel(300, 400)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, unknown(100), feeding_call=None)],
            )
        )
    )


@trap()
def stand_in_is_of_the_same_process(w: TraceWriter) -> Expected:
    """Another process that feeds the device next does not stand in."""
    kernel_a(w)
    w.kernel(300, 310)
    w.kernel(310, 320, call=w.api(200, 300, "cudaLaunchKernel_v7000", pid=200))
    w.kernel(320, 400, call=w.api(305, 306))
    w.osrt(200, 300, "munmap")
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, osrt(100, "munmap"), inferred=True)],
            )
        )
    )


@trap()
def several_api_rows_to_one_id(w: TraceWriter) -> Expected:
    """A driver call inside the runtime call has its id; the one that starts first feeds."""
    kernel_a(w)
    w.api(252, 258, "cuLaunchKernel", correlation=77)
    call = w.api(250, 260, correlation=77)
    w.api(250, 256, "cudaLaunchKernel_ptsz_v7000", correlation=77)
    w.kernel(300, 400, call=call)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, host(50), launch(50))],
            )
        )
    )


@trap()
def correlation_id_reused(w: TraceWriter) -> Expected:
    """An id that comes again in the same process: the first call with it is the feeding one."""
    first = w.api(80, 90, correlation=7)
    again = w.api(250, 260, correlation=7)
    w.kernel(100, 200, call=first)
    w.kernel(300, 400, call=again)
    return Expected(
        devices(device((100, 400), compute=200, idle=100, gaps=[gap(200, 300, queued(100))]))
    )


@trap()
def colliding_correlation_ids(w: TraceWriter) -> Expected:
    """Two processes count from the same number: the process tells their calls apart."""
    w.kernel(100, 200, call=w.api(80, 90, correlation=1))
    w.api(91, 95, pid=200, correlation=2)
    w.kernel(300, 400, call=w.api(250, 260, correlation=2))
    w.kernel(400, 450, call=w.api(210, 215, pid=200, correlation=1))
    # Had the ids alone counted, B's feeding call would be the other process's of [91, 95).
    return Expected(
        devices(
            device(
                (100, 450),
                compute=250,
                idle=100,
                gaps=[gap(200, 300, host(50), launch(50))],
            )
        )
    )


@trap()
def one_graph_launch_many_kernels(w: TraceWriter) -> Expected:
    """Graph nodes as kernel rows share the launch's id: between them they are queued."""
    kernel_a(w)
    call = w.api(250, 260, "cudaGraphLaunch_v10000")
    for node, start in enumerate((300, 370, 440)):
        w.kernel(start, start + 50, call=call, graphNodeId=node + 1)
    return Expected(
        devices(
            device(
                (100, 490),
                compute=250,
                idle=140,
                gaps=[
                    gap(200, 300, host(50), launch(50, "cudaGraphLaunch")),
                    gap(350, 370, queued(20, "cudaGraphLaunch")),
                    gap(420, 440, queued(20, "cudaGraphLaunch")),
                ],
            )
        )
    )


@trap()
def activities_that_end_a_gap_together(w: TraceWriter) -> Expected:
    """Kernels come before copies, whatever the order of the rows."""
    kernel_a(w)
    w.memcpy(300, 350, call=w.api(200, 210, "cudaMemcpyAsync_v3020", tid=101))
    kernel_b(w)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, host(50), launch(50))],
            )
        )
    )


@trap()
def rows_out_of_order(w: TraceWriter) -> Expected:
    """Rows of an export are in no order that one could rely on."""
    w.osrt(230, 240, "write")
    w.osrt(205, 215, "munmap")
    w.kernel(500, 600, call=w.api(450, 460))
    kernel_b(w)
    kernel_a(w)
    return Expected(
        devices(
            device(
                (100, 600),
                compute=300,
                idle=200,
                gaps=[
                    gap(200, 300, host(30), osrt(10, "munmap"), osrt(10, "write"), launch(50)),
                    gap(400, 500, host(50), launch(50)),
                ],
            )
        )
    )


@trap()
def times_before_the_session(w: TraceWriter) -> Expected:
    """A capture that starts late has rows with negative times."""
    w.kernel(-400, -300, call=w.api(-420, -410))
    w.osrt(-300, -260, "munmap")
    w.kernel(-200, 100, call=w.api(-250, -240))
    return Expected(
        devices(
            device(
                (-400, 100),
                compute=400,
                idle=100,
                gaps=[gap(-300, -200, osrt(40, "munmap"), host(10), launch(50))],
            )
        )
    )


#: Where times count from the epoch, a float would lose some hundred nanoseconds.
EPOCH = 1_796_011_439_708_604_587


@trap()
def times_since_the_epoch(w: TraceWriter) -> Expected:
    """Normalised exports count from 1970."""
    w.kernel(EPOCH + 100, EPOCH + 200, call=w.api(EPOCH + 80, EPOCH + 90))
    w.osrt(EPOCH + 201, EPOCH + 240, "munmap")
    w.kernel(EPOCH + 300, EPOCH + 400, call=w.api(EPOCH + 250, EPOCH + 260))
    return Expected(
        devices(
            device(
                (EPOCH + 100, EPOCH + 400),
                compute=200,
                idle=100,
                gaps=[gap(EPOCH + 200, EPOCH + 300, host(11), osrt(39, "munmap"), launch(50))],
            )
        )
    )
