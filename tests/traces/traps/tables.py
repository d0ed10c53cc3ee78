"""Tables and columns that are absent, empty, renamed or new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.traces import writer
from tests.traces.expect import Expected, device, devices, gap, host, launch, osrt
from tests.traces.traps.gaps import kernel_a, kernel_b
from tests.traces.traps.registry import trap

if TYPE_CHECKING:
    from typing import Any

    from tests.traces.writer import TraceWriter


#: What stands for the stall table where OS runtime calls were not traced.
NOT_TRACED = {
    "function": "munmap", "calls": None, "total_ns": None, "max_ns": None, "idle_ns": None,
    "note": "not traced",
}  # fmt: skip


def everything(w: TraceWriter, **report: Any) -> Expected:
    """One row of each kind that the analysis reads, and what must come of them."""
    w.process("python3")
    w.thread_name("main")
    w.push_pop(0, 500, "loop", registered=True)
    w.push_pop(205, 240, "copy batch")
    kernel_a(w)
    w.osrt(210, 230, "munmap")
    kernel_b(w)
    w.memcpy(400, 450, "d2h", dst="pageable", call=w.api(330, 455, "cudaMemcpyAsync_v3020"))
    w.memset(450, 460, call=w.api(456, 458, "cudaMemsetAsync_v3020"))
    w.overhead(1000, 1010)
    path = "loop / copy batch"
    return Expected(
        devices(
            device(
                (100, 460),
                compute=200,
                exposed={"d2h": 50},
                memset=10,
                idle=100,
                gaps=[
                    gap(
                        200,
                        300,
                        host(15, "loop"),
                        host(15, path),
                        osrt(20, "munmap", nvtx=path),
                        launch(50, nvtx="loop"),
                    )
                ],
                transfers=[
                    {"direction": "d2h", "memory": "pageable", "count": 1, "bytes": 1 << 20}
                ],
            ),
            **report,
        )
    )


def _of_version(version: str | None, w: TraceWriter) -> Expected:
    return everything(w, trace={"schema_version": version})


@trap(schema=None, gpus=False)
def version_absent(w: TraceWriter) -> Expected:
    """Exports of 2020 name no version and have no labels; the GPUs' table has another name."""
    w.gpu(0, name="Tesla V100")
    expected = _of_version(None, w)
    expected.report["devices"][0]["name"] = "Tesla V100"
    return expected


@trap(schema="2.7.1")
def version_under_its_old_name(w: TraceWriter) -> Expected:
    """EXPORT_META_DATA has it."""
    return _of_version("2.7.1", w)


@trap(schema="3.0.0")
def labels_tables_empty(w: TraceWriter) -> Expected:
    """nsys 2022.4 writes the tables of labels for CUDA and no row into them."""
    return _of_version("3.0.0", w)


@trap(schema="9.9.9")
def version_newer_than_any(w: TraceWriter) -> Expected:
    """Unknown columns before, between and after the known ones, unknown tables."""
    w.row("QUANTUM_FOAM_EVENTS", start=1, end=2, bubbles=3)
    return _of_version("9.9.9", w)


@trap(schema="9.9.9", lazy=False)
def version_newer_than_any_not_lazy(w: TraceWriter) -> Expected:
    """The same, with all tables."""
    return _of_version("9.9.9", w)


@trap(lazy=False)
def tables_present_and_empty(w: TraceWriter) -> Expected:
    """A non-lazy export has the table of graph replays too, and nothing in it."""
    return everything(w)


@trap(lazy=False, traced=("cuda",))
def empty_is_not_traced(w: TraceWriter) -> Expected:
    """Empty tables of what nobody asked for are no zeros."""
    kernel_a(w)
    kernel_b(w)
    return Expected(
        devices(
            device((100, 400), compute=200, idle=100, gaps=[gap(200, 300, host(50), launch(50))]),
            trace={"traced": {"cuda": True, "nvtx": False, "osrt": False}},
            stalls=[NOT_TRACED],
        )
    )


@trap(traced=("cuda", "nvtx"))
def no_osrt(w: TraceWriter) -> Expected:
    """OS runtime calls were not traced: no munmap row that says zero."""
    w.push_pop(0, 500, "loop")
    kernel_a(w)
    kernel_b(w)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, host(50, "loop"), launch(50, nvtx="loop"))],
            ),
            trace={"traced": {"cuda": True, "nvtx": True, "osrt": False}},
            stalls=[NOT_TRACED],
        )
    )


@trap()
def osrt_asked_for_and_none_came(w: TraceWriter) -> Expected:
    """The table is absent because there was nothing to record: munmap is zero, not unknown."""
    kernel_a(w)
    kernel_b(w)
    return Expected(
        devices(
            device((100, 400), compute=200, idle=100),
            trace={"traced": {"osrt": True}},
            stalls=[{"function": "munmap", "calls": 0, "total_ns": 0, "max_ns": 0, "idle_ns": 0}],
        )
    )


@trap()
def columns_missing(w: TraceWriter) -> Expected:
    """Columns that some version lacks, all at once."""
    w.without_column("CUPTI_ACTIVITY_KIND_MEMCPY", "srcKind", "dstKind", "copyCount")
    w.without_column("CUPTI_ACTIVITY_KIND_KERNEL", "greenContextId", "shortName", "mangledName")
    w.without_column("CUPTI_ACTIVITY_KIND_RUNTIME", "callchainId", "returnValue")
    w.without_column("OSRT_API", "nestingLevel", "callchainId")
    w.without_column("NVTX_EVENTS", "endGlobalTid", "binaryData", "color")
    w.without_column("PROFILER_OVERHEAD", "returnValue")
    w.without_column("TARGET_INFO_GPU", "uuid", "busLocation")
    expected = everything(w)
    expected.report["devices"][0]["transfers"] = [{"direction": "d2h", "memory": "unknown"}]
    return expected


@trap(gpus=False)
def names_of_processes_and_labels_absent(w: TraceWriter) -> Expected:
    """Nothing but the events themselves."""
    expected = everything(w)
    w.without_table(
        "PROCESSES",
        "ThreadNames",
        "META_DATA_CAPTURE",
        "ENUM_CUDA_MEMCPY_OPER",
        "ENUM_CUDA_MEM_KIND",
        "ENUM_NSYS_EVENT_TYPE",
        "ENUM_NSYS_EVENT_CLASS",
    )
    return expected


@trap()
def rows_that_are_no_os_calls(w: TraceWriter) -> Expected:
    """Start and finish of OS runtime tracing stand among the calls, with a level that is NULL."""
    kernel_a(w)
    for event_class, name in (
        (writer.EVENT_CLASS_OSRT_START, "OS runtime libraries profiling started"),
        (writer.EVENT_CLASS_OSRT_FINISH, "OS runtime libraries profiling finished"),
    ):
        w.osrt(200, 250, name, eventClass=event_class, nestingLevel=None)
    w.osrt(210, 220, "munmap")
    kernel_b(w)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, host(40), osrt(10, "munmap"), launch(50))],
            ),
            stalls=[
                {"function": "munmap", "calls": 1, "total_ns": 10, "max_ns": 10, "idle_ns": 10}
            ],
        )
    )


@trap()
def stalls_are_summed_by_function(w: TraceWriter) -> Expected:
    """Calls, total and longest are of the whole capture; idle only of what held the device up."""
    kernel_a(w)
    w.osrt(200, 230, "munmap")
    w.osrt(235, 245, "write")
    kernel_b(w)
    w.osrt(310, 390, "munmap")
    w.osrt(500, 505, "munmap")
    w.osrt(200, 300, "write", tid=101)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, osrt(30, "munmap"), osrt(10, "write"), host(10), launch(50))],
            ),
            stalls=[
                {
                    "function": "munmap",
                    "calls": 3,
                    "total_ns": 115,
                    "max_ns": 80,
                    "idle_ns": 30,
                },
                {
                    "function": "write",
                    "calls": 2,
                    "total_ns": 110,
                    "max_ns": 100,
                    "idle_ns": 10,
                },
            ],
        )
    )
