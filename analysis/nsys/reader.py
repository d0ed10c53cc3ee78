"""Reads an nsys SQLite export into a `Trace`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.grouping import Positions, distinct, values_of
from analysis.nsys import columns as bulk
from analysis.nsys import schema
from analysis.nsys.columns import Columns
from analysis.nsys.database import Database
from analysis.trace import (
    COPY_DIRECTIONS,
    MEMORY_KINDS,
    ApiCalls,
    Copies,
    Device,
    Gpu,
    Kernels,
    Memsets,
    OsCalls,
    Overheads,
    Process,
    Provenance,
    Ranges,
    Thread,
    Trace,
)

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Mask = NDArray[np.bool_]

_TID_BITS = 24
_TID_MASK = (1 << _TID_BITS) - 1

# What nsys appends to API names: default-stream mark and version (cudaMemcpy_ptds_v7000).
_API_SUFFIX = re.compile(r"(_pt(sz|ds))?(_v\d+)?$")

_ENVIRONMENT = re.compile(r"ENVIRONMENT", re.IGNORECASE)


def read_trace(
    path: Path,
    *,
    shown_as: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Read an export of any schema version.

    Args:
        path: The SQLite file.
        shown_as: How reports name the file; its path if None.
        on_progress: Called with rows read so far and rows in all.

    Raises:
        InputError: The file cannot be read, is damaged, or is no nsys export.
    """
    with Database(path) as database:
        return _Reader(database, shown_as or str(path)).read(on_progress)


class _Names:
    """Dense indices for strings, from string ids or from text."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._index: dict[str, int] = {}

    def add(self, name: str) -> int:
        return self._index.setdefault(name, len(self._index))

    def of_ids(self, ids: Int64, clean: Callable[[str], str] = str) -> Int32:
        """Indices for string ids; -1 stays -1, ids without a string are named by their number."""
        found, dense = distinct(ids)
        strings = self._database.strings([int(id_) for id_ in found if id_ >= 0])
        index = [
            -1 if id_ < 0 else self.add(clean(strings.get(int(id_), f"[string {id_}]")))
            for id_ in found
        ]
        return np.array(index, np.int32)[dense]

    def all(self) -> tuple[str, ...]:
        return tuple(self._index)


class _Reader:
    def __init__(self, database: Database, shown_as: str) -> None:
        self._database = database
        self._shown_as = shown_as
        self._names = _Names(database)
        self._dropped: dict[str, int] = {}
        self._warnings: list[str] = []

    def read(self, on_progress: Callable[[int, int], None] | None) -> Trace:
        sources = (
            schema.KERNELS,
            schema.API_CALLS,
            schema.COPIES,
            schema.OS_CALLS,
            schema.GRAPHS,
            schema.MEMSETS,
            schema.RANGES,
            schema.OVERHEADS,
        )
        tables = bulk.read(
            self._database, [(source, source is schema.RANGES) for source in sources], on_progress
        )
        kernels, api, copies, osrt, graphs, memsets, nvtx, overheads = tables
        # What was traced shows in rows that are of no use, too.
        has_cuda = any(len(table) for table in (kernels, graphs, copies, memsets, api))
        has_nvtx, has_osrt = len(nvtx) > 0, len(osrt) > 0
        self._warn_of_annotations(nvtx)
        for table in (kernels, graphs, copies, memsets):
            self._complete_pids(table, api)
        is_range = np.isin(nvtx.values["eventType"], schema.PUSH_POP_TYPES + schema.START_END_TYPES)
        kernels, graphs, copies, memsets, api, overheads = (
            self._timed(table) for table in (kernels, graphs, copies, memsets, api, overheads)
        )
        osrt = self._timed(osrt, osrt.values["eventClass"] == schema.OS_CALL_CLASS)
        nvtx = self._timed(nvtx, is_range, may_be_open=True)

        work, calls = (kernels, graphs, copies, memsets), (api, osrt, nvtx, overheads)
        self._threads = self._find_threads(
            (table.values["globalTid"] for table in calls),
            (table.values["globalPid"] for table in work),
        )
        end = max(
            (
                int(table.values[column].max())
                for table in (*work, *calls)
                for column in ("start", "end")
                if len(table)
            ),
            default=0,
        )
        processes = [self._process_index(table.values["globalPid"]) for table in work]
        gpus, devices, devices_of = self._devices(work, processes)
        common: list[dict[str, Any]] = [
            {
                "start": table.values["start"],
                "end": table.values["end"],
                "device": device,
                "process": process,
                "stream": table.values["streamId"],
                "correlation": table.values["correlationId"],
            }
            for table, process, device in zip(work, processes, devices_of, strict=True)
        ]
        of_kernels, of_graphs, of_copies, of_memsets = common

        direction, memory = self._copy_kinds(copies)
        found, dense = distinct(graphs.values["graphId"])
        graph_names = np.array([self._names.add(f"CUDA graph {id_}") for id_ in found], np.int32)[
            dense
        ]
        trace_ranges = self._ranges(nvtx, end)
        return Trace(
            end=end,
            kernels=Kernels(**of_kernels, name=self._names.of_ids(kernels.values["nameId"])),
            graphs=Kernels(**of_graphs, name=graph_names),
            copies=Copies(
                **of_copies,
                bytes=copies.values["bytes"],
                prefetched=copies.values["migrationCause"] == schema.PREFETCHED,
                direction=direction,
                memory=memory,
            ),
            memsets=Memsets(**of_memsets),
            api_calls=ApiCalls(
                start=api.values["start"],
                end=api.values["end"],
                thread=self._thread_index(api.values["globalTid"]),
                correlation=api.values["correlationId"],
                name=self._names.of_ids(api.values["nameId"], _bare_api_name),
            ),
            os_calls=OsCalls(
                start=osrt.values["start"],
                end=osrt.values["end"],
                thread=self._thread_index(osrt.values["globalTid"]),
                name=self._names.of_ids(osrt.values["nameId"]),
            ),
            ranges=trace_ranges,
            overheads=self._overheads(overheads),
            # Last: the warnings and dropped rows gathered above are part of it.
            provenance=self._provenance(end, cuda=has_cuda, nvtx=has_nvtx, osrt=has_osrt),
            names=self._names.all(),
            processes=self._processes,
            threads=self._threads,
            gpus=gpus,
            devices=devices,
        )

    def _timed(
        self, table: Columns, wanted: Mask | None = None, *, may_be_open: bool = False
    ) -> Columns:
        """The rows with usable times; the others are counted.

        Args:
            table: The table.
            wanted: Rows that are of interest at all; rows besides these are no loss.
            may_be_open: Whether a missing end is that of a range that was still open.
        """
        start, end = table.values["start"], table.values["end"]
        good = ~table.missing & (end >= start)
        if may_be_open:
            good |= ~table.missing & (end == schema.STILL_OPEN)
        good &= (start != 0) | (end != 0)
        if wanted is None:
            lost = len(good) - int(good.sum())
        else:
            lost = int((wanted & ~good).sum())
            good &= wanted
        if lost:
            self._dropped[table.table] = lost
        return table.where(good)

    def _complete_pids(self, table: Columns, api: Columns) -> None:
        """Give device work without a process the one process that called the API, if it is one."""
        lacking = table.values["globalPid"] == 0
        if not lacking.any():
            return
        pids = values_of(api.values["globalTid"] & ~_TID_MASK)
        if len(pids) == 1:
            table.values["globalPid"][lacking] = pids[0]
        elif len(pids) > 1:
            self._warn(
                f"{table.table} does not say which of {len(pids)} processes its rows belong to; "
                "their launching calls are unknown"
            )

    def _find_threads(self, tids: Iterable[Int64], pids: Iterable[Int64]) -> tuple[Thread, ...]:
        tid_set: set[int] = set()
        for values in tids:
            tid_set.update(values_of(values).tolist())
        tid_set.discard(-1)
        pid_set = {tid & ~_TID_MASK for tid in tid_set}
        for values in pids:
            pid_set.update(values_of(values).tolist())
        process_names = {
            int(global_pid): str(name or "")
            for global_pid, _, name in self._database.rows(
                "PROCESSES", ("globalPid", "pid", "name")
            )
            if global_pid is not None
        }
        self._processes = tuple(
            Process(pid, (pid >> _TID_BITS) & _TID_MASK, process_names.get(pid, ""))
            for pid in sorted(pid_set)
        )
        index = {process.global_pid: i for i, process in enumerate(self._processes)}
        self._global_pids = Positions(np.array([p.global_pid for p in self._processes], np.int64))
        named = self._database.rows("ThreadNames", ("nameId", "globalTid"))
        strings = self._database.strings([int(id_) for id_, _ in named if id_ is not None])
        thread_names = {
            int(tid): strings[id_] for id_, tid in named if tid is not None and id_ in strings
        }
        # Rows with TID 0 concern the whole process; they belong to no thread.
        threads = tuple(
            Thread(
                tid,
                tid & _TID_MASK,
                (tid >> _TID_BITS) & _TID_MASK,
                index[tid & ~_TID_MASK],
                thread_names.get(tid, ""),
            )
            for tid in sorted(tid_set)
            if tid & _TID_MASK
        )
        self._global_tids = Positions(np.array([t.global_tid for t in threads], np.int64))
        return threads

    def _thread_index(self, global_tids: Int64) -> Int32:
        return self._global_tids.of(global_tids).astype(np.int32)

    def _process_index(self, global_pids: Int64) -> Int32:
        return self._global_pids.of(global_pids).astype(np.int32)

    def _devices(
        self, work: Sequence[Columns], processes: Sequence[Int32]
    ) -> tuple[tuple[Gpu, ...], tuple[Device, ...], list[Int32]]:
        """GPUs, those with activity, and for each table which of the latter its rows are of."""
        info = self._database.first_table(schema.GPU_INFO)
        # A GPU's table may list it once per virtual machine, the device table once per process.
        gpus: dict[int, Gpu] = {}
        # Until 2021 the GPU's id was called deviceId.
        wanted = ("id", "deviceId", "name", "uuid")
        for new_id, old_id, name, uuid in self._database.rows(info, wanted) if info else []:
            id_ = old_id if new_id is None else new_id
            if id_ is not None:
                gpus.setdefault(int(id_), Gpu(int(id_), str(name or ""), uuid or None))
        by_uuid: dict[str, int | None] = {}
        for gpu in sorted(gpus.values(), key=lambda gpu: gpu.id):
            if gpu.uuid:
                by_uuid.setdefault(gpu.uuid, gpu.id)
        known: dict[tuple[int, int], int] = {}
        for gpu_id, ordinal, pid, uuid in self._database.rows(
            "TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid", "uuid")
        ):
            if ordinal is None or pid is None:
                continue
            # The same uuid is the same GPU, under whatever ids the tables list it.
            identity = uuid or (gpus[gpu_id].uuid if gpu_id in gpus else None)
            id_ = by_uuid.setdefault(identity, gpu_id) if identity else gpu_id
            if id_ is not None:
                known[int(pid), int(ordinal)] = int(id_)

        stride = 1 << 16
        pairs_of = []
        for table, process in zip(work, processes, strict=True):
            codes, dense = distinct(process.astype(np.int64) * stride + table.values["deviceId"])
            pairs_of.append(([divmod(code, stride) for code in codes.tolist()], dense))
        pairs = {pair for found, _ in pairs_of for pair in found}
        gpu_of: dict[tuple[int, int], int] = {}
        unmapped = 0
        for process_index, ordinal in sorted(pairs):
            pid = self._processes[process_index].pid
            unmapped += (pid, ordinal) not in known
            gpu_of[process_index, ordinal] = known.get((pid, ordinal), ordinal)
        if unmapped:
            self._warn(
                "the export does not map every CUDA device to a GPU; where it does not, equal "
                "ordinals of several processes are taken to be one GPU"
            )
        ids = sorted(set(gpu_of.values()))
        devices = tuple(Device(id_, gpus[id_].name if id_ in gpus else "") for id_ in ids)
        table_of = {pair: ids.index(gpu) for pair, gpu in gpu_of.items()}

        devices_of = [
            np.array([table_of[pair] for pair in found], np.int32)[dense]
            for found, dense in pairs_of
        ]
        return tuple(gpus[id_] for id_ in sorted(gpus)), devices, devices_of

    def _copy_kinds(self, copies: Columns) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """Direction and host memory kind of each copy."""
        labels = dict(schema.MEMORY_LABELS)
        for id_, label, name in self._database.rows("ENUM_CUDA_MEM_KIND", ("id", "label", "name")):
            labels[int(id_)] = str(label or name)
        memory_of = {id_: MEMORY_KINDS.index(_memory_kind(label)) for id_, label in labels.items()}
        unknown, managed, device = (
            MEMORY_KINDS.index(kind) for kind in ("unknown", "managed", "device")
        )
        kinds, dense = distinct(copies.values["copyKind"])
        names = [schema.DIRECTION_OF_COPY_KIND.get(int(kind), "other") for kind in kinds]
        direction = np.array([COPY_DIRECTIONS.index(name) for name in names], np.int8)[dense]

        def mapped(column: str) -> NDArray[np.int8]:
            values, where = distinct(copies.values[column])
            return np.array([memory_of.get(int(v), unknown) for v in values], np.int8)[where]

        source, target = mapped("srcKind"), mapped("dstKind")
        host_is_target = direction == COPY_DIRECTIONS.index("d2h")
        has_host = np.isin(
            direction, [COPY_DIRECTIONS.index(name) for name in ("d2h", "h2d", "other")]
        )
        memory = np.where(host_is_target, target, source)
        memory = np.where(has_host, memory, np.int8(device))
        migration = np.isin(kinds, schema.MIGRATION_COPY_KINDS)[dense]
        return direction, np.where(migration, np.int8(managed), memory).astype(np.int8)

    def _ranges(self, nvtx: Columns, end: int) -> Ranges:
        values = nvtx.values
        is_open = values["end"] == schema.STILL_OPEN
        name = self._names.of_ids(values["textId"])
        if nvtx.text is not None:
            # Inline text comes first; only texts of rows that are left are decoded.
            text, texts = nvtx.text
            found, dense = distinct(text)
            inline = [
                self._names.add(texts[i].decode("utf-8", errors="backslashreplace"))
                if i >= 0
                else -1
                for i in found.tolist()
            ]
            inline_name = np.array(inline, np.int32)[dense]
            name = np.where(inline_name >= 0, inline_name, name)
        name[name < 0] = self._names.add("[unnamed range]") if (name < 0).any() else -1
        thread = self._thread_index(values["globalTid"])
        push_pop = np.isin(values["eventType"], schema.PUSH_POP_TYPES)
        ended_elsewhere = self._thread_index(values["endGlobalTid"])
        # Exports that do not say where a range ended mean where it began.
        end_thread = np.where(push_pop | (values["endGlobalTid"] <= 0), thread, ended_elsewhere)
        return Ranges(
            start=values["start"],
            end=np.where(is_open, end, values["end"]),
            thread=thread,
            end_thread=np.where(is_open & ~push_pop, -1, end_thread).astype(np.int32),
            push_pop=push_pop,
            open=is_open,
            name=name,
            color=values["color"],
        )

    def _overheads(self, overheads: Columns) -> Overheads:
        values = overheads.values
        return Overheads(
            start=values["start"],
            end=values["end"],
            thread=self._thread_index(values["globalTid"]),
            process=self._process_index(
                np.where(values["globalTid"] < 0, -1, values["globalTid"] & ~_TID_MASK)
            ),
            name=self._names.of_ids(values["nameId"]),
        )

    def _provenance(self, end: int, *, cuda: bool, nvtx: bool, osrt: bool) -> Provenance:
        meta = self._metadata(schema.EXPORT_META)
        capture_rows = [
            (str(name), str(value))
            for name, value in self._database.rows("META_DATA_CAPTURE", ("name", "value"))
            if not _ENVIRONMENT.search(str(name))
        ]
        traced = {value.lower() for name, value in capture_rows if name == "CAPTURE_EVENT_TYPE"}
        capture = dict(capture_rows)
        version = meta.get("EXPORT_SCHEMA_VERSION")
        self._warn_of_version(version)
        if self._dropped:
            self._warn(
                f"{sum(self._dropped.values()):,} rows without usable times were left out: "
                + ", ".join(f"{n:,} of {table}" for table, n in sorted(self._dropped.items()))
            )
        details = self._database.rows("ANALYSIS_DETAILS", ("duration",))
        started = self._database.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
        threshold = capture.get("OS_RUNTIME_OPTIONS:DURATION_THRESHOLD_NS", "")
        graph_mode = next(
            (v for k, v in capture_rows if k.endswith("GRAPH_TRACE_OPTIONS:MODE")), None
        )
        return Provenance(
            path=self._shown_as,
            nsys_version=meta.get("EXPORT_PRODUCT_VERSION"),
            schema_version=version,
            start_utc_ns=int(started[0][0]) if started and started[0][0] is not None else None,
            duration_ns=int(details[0][0]) if details and details[0][0] is not None else end,
            cuda=cuda or "cuda" in traced,
            nvtx=nvtx or "nvtxevents" in traced,
            osrt=osrt
            or "osruntime" in traced
            or any(name.startswith("OS_RUNTIME_OPTIONS:") for name in capture),
            os_call_threshold_ns=int(threshold) if threshold.isdigit() else None,
            graph_mode=graph_mode.lower() if graph_mode else None,
            capture=capture,
            dropped_rows=dict(sorted(self._dropped.items())),
            warnings=tuple(self._warnings),
        )

    def _metadata(self, tables: tuple[str, ...]) -> dict[str, str]:
        table = self._database.first_table(tables)
        rows = self._database.rows(table, ("name", "value")) if table else []
        return {str(name): str(value) for name, value in rows}

    def _warn_of_version(self, version: str | None) -> None:
        parts = (version or "").split(".")
        if len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit():
            number = int(parts[0]), int(parts[1])
            if number > schema.NEWEST_TRIED:
                self._warn(
                    f"export schema {version} is newer than any this version of nsys-lab was tried "
                    f"on ({'.'.join(map(str, schema.NEWEST_TRIED))}); columns are read by name"
                )

    def _warn_of_annotations(self, nvtx: Columns) -> None:
        types = nvtx.values["eventType"]
        if len(types) and np.isin(types, schema.DOMAIN_TYPES).all():
            self._warn(
                "the program made NVTX domains, but no range was recorded: the Python package nvtx "
                "0.2.9 or later needs an nsys newer than 2023.4; nvtx 0.2.8 works with both"
            )

    def _warn(self, message: str) -> None:
        self._warnings.append(message)


def _bare_api_name(name: str) -> str:
    return _API_SUFFIX.sub("", name, count=1)


def _memory_kind(label: str) -> str:
    """One of `MEMORY_KINDS` for a label of ENUM_CUDA_MEM_KIND."""
    words = label.lower()
    for kind in ("pageable", "pinned", "managed"):
        if kind in words:
            return kind
    return "device" if "device" in words or "array" in words else "unknown"
