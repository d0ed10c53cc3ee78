"""Writes small nsys SQLite exports, in the real layout of any schema version.

Example:
    >>> with TraceWriter(path) as w:
    ...     launch = w.api(100, 110)
    ...     w.kernel(120, 220, call=launch)

Times are ns since the start of the session. Everything has a default that a real recording of one
process with one thread on one GPU would show, so a fixture states only what it is about.
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from .schema import ALWAYS, VERSIONS, Column, layouts, table_names, version_key

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

#: Names may be bytes, for text that is not UTF-8.
Text = str | bytes

#: The process and the thread that do everything unless a fixture says otherwise.
PID = 100
#: The GPU that is ordinal 0 of every process unless a fixture says otherwise.
GPU_UUID = "20fded45-0507-4fee-0806-6174ca4a2017"

EVENT_CLASS_RUNTIME = 0
EVENT_CLASS_DRIVER = 1
EVENT_CLASS_OSRT = 27
EVENT_CLASS_OSRT_START = 31
EVENT_CLASS_OSRT_FINISH = 32

NVTX_CATEGORY = 33
NVTX_MARK = 34
NVTX_THREAD_NAME = 39
NVTX_PUSH_POP = 59
NVTX_START_END = 60
NVTXT_PUSH_POP = 70
NVTXT_START_END = 71
NVTX_DOMAIN_CREATE = 75
NVTX_DOMAIN_DESTROY = 76

COPY_KINDS = {
    "unknown": 0,
    "h2d": 1,
    "d2h": 2,
    "h2a": 3,
    "a2h": 4,
    "d2d": 8,
    "h2h": 9,
    "p2p": 10,
    "um_h2d": 11,
    "um_d2h": 12,
    "um_d2d": 13,
}
MEMORY_KINDS = {
    "pageable": 0,
    "pinned": 1,
    "device": 2,
    "array": 3,
    "managed": 4,
    "device_static": 5,
    "managed_static": 6,
    "unknown": 7,
}
#: The memory that a copy of each kind goes from and to when a fixture does not say.
_COPY_ENDS = {
    "h2d": ("pinned", "device"),
    "d2h": ("device", "pinned"),
    "h2a": ("pinned", "array"),
    "a2h": ("array", "pinned"),
    "h2h": ("pageable", "pinned"),
    "um_h2d": ("managed", "managed"),
    "um_d2h": ("managed", "managed"),
    "um_d2d": ("managed", "managed"),
}

_ENUM_ROWS: dict[str, list[tuple[int, str, str]]] = {
    "ENUM_NSYS_EVENT_TYPE": [
        (number, name, name)
        for number, name in (
            (NVTX_CATEGORY, "NvtxCategory"),
            (NVTX_MARK, "NvtxMark"),
            (NVTX_THREAD_NAME, "NvtxThread"),
            (NVTX_PUSH_POP, "NvtxPushPopRange"),
            (NVTX_START_END, "NvtxStartEndRange"),
            (NVTXT_PUSH_POP, "NvtxtPushPopRange"),
            (NVTXT_START_END, "NvtxtStartEndRange"),
            (NVTX_DOMAIN_CREATE, "NvtxDomainCreate"),
            (NVTX_DOMAIN_DESTROY, "NvtxDomainDestroy"),
        )
    ],
    "ENUM_NSYS_EVENT_CLASS": [
        (EVENT_CLASS_RUNTIME, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"),
        (EVENT_CLASS_DRIVER, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"),
        (EVENT_CLASS_OSRT, "TRACE_PROCESS_EVENT_OS_RUNTIME", "OSRT runtime"),
        (EVENT_CLASS_OSRT_START, "TRACE_PROCESS_EVENT_OS_RUNTIME_START", "OSRT start"),
        (EVENT_CLASS_OSRT_FINISH, "TRACE_PROCESS_EVENT_OS_RUNTIME_FINISH", "OSRT finish"),
    ],
    "ENUM_CUDA_MEMCPY_OPER": [
        (0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
        (1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        (2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        (3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"),
        (4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"),
        (5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"),
        (6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"),
        (7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"),
        (8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
        (9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"),
        (10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
        (11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
        (12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"),
        (13, "CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Device-to-Device"),
    ],
    "ENUM_CUDA_MEM_KIND": [
        (0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        (1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        (2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
        (3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"),
        (4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
        (5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"),
        (6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"),
        (7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"),
    ],
}
#: ENUM tables that nsys 2022.4 leaves empty.
_EMPTY_BEFORE_3_1 = ("ENUM_CUDA_MEMCPY_OPER", "ENUM_CUDA_MEM_KIND")

#: What a capture of that part of the trace is called in META_DATA_CAPTURE.
_CAPTURED = {"osrt": "OSRuntime", "nvtx": "NvtxEvents", "cuda": "Cuda"}


def globalpid(pid: int, *, vm: int = 1, hw: int = 0) -> int:
    """The process id as nsys serializes it: 8 bits hardware, 8 bits VM, 24 bits pid, 24 zero."""
    return globaltid(pid, 0, vm=vm, hw=hw)


def globaltid(pid: int, tid: int, *, vm: int = 1, hw: int = 0) -> int:
    """The thread id as nsys serializes it: `globalpid` with the thread in the low 24 bits."""
    value = (hw << 56) | (vm << 48) | (pid << 24) | tid
    return value - (1 << 64) if value >= 1 << 63 else value


@dataclass(frozen=True)
class Call:
    """A CUDA API call that was written; hand it to the activity that it caused."""

    correlation: int
    thread: int

    @property
    def process(self) -> int:
        """The serialized process id."""
        return self.thread & ~0xFFFFFF


class TraceWriter:
    """An export in the making; nothing is on disk before `close`, or the end of the ``with``.

    Args:
        path: The file to write.
        schema: Schema version, a key of `VERSIONS`; None for the exports of 2020 that name none.
        lazy: Whether tables without rows are left out, as nsys does by default.
        traced: What META_DATA_CAPTURE says was asked for.
        gpus: Whether to describe one GPU, ordinal 0 of every process that shows up. Without it
            a fixture describes its GPUs with `gpu` and `cuda_device`, or not at all.
    """

    def __init__(
        self,
        path: Path,
        *,
        schema: str | None = "3.20.3",
        lazy: bool = True,
        traced: tuple[str, ...] = ("osrt", "nvtx", "cuda"),
        gpus: bool = True,
    ) -> None:
        self.path = path
        self.schema = schema
        self._lazy = lazy
        self._default_gpus = gpus
        self._layouts: dict[str, list[Column]] = {
            table: list(columns) for table, columns in layouts(schema).items()
        }
        self._names = table_names(schema)
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._strings: dict[Text, int] = {}
        self._correlations = 0
        self._last_event = 0
        self._export_info()
        self._capture_info(traced)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()

    # What the GPU did.

    def kernel(
        self,
        start: int,
        end: int,
        *,
        name: Text = "kernel",
        call: Call | None = None,
        pid: int = PID,
        device: int = 0,
        stream: int = 7,
        **columns: Any,
    ) -> None:
        """A kernel; `call` is the launch that caused it, None when the API has no row for it."""
        self._gpu_row(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            start,
            end,
            call,
            pid,
            device,
            stream,
            {
                "demangledName": self.string(name),
                "shortName": self.string(name),
                "mangledName": self.string(name),
                "launchType": 1,
                "registersPerThread": 32,
                **dict.fromkeys(("gridX", "gridY", "gridZ", "blockY", "blockZ"), 1),
                "blockX": 256,
                **columns,
            },
        )

    def graph(
        self,
        start: int,
        end: int,
        *,
        call: Call | None = None,
        pid: int = PID,
        device: int = 0,
        stream: int = 7,
        graph_id: int = 1,
        **columns: Any,
    ) -> None:
        """One replay of a CUDA graph as a whole."""
        self._gpu_row(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            start,
            end,
            call,
            pid,
            device,
            stream,
            {"graphId": graph_id, "graphExecId": graph_id + 1, **columns},
        )

    def memcpy(
        self,
        start: int,
        end: int,
        kind: str | int = "h2d",
        *,
        size: int = 1 << 20,
        src: str | None = None,
        dst: str | None = None,
        call: Call | None = None,
        pid: int = PID,
        device: int = 0,
        stream: int = 7,
        **columns: Any,
    ) -> None:
        """A copy of `size` bytes; `kind`, `src` and `dst` as in COPY_KINDS and MEMORY_KINDS."""
        default_src, default_dst = _COPY_ENDS.get(str(kind), ("device", "device"))
        self._gpu_row(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            start,
            end,
            call,
            pid,
            device,
            stream,
            {
                "bytes": size,
                "copyKind": COPY_KINDS[kind] if isinstance(kind, str) else kind,
                "srcKind": MEMORY_KINDS[src or default_src],
                "dstKind": MEMORY_KINDS[dst or default_dst],
                "copyCount": 1,
                **columns,
            },
        )

    def memset(
        self,
        start: int,
        end: int,
        *,
        size: int = 1 << 20,
        call: Call | None = None,
        pid: int = PID,
        device: int = 0,
        stream: int = 7,
        **columns: Any,
    ) -> None:
        """A memset of device memory."""
        self._gpu_row(
            "CUPTI_ACTIVITY_KIND_MEMSET",
            start,
            end,
            call,
            pid,
            device,
            stream,
            {"value": 0, "bytes": size, "memKind": MEMORY_KINDS["device"], **columns},
        )

    # What the host did.

    def api(
        self,
        start: int,
        end: int,
        name: Text = "cudaLaunchKernel_v7000",
        *,
        pid: int = PID,
        tid: int | None = None,
        correlation: int | None = None,
        **columns: Any,
    ) -> Call:
        """A CUDA API call; gets the next free correlation id unless one is given."""
        if correlation is None:
            self._correlations += 1
            correlation = self._correlations
        thread = self._thread(pid, tid)
        text = name.decode(errors="replace") if isinstance(name, bytes) else name
        self.row(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            **{
                "start": start,
                "end": end,
                "eventClass": EVENT_CLASS_RUNTIME
                if text.startswith("cuda")
                else EVENT_CLASS_DRIVER,
                "globalTid": thread,
                "correlationId": correlation,
                "nameId": self.string(name),
                **columns,
            },
        )
        return Call(correlation, thread)

    def osrt(
        self,
        start: int,
        end: int,
        name: Text,
        *,
        pid: int = PID,
        tid: int | None = None,
        **columns: Any,
    ) -> None:
        """An OS runtime call."""
        self.row(
            "OSRT_API",
            **{
                "start": start,
                "end": end,
                "eventClass": EVENT_CLASS_OSRT,
                "globalTid": self._thread(pid, tid),
                "nameId": self.string(name),
                "nestingLevel": 0,
                **columns,
            },
        )

    def overhead(
        self,
        start: int,
        end: int,
        name: Text = "CUPTI Buffer flush",
        *,
        pid: int = PID,
        tid: int | None = None,
        **columns: Any,
    ) -> None:
        """Time that the profiler itself took; `globalTid=None` for that of no thread."""
        self.row(
            "PROFILER_OVERHEAD",
            **{
                "start": start,
                "end": end,
                "globalTid": self._thread(pid, tid),
                "nameId": self.string(name),
                **columns,
            },
        )

    def push_pop(
        self,
        start: int,
        end: int | None,
        name: Text,
        *,
        pid: int = PID,
        tid: int | None = None,
        registered: bool = False,
        **columns: Any,
    ) -> None:
        """An NVTX push/pop range; open to the end of the capture when `end` is None.

        `registered` puts the name into StringIds, as registered strings are.
        """
        self._nvtx(start, end, NVTX_PUSH_POP, name, pid, tid, registered, columns)

    def start_end(
        self,
        start: int,
        end: int | None,
        name: Text,
        *,
        pid: int = PID,
        tid: int | None = None,
        end_tid: int | None = None,
        registered: bool = False,
        **columns: Any,
    ) -> None:
        """An NVTX start/end range that ends on thread `end_tid`, the starting one if None."""
        ends_on = None if end is None else self._thread(pid, tid if end_tid is None else end_tid)
        self._nvtx(
            start,
            end,
            NVTX_START_END,
            name,
            pid,
            tid,
            registered,
            {"rangeId": 1, "endGlobalTid": ends_on, **columns},
        )

    def mark(
        self, at: int, name: Text, *, pid: int = PID, tid: int | None = None, **columns: Any
    ) -> None:
        """An NVTX mark: a point in time."""
        self._nvtx(at, None, NVTX_MARK, name, pid, tid, False, columns)

    def domain(
        self, at: int, name: Text, domain_id: int = 1, *, pid: int = PID, **columns: Any
    ) -> None:
        """The creation of an NVTX domain."""
        self._nvtx(
            at,
            None,
            NVTX_DOMAIN_CREATE,
            name,
            pid,
            None,
            False,
            {"domainId": domain_id, "color": None, **columns},
        )

    def nvtx_row(
        self,
        start: int,
        end: int | None,
        event_type: int,
        name: Text,
        *,
        pid: int = PID,
        tid: int | None = None,
        registered: bool = False,
        **columns: Any,
    ) -> None:
        """Any other NVTX_EVENTS row."""
        self._nvtx(start, end, event_type, name, pid, tid, registered, columns)

    # What machine, processes and threads there were.

    def thread_name(self, name: Text, *, pid: int = PID, tid: int | None = None) -> None:
        """The operating system's name of a thread."""
        self.row(
            "ThreadNames",
            nameId=self.string(name),
            priority=20,
            globalTid=self._thread(pid, tid),
        )

    def process(self, name: Text, *, pid: int = PID) -> None:
        """The name of a process."""
        self.row("PROCESSES", globalPid=globalpid(pid), pid=pid, name=name)

    def gpu(
        self,
        gpu_id: int,
        *,
        name: Text = "NVIDIA H200",
        uuid: Text | None = GPU_UUID,
        **columns: Any,
    ) -> None:
        """A GPU of the machine."""
        self.row(
            "TARGET_INFO_GPU",
            **{
                "vmId": 1 << 48,
                "id": gpu_id,
                "hwId": 0,
                "deviceId": gpu_id,
                "name": name,
                "uuid": uuid,
                "busLocation": f"0000:{gpu_id:02x}:00.0",
                "totalMemory": 150109880320,
                "smCount": 132,
                **columns,
            },
        )

    def cuda_device(
        self, *, gpu_id: int, ordinal: int, pid: int = PID, uuid: Text | None = None
    ) -> None:
        """Which GPU a process knows under which CUDA ordinal."""
        self.row("TARGET_INFO_CUDA_DEVICE", gpuId=gpu_id, cudaId=ordinal, pid=pid, uuid=uuid)

    # The database itself.

    def string(self, value: Text) -> int:
        """The id of the string in StringIds, entered when new."""
        if value not in self._strings:
            self._strings[value] = len(self._strings) + 1
            self.row("StringIds", id=self._strings[value], value=value)
        return self._strings[value]

    def row(self, table: str, **columns: Any) -> None:
        """One row; columns that the version lacks are left out, those not given get a default.

        Args:
            table: The table's name in schema 3.20.3.
            **columns: Values by column name. Text may be bytes that are not UTF-8.

        Raises:
            ValueError: The version has no such table, so the fixture asks for the impossible.
        """
        if table not in self._layouts:
            if table in _OPTIONAL:
                return
            msg = f"schema {self.schema} has no table {table}"
            raise ValueError(msg)
        self._rows.setdefault(table, []).append(columns)
        for time in ("start", "end"):
            if isinstance(columns.get(time), int):
                self._last_event = max(self._last_event, columns[time])

    def without_column(self, table: str, *names: str) -> None:
        """Leave columns out of a table, whatever the version says."""
        self._layouts[table] = [c for c in self._layouts[table] if c.name not in names]

    def without_table(self, *tables: str) -> None:
        """Leave tables out, with their rows, whatever the version says."""
        for table in tables:
            self._layouts.pop(table, None)
            self._rows.pop(table, None)

    def close(self) -> None:
        """Write the file."""
        self._finish()
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            for table, columns in self._layouts.items():
                rows = self._rows.get(table, [])
                if rows or not self._lazy or table in ALWAYS:
                    self._write(database, self._names.get(table, table), columns, rows)
            database.commit()

    # Helpers.

    @staticmethod
    def _thread(pid: int, tid: int | None) -> int:
        return globaltid(pid, pid if tid is None else tid)

    def _gpu_row(
        self,
        table: str,
        start: int,
        end: int,
        call: Call | None,
        pid: int,
        device: int,
        stream: int,
        columns: dict[str, Any],
    ) -> None:
        self.row(
            table,
            **{
                "start": start,
                "end": end,
                "deviceId": device,
                "contextId": device + 1,
                "greenContextId": 0,
                "streamId": stream,
                "correlationId": call.correlation if call else 0,
                "globalPid": call.process if call else globalpid(pid),
                **columns,
            },
        )

    def _nvtx(
        self,
        start: int,
        end: int | None,
        event_type: int,
        name: Text,
        pid: int,
        tid: int | None,
        registered: bool,
        columns: dict[str, Any],
    ) -> None:
        self.row(
            "NVTX_EVENTS",
            **{
                "start": start,
                "end": end,
                "eventType": event_type,
                "color": 255,
                "text": None if registered else name,
                "textId": self.string(name) if registered else None,
                "globalTid": self._thread(pid, tid),
                "domainId": 0,
                **columns,
            },
        )

    def _export_info(self) -> None:
        if "META_DATA_EXPORT" not in self._layouts or self.schema is None:
            return
        numbers = dict(zip(("MAJOR", "MINOR", "MICRO"), self.schema.split("."), strict=True))
        product = VERSIONS[self.schema]
        values = {
            "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
            "EXPORT_PRODUCT_VERSION": product,
            "EXPORT_PRODUCT_DATE": ".".join(product.split(".")[:2]),
            "EXPORT_SCHEMA_VERSION": self.schema,
            **{f"EXPORT_SCHEMA_VERSION_{part}": number for part, number in numbers.items()},
            "EXPORT_PLATFORM": "linux-desktop",
            "EXPORT_ARCH": "x64",
            "EXPORT_PARAM_LAZY": str(self._lazy).lower(),
        }
        for name, value in values.items():
            self.row("META_DATA_EXPORT", name=name, value=value)

    def _capture_info(self, traced: tuple[str, ...]) -> None:
        for part in traced:
            self.row("META_DATA_CAPTURE", name="CAPTURE_EVENT_TYPE", value=_CAPTURED[part])
        values = {
            "PROCESS_0:COLLECT_NVTX_TRACE": str("nvtx" in traced).lower(),
            # Real captures with CUDA say false here as often as true.
            "PROCESS_0:COLLECT_CUDA_TRACE": "false",
        }
        if "osrt" in traced:
            values |= {
                "OS_RUNTIME_OPTIONS:DURATION_THRESHOLD_NS": "1000",
                "OS_RUNTIME_OPTIONS:COLLECT_BACKTRACES": "true",
            }
        for name, value in values.items():
            self.row("META_DATA_CAPTURE", name=name, value=value)

    def _finish(self) -> None:
        """Add what every export has: labels, session times, and the GPU if none was described."""
        for table, labels in _ENUM_ROWS.items():
            if table in self._layouts and not self._leaves_empty(table):
                for number, name, label in labels:
                    self.row(table, id=number, name=name, label=label)
        self.row(
            "ANALYSIS_DETAILS",
            globalVid=1 << 48,
            startTime=0,
            stopTime=self._last_event,
            duration=self._last_event,
        )
        self.row(
            "TARGET_INFO_SESSION_START_TIME",
            utcEpochNs=1_796_011_439_708_604_587,
            utcTime="2026-11-30T04:03:59",
            localTime="2026-11-30T04:03:59",
        )
        if self._default_gpus:
            self._describe_default_gpu()
        for number, row in enumerate(self._rows.get("NVTX_EVENTS", [])):
            row["eventId"] = number

    def _leaves_empty(self, table: str) -> bool:
        return version_key(self.schema) < (3, 1) and table in _EMPTY_BEFORE_3_1

    def _describe_default_gpu(self) -> None:
        activities = [
            row
            for table in ("KERNEL", "GRAPH_TRACE", "MEMCPY", "MEMSET")
            for row in self._rows.get(f"CUPTI_ACTIVITY_KIND_{table}", [])
        ]
        if not activities:
            return
        self.gpu(0)
        if "TARGET_INFO_CUDA_DEVICE" in self._layouts:
            for process in sorted({row["globalPid"] for row in activities}):
                self.cuda_device(gpu_id=0, ordinal=0, pid=(process >> 24) & 0xFFFFFF, uuid=GPU_UUID)

    @staticmethod
    def _write(
        database: sqlite3.Connection,
        table: str,
        columns: list[Column],
        rows: list[dict[str, Any]],
    ) -> None:
        database.execute(f"CREATE TABLE {table} ({', '.join(c.ddl for c in columns)})")
        # The cast keeps bytes that are not UTF-8 as text, which is how they stand in real exports.
        places = ", ".join("CAST(? AS TEXT)" if c.type == "TEXT" else "?" for c in columns)
        database.executemany(
            f"INSERT INTO {table} VALUES ({places})",
            ([_value(column, row) for column in columns] for row in rows),
        )


#: Tables whose rows a version without them simply does not have.
_OPTIONAL = ("META_DATA_CAPTURE", "META_DATA_EXPORT", "PROCESSES", "DIAGNOSTIC_EVENT")


def _value(column: Column, row: dict[str, Any]) -> Any:
    value = row.get(column.name)
    if value is None and column.not_null and column.name not in row:
        return "" if column.type == "TEXT" else 0
    if isinstance(value, str) and column.type == "TEXT":
        return value.encode()
    return value
