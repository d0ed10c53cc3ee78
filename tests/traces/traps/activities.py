"""What the device did: kernels, copies, memsets, and rows that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.traces.expect import Expected, cuda_api, device, devices, gap, host, launch
from tests.traces.traps.gaps import kernel_a, kernel_b
from tests.traces.traps.registry import trap

if TYPE_CHECKING:
    from tests.traces.writer import TraceWriter


@trap()
def overlapping_streams(w: TraceWriter) -> Expected:
    """Time in two kernels at once counts once."""
    w.kernel(100, 200, call=w.api(80, 85), stream=7)
    w.kernel(150, 250, call=w.api(85, 90), stream=13)
    return Expected(devices(device((100, 250), compute=150, gaps=[])))


@trap()
def short_kernel_under_a_long_one(w: TraceWriter) -> Expected:
    """The end of the previous row is not the end of what ran: the gap begins at 400."""
    w.kernel(100, 400, call=w.api(80, 85), stream=7)
    w.kernel(150, 200, call=w.api(85, 90), stream=13)
    w.kernel(500, 600, call=w.api(450, 460))
    return Expected(
        devices(
            device(
                (100, 600),
                compute=400,
                idle=100,
                gaps=[gap(400, 500, host(50), launch(50))],
            )
        )
    )


@trap()
def hidden_and_exposed_copies(w: TraceWriter) -> Expected:
    """Copies half under a kernel; directions that share an instant; a memset under both."""
    w.kernel(100, 200, call=w.api(10, 15))
    w.memcpy(150, 300, "h2d", call=w.api(16, 20, "cudaMemcpyAsync_v3020"))
    w.memcpy(250, 350, "d2h", call=w.api(21, 25, "cudaMemcpyAsync_v3020"), stream=14)
    w.memset(340, 380, call=w.api(26, 30, "cudaMemsetAsync_v3020"))
    # h2d alone [200, 250); both [250, 300) goes to d2h; d2h alone [300, 350); memset [350, 380).
    # Copies together are [150, 350): 200, of which 50 lie under the kernel.
    return Expected(
        devices(
            device(
                (100, 380),
                compute=100,
                exposed={"h2d": 50, "d2h": 100},
                memset=30,
                gaps=[],
                overlap={
                    "all": {"copy_ns": 200, "hidden_ns": 50, "percent": 25.0},
                    "h2d": {"copy_ns": 150, "hidden_ns": 50},
                    "d2h": {"copy_ns": 100, "hidden_ns": 0, "percent": 0.0},
                },
            )
        )
    )


@trap()
def copies_only(w: TraceWriter) -> Expected:
    """No kernel anywhere: the device is busy copying, not idle."""
    w.memcpy(100, 200, "h2d", call=w.api(80, 90, "cudaMemcpyAsync_v3020"))
    w.memcpy(200, 300, "d2h", call=w.api(91, 95, "cudaMemcpyAsync_v3020"))
    return Expected(
        devices(
            device((100, 300), exposed={"h2d": 100, "d2h": 100}, gaps=[], verdict="not-enough-data")
        )
    )


@trap()
def graph_replays_only(w: TraceWriter) -> Expected:
    """A GPU that only replays graphs has no kernel table, and is busy all the same."""
    w.graph(100, 200, call=w.api(80, 90, "cudaGraphLaunch_v10000"))
    w.graph(300, 400, call=w.api(250, 260, "cudaGraphLaunch_v10000"))
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, host(50), launch(50, "cudaGraphLaunch"))],
            )
        )
    )


@trap()
def peer_copy(w: TraceWriter) -> Expected:
    """A copy between GPUs is its row's device's, and no d2d."""
    w.gpu(0, uuid="aaaaaaaa-0000-0000-0000-000000000000")
    w.gpu(1, uuid="bbbbbbbb-0000-0000-0000-000000000000")
    w.kernel(100, 200, call=w.api(80, 90))
    w.memcpy(
        200,
        300,
        "p2p",
        call=w.api(91, 95, "cudaMemcpyPeerAsync_v4000"),
        srcDeviceId=0,
        dstDeviceId=1,
        srcContextId=1,
        dstContextId=2,
    )
    return Expected(devices(device((100, 300), compute=100, exposed={"p2p": 100}, gaps=[])))


@trap()
def unified_memory_migrations(w: TraceWriter) -> Expected:
    """Migrations are copies of their direction, from managed memory, without an API row."""
    w.kernel(100, 200, call=w.api(80, 90))
    w.memcpy(200, 260, "um_h2d", migrationCause=2, virtualAddress=0x7F0000000000)
    w.memcpy(260, 280, "um_d2h", migrationCause=4, virtualAddress=0x7F0000200000)
    w.memcpy(280, 300, "um_d2d", migrationCause=1, virtualAddress=0x7F0000400000)
    return Expected(
        devices(
            device(
                (100, 300),
                compute=100,
                exposed={"h2d": 60, "d2h": 20, "d2d": 20},
                gaps=[],
                transfers=[
                    {"direction": "h2d", "memory": "managed", "count": 1, "ns": 60},
                    {"direction": "d2h", "memory": "managed", "count": 1, "ns": 20},
                    {"direction": "d2d", "memory": "managed", "count": 1, "ns": 20},
                ],
            )
        )
    )


@trap()
def rare_copy_kinds(w: TraceWriter) -> Expected:
    """Arrays go by where they are; unknown kinds, and kinds of the future, are `other`."""
    name = "cudaMemcpy2DToArrayAsync_v3020"
    w.memcpy(100, 150, "h2a", call=w.api(10, 11, name))
    w.memcpy(150, 180, "a2h", call=w.api(12, 13, name))
    w.memcpy(180, 200, "d2d", call=w.api(14, 15, name))
    w.memcpy(200, 210, "h2h", call=w.api(16, 17, name))
    w.memcpy(210, 230, "unknown", call=w.api(18, 19, name))
    w.memcpy(230, 260, 99, call=w.api(20, 21, name))
    return Expected(
        devices(device((100, 260), exposed={"h2d": 50, "d2h": 30, "d2d": 20, "other": 60}, gaps=[]))
    )


@trap()
def pageable_and_pinned(w: TraceWriter) -> Expected:
    """An asynchronous call on pageable memory is synchronous; 1000 bytes in 100 ns: 10 GB/s."""
    call = "cudaMemcpyAsync_v3020"
    w.memcpy(100, 200, "h2d", size=1000, src="pageable", call=w.api(80, 205, call))
    w.memcpy(200, 250, "h2d", size=1000, src="pinned", call=w.api(90, 95, call))
    w.memcpy(300, 400, "d2h", size=500, dst="pinned", call=w.api(240, 410, "cudaMemcpy_v3020"))
    return Expected(
        devices(
            device(
                (100, 400),
                exposed={"h2d": 150, "d2h": 100},
                idle=50,
                transfers=[
                    {
                        "direction": "h2d",
                        "memory": "pageable",
                        "count": 1,
                        "bytes": 1000,
                        "ns": 100,
                        "gb_per_s": 10.0,
                        "synchronous": True,
                    },
                    {
                        "direction": "h2d",
                        "memory": "pinned",
                        "count": 1,
                        "bytes": 1000,
                        "ns": 50,
                        "gb_per_s": 20.0,
                        "synchronous": False,
                    },
                    {
                        "direction": "d2h",
                        "memory": "pinned",
                        "count": 1,
                        "bytes": 500,
                        "ns": 100,
                        "gb_per_s": 5.0,
                        "synchronous": True,
                    },
                ],
            )
        )
    )


@trap()
def zero_and_negative_durations(w: TraceWriter) -> Expected:
    """No length covers nothing and splits no gap; backwards and timeless rows are dropped."""
    kernel_a(w)
    w.kernel(230, 230, call=w.api(205, 206), name="no length")
    w.kernel(380, 350, call=w.api(207, 208), name="backwards")
    w.kernel(0, 0, call=w.api(209, 210), name="no time")
    w.memcpy(0, 0, "h2d", call=w.api(211, 212, "cudaMemcpyAsync_v3020"))
    w.osrt(245, 240, "munmap")
    kernel_b(w)
    # The four calls of one nanosecond are the thread's other CUDA calls.
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
                        host(46),
                        cuda_api(3, "cudaLaunchKernel"),
                        cuda_api(1, "cudaMemcpyAsync"),
                        launch(50),
                    )
                ],
            )
        ),
        dropped={
            "CUPTI_ACTIVITY_KIND_KERNEL": 2,
            "CUPTI_ACTIVITY_KIND_MEMCPY": 1,
            "OSRT_API": 1,
        },
    )


@trap()
def api_calls_but_no_gpu_work(w: TraceWriter) -> Expected:
    """CUDA was traced and the GPU did nothing: no device, and no word of health."""
    w.api(10, 20, "cudaMalloc_v3020")
    w.osrt(30, 60, "munmap")
    return Expected({"devices": [], "verdict": "not-enough-data"}, exit_code=3)


@trap(traced=("osrt", "nvtx"))
def no_cuda_at_all(w: TraceWriter) -> Expected:
    """A CPU program: OS calls are told, the GPU's part was not traced."""
    w.push_pop(0, 100, "work")
    w.osrt(30, 60, "munmap")
    return Expected(
        {
            "devices": [],
            "trace": {"traced": {"cuda": False, "nvtx": True, "osrt": True}},
            "verdict": "not-enough-data",
        },
        exit_code=3,
    )
