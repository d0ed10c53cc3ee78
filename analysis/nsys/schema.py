"""Which tables and columns of an nsys SQLite export the analysis reads.

A table is absent when nothing was recorded into it, a column when the exporting nsys did not know
it yet; both are probed for, by name. Source: the ``.schema`` of exports of nsys 2020.3 to 2026.2
and the Nsight Systems user guide, chapter "SQLite Schema Reference".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: The name the analysis uses.
        names: What nsys has called it, newest first.
        since: Export schema version that introduced it, None if it was always there.
        default: Its value where the export lacks it or has NULL; None makes it required.
    """

    name: str
    names: tuple[str, ...]
    since: str | None = None
    default: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """One table under any of the names that nsys has given it."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]


#: Stands for the NULL end of a range that was open when the recording stopped. (Times before the
#: session's start are negative, so -1 would not do.)
STILL_OPEN = -(1 << 63)


def _column(name: str, *, since: str | None = None, default: int | None = None) -> Column:
    return Column(name, (name,), since, default)


_TIMES = (_column("start"), _column("end"))
# globalPid is missing in the oldest exports, which held one process.
_WORK = (
    *_TIMES,
    _column("deviceId", default=0),
    _column("streamId", default=0),
    _column("correlationId", default=0),
    _column("globalPid", default=0),
)

KERNELS = Source(
    ("CUPTI_ACTIVITY_KIND_KERNEL",),
    (*_WORK, Column("nameId", ("shortName", "demangledName"))),
)
GRAPHS = Source(
    ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",),
    (*_WORK, Column("graphId", ("graphId", "graphExecId"), since="3.0", default=0)),
)
COPIES = Source(
    ("CUPTI_ACTIVITY_KIND_MEMCPY",),
    (
        *_WORK,
        _column("bytes", default=0),
        _column("copyKind", default=0),
        _column("srcKind", default=-1),
        _column("dstKind", default=-1),
        _column("migrationCause", default=0),
    ),
)
MEMSETS = Source(("CUPTI_ACTIVITY_KIND_MEMSET",), _WORK)
API_CALLS = Source(
    ("CUPTI_ACTIVITY_KIND_RUNTIME",),
    (
        *_TIMES,
        _column("globalTid", default=-1),
        _column("correlationId", default=0),
        _column("nameId"),
    ),
)
OS_CALLS = Source(
    ("OSRT_API",),
    (
        *_TIMES,
        _column("globalTid", default=-1),
        _column("nameId"),
        _column("eventClass", default=27),
    ),
)
RANGES = Source(
    ("NVTX_EVENTS",),
    (
        _column("start"),
        _column("end", default=STILL_OPEN),
        _column("eventType"),
        _column("globalTid", default=-1),
        _column("endGlobalTid", default=-1),
        _column("color", default=-1),
        _column("textId", since="2.0", default=-1),
    ),
)
OVERHEADS = Source(
    ("PROFILER_OVERHEAD",),
    (*_TIMES, _column("globalTid", default=-1), _column("nameId", default=-1)),
)

#: Tables any of which marks a file as an nsys export.
MARKS = (
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "META_DATA_CAPTURE",
    "ANALYSIS_DETAILS",
    "TARGET_INFO_SESSION_START_TIME",
    *KERNELS.names,
    *API_CALLS.names,
    *OS_CALLS.names,
    *RANGES.names,
)

EXPORT_META = ("META_DATA_EXPORT", "EXPORT_META_DATA")
GPU_INFO = ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU")

#: Newest schema this reader was tried on; later ones are read by name all the same.
NEWEST_TRIED = (3, 27)

# eventClass of an OSRT_API row that is a call (others mark starts, finishes and errors).
OS_CALL_CLASS = 27

# NVTX_EVENTS.eventType of ranges; the second of each pair are NVTXT imports.
PUSH_POP_TYPES = (59, 70)
START_END_TYPES = (60, 71)
DOMAIN_TYPES = (75, 76)

# Meaning of MEMCPY.copyKind (CUpti_ActivityMemcpyKind, 11 to 13 as nsys extends it).
DIRECTION_OF_COPY_KIND = {
    1: "h2d", 3: "h2d", 11: "h2d",
    2: "d2h", 4: "d2h", 12: "d2h",
    5: "d2d", 6: "d2d", 7: "d2d", 8: "d2d", 13: "d2d",
    10: "p2p",
}  # fmt: skip
MIGRATION_COPY_KINDS = (11, 12, 13)
# MEMCPY.migrationCause (ENUM_CUDA_UNIF_MEM_MIGRATION) of cudaMemPrefetchAsync.
PREFETCHED = 1

# Used where an export has no ENUM_CUDA_MEM_KIND; nsys' own numbering, not CUPTI's.
MEMORY_LABELS = {
    0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed",
    5: "Device Static", 6: "Managed Static", 7: "Unknown",
}  # fmt: skip
