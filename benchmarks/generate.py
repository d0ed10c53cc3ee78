"""Writes a trace of any size, in the real schema, with the structure of a real program.

A loop of steps: the interpreter's lock is taken away while a batch is fetched, copies to the GPU,
a stretch of small kernels that the host cannot launch fast enough, a graph, a stretch of large
kernels that queue up on two streams, copies back, an unmapping of memory, work on the host.
Each 500 kernels come with 500 API calls, 50 copies, 50 OS runtime calls and 10 NVTX ranges.

    python -m benchmarks.generate trace.sqlite --kernels 1000000 --seed 0

The same size and seed give the same bytes.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from tests.traces.schema import Column, layouts
from tests.traces.writer import COPY_KINDS, MEMORY_KINDS, TraceWriter, globalpid, globaltid

SCHEMA = "3.20.3"
KERNELS_PER_STEP = 500
#: Steps that are made at once; a size of its own so that memory does not grow with the trace.
STEPS_PER_CHUNK = 200

US = 1_000
MS = 1_000_000

PID = 4000
MAIN = globaltid(PID, PID)
FEEDER = globaltid(PID, PID + 1)
POLLER = globaltid(PID, PID + 2)
WORKER_PIDS = tuple(PID + 10 * n for n in range(1, 5))

SMALL, GRAPH, LARGE = 220, 60, 220
COPIES, PAGEABLE = 25, 5
#: Every so many of the large kernels run on the side stream.
SIDE_EVERY = 4
MAIN_STREAM, SIDE_STREAM, COPY_STREAM = 7, 13, 14
KERNEL_NAMES = 200

Ints = npt.NDArray[np.int64]


@dataclass
class Tables:
    """The rows of one chunk, by table; each value is a list of columns to be stacked."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, table: str, **columns: Any) -> None:
        """Rows as arrays that broadcast against each other, in row order."""
        self.rows.setdefault(table, []).append(columns)


@dataclass(frozen=True)
class Strings:
    """Ids of the strings that all steps share."""

    kernels: Ints
    calls: dict[str, int]
    ranges: dict[str, int]


class _Steps:
    """One chunk of steps, built forwards in time; arrays have one row a step."""

    def __init__(
        self, rng: np.random.Generator, tables: Tables, strings: Strings, first: int, count: int
    ) -> None:
        self._rng = rng
        self._tables = tables
        self._strings = strings
        self._numbers = np.arange(first, first + count)
        self._calls = 0
        #: When the host thread and the device are free, within the step.
        self.host = np.zeros(count, np.int64)
        self.device = np.zeros(count, np.int64)
        self._range_rows: list[tuple[str | None, Ints, Ints]] = []

    def build(self, origin: int) -> int:
        """Make all steps, lay them end to end from `origin` on; returns where the last one ends."""
        begin = self.host.copy()
        self._fetch()
        self._copies("h2d", "copy to GPU")
        forward = self.host.copy()
        self._kernels()
        self._range("forward", forward, self.host)
        self._copies("d2h", "copy to CPU", unmap=True)
        self._process()
        self._range(None, begin, self.host)
        self._poller(begin)
        self._workers(begin)
        length = self.host + 20 * US
        offsets = origin + np.concatenate(([0], np.cumsum(length)[:-1]))
        self._place(offsets)
        return int(offsets[-1] + length[-1])

    # The phases of a step.

    def _fetch(self) -> None:
        """Ten waits of about 5 ms for the interpreter's lock, which the feeder thread holds."""
        begin = self.host + 30 * US
        waits = np.full((len(self.host), 10), 5 * MS + 60 * US)
        waits[:, -1] = self._between(1 * MS, 4 * MS)
        starts = begin[:, None] + _before(waits + 8 * US)
        self._osrt(MAIN, "pthread_cond_timedwait", starts, starts + waits)
        end = starts[:, -1] + waits[:, -1]
        self._osrt(FEEDER, "posix_fallocate64", begin + 100 * US, end - 50 * US)
        # Then the feeder writes a little and waits for the next batch.
        writes = (end + 100 * US)[:, None] + np.arange(6) * 30 * US
        self._osrt(FEEDER, "write", writes, writes + self._between(2 * US, 20 * US, 6))
        self._osrt(FEEDER, "pthread_cond_wait", writes[:, -1] + 50 * US, end + 8 * MS)
        self._range("get batch", self.host + 10 * US, end + 40 * US)
        self.host = end + 60 * US

    def _copies(self, kind: str, name: str, *, unmap: bool = False) -> None:
        begin = self.host.copy()
        host_kind = "srcKind" if kind == "h2d" else "dstKind"
        other = "dstKind" if kind == "h2d" else "srcKind"
        # Pageable copies come first, and each keeps the host in the call until it is done.
        for _ in range(PAGEABLE):
            start = np.maximum(self.host + 9 * US, self.device + 1 * US)
            end = start + self._between(400 * US, 600 * US)
            ids = self._api("cudaMemcpyAsync_v3020", self.host, end + 3 * US)
            self._copy(kind, ids, start, end, {host_kind: 0, other: MEMORY_KINDS["device"]})
            self.host, self.device = end + 5 * US, end
        count = COPIES - PAGEABLE
        calls = self._between(4 * US, 7 * US, count)
        starts = self.host[:, None] + _before(calls + 1 * US)
        ids = self._api("cudaMemcpyAsync_v3020", starts, starts + calls)
        lengths = self._between(60 * US, 90 * US, count)
        copies = self._run(starts + calls + 2 * US, lengths, 1 * US)
        self._copy(
            kind,
            ids,
            copies,
            copies + lengths,
            {host_kind: MEMORY_KINDS["pinned"], other: MEMORY_KINDS["device"]},
        )
        self.host = starts[:, -1] + calls[:, -1] + 5 * US
        self.device = copies[:, -1] + lengths[:, -1]
        if unmap:
            self._drain()
        self._range(name, begin - 5 * US, self.host)
        self.host = self.host + 10 * US

    def _kernels(self) -> None:
        small_calls = self._between(3_500, 5_500, SMALL)
        small = self.host[:, None] + _before(small_calls + 800)
        small_ids = self._api("cudaLaunchKernel_v7000", small, small + small_calls)
        self.host = small[:, -1] + small_calls[:, -1] + 5 * US
        graph_ids = self._api("cudaGraphLaunch_v10000", self.host, self.host + 18 * US)
        graph_ready = np.repeat((self.host + 15 * US)[:, None], GRAPH, axis=1)
        self.host = self.host + 25 * US
        large_calls = self._between(3_500, 5_500, LARGE)
        large = self.host[:, None] + _before(large_calls + 800)
        large_ids = self._api("cudaLaunchKernelExC_v11060", large, large + large_calls)
        self._layers(small, large + large_calls)
        self.host = large[:, -1] + large_calls[:, -1] + 5 * US

        side = np.arange(LARGE) % SIDE_EVERY == SIDE_EVERY - 1
        ready = np.concatenate(
            (small + small_calls + 2 * US, graph_ready, (large + large_calls + 2 * US)[:, ~side]),
            axis=1,
        )
        lengths = np.concatenate(
            (
                self._between(1_200, 3_000, SMALL),
                self._between(2 * US, 5 * US, GRAPH),
                self._between(20 * US, 60 * US, int((~side).sum())),
            ),
            axis=1,
        )
        ids = np.concatenate(
            (small_ids, np.repeat(graph_ids[:, None], GRAPH, axis=1), large_ids[:, ~side]), axis=1
        )
        nodes: list[int | None] = [None] * SMALL + list(range(1, GRAPH + 1))
        nodes += [None] * (lengths.shape[1] - len(nodes))
        # Both streams wait for nothing: the pinned copies are for the next step, and overlap.
        copied, self.device = self.device, np.zeros_like(self.device)
        starts = self._run(ready, lengths, 1_100)
        side_lengths = self._between(30 * US, 90 * US, int(side.sum()))
        side_starts = self._run((large + large_calls + 2 * US)[:, side], side_lengths, 1_100)
        self._kernel_rows(
            np.concatenate((starts, side_starts), axis=1),
            np.concatenate((lengths, side_lengths), axis=1),
            np.concatenate((ids, large_ids[:, side]), axis=1),
            [MAIN_STREAM] * starts.shape[1] + [SIDE_STREAM] * side_starts.shape[1],
            [*nodes, *[None] * side_starts.shape[1]],
        )
        ends = (starts[:, -1] + lengths[:, -1], side_starts[:, -1] + side_lengths[:, -1])
        self.device = np.maximum.reduce((copied, *ends))

    def _layers(self, small: Ints, large_ends: Ints) -> None:
        edges = [small[:, 0], small[:, SMALL // 2], large_ends[:, 0]]
        edges += [large_ends[:, LARGE // 2], large_ends[:, -1]]
        for number, (start, end) in enumerate(itertools.pairwise(edges)):
            self._range(f"layer {number}", start, end)

    def _drain(self) -> None:
        """Wait for the device, then free memory, the expensive kind last."""
        done = np.maximum(self.host, self.device) + 10 * US
        self._api("cudaStreamSynchronize_v3020", self.host, done)
        self.host = done + 2 * US
        for name, length in (
            *[("cudaEventRecord_v3020", 2 * US)] * 3,
            *[("cudaEventQuery_v3020", 1 * US)] * 3,
            ("cudaMalloc_v3020", 120 * US),
            ("cudaFree_v3020", 90 * US),
        ):
            self._api(name, self.host, self.host + length)
            if length > 50 * US:
                self._osrt(MAIN, "ioctl", self.host + 20 * US, self.host + 70 * US)
            self.host = self.host + length + 1 * US
        unmapped = self.host + self._between(1 * MS, 30 * MS)
        self._osrt(MAIN, "munmap", self.host, unmapped)
        self.host = unmapped + 20 * US

    def _process(self) -> None:
        begin = self.host.copy()
        self._osrt(MAIN, "pthread_mutex_lock", begin + 10 * US, begin + 25 * US)
        writes = (begin + 400 * US)[:, None] + np.arange(3) * 100 * US
        self._osrt(MAIN, "write", writes, writes + self._between(5 * US, 50 * US, 3))
        self.host = begin + self._between(700 * US, 3 * MS)
        self._range("process output", begin, self.host)
        self.host = self.host + 10 * US

    def _poller(self, begin: Ints) -> None:
        """A thread that sits in poll all day and never holds anybody up."""
        edges = np.linspace(begin, self.host, 5, endpoint=False).astype(np.int64).T
        lengths = (self.host - begin) // 5 - 2 * US
        self._osrt(POLLER, "poll", edges, edges + lengths[:, None])

    def _workers(self, begin: Ints) -> None:
        """Processes that make batches; they touch no GPU."""
        for pid in WORKER_PIDS:
            at = begin + self._between(1 * MS, 5 * MS)
            for name, length in (
                ("read", self._between(1 * MS, 3 * MS)),
                ("mmap", self._between(5 * US, 50 * US)),
                ("munmap", self._between(1 * MS, 6 * MS)),
                ("write", self._between(10 * US, 60 * US)),
                ("sem_wait", self._between(5 * MS, 20 * MS)),
            ):
                self._osrt(globaltid(pid, pid), name, at, at + length)
                at = at + length + 30 * US

    # Rows.

    def _run(self, ready: Ints, lengths: Ints, between: int) -> Ints:
        """When work that is ready at those times starts on a stream that takes it in order."""
        ahead = _before(lengths + between)
        first = np.maximum.accumulate(
            np.maximum(ready, (self.device + between)[:, None]) - ahead, axis=1
        )
        return np.asarray(first + ahead)

    def _api(self, name: str, starts: Ints, ends: Ints) -> Ints:
        count = 1 if starts.ndim == 1 else starts.shape[1]
        shape = (len(self._numbers), count)
        ids: Ints = self._numbers[:, None] * 600 + np.arange(
            self._calls + 1, self._calls + count + 1
        )
        self._calls += count
        self._tables.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=starts.reshape(shape),
            end=ends.reshape(shape),
            globalTid=MAIN,
            correlationId=ids,
            nameId=self._strings.calls[name],
        )
        return np.asarray(ids[:, 0] if starts.ndim == 1 else ids)

    def _copy(self, kind: str, ids: Ints, starts: Ints, ends: Ints, kinds: dict[str, int]) -> None:
        shape = (len(self._numbers), -1)
        starts, ends = starts.reshape(shape), ends.reshape(shape)
        self._tables.add(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            start=starts,
            end=ends,
            streamId=COPY_STREAM,
            correlationId=ids.reshape(shape),
            # 8 and 40 GB/s.
            bytes=(ends - starts) * (8 if 0 in kinds.values() else 40),
            copyKind=COPY_KINDS[kind],
            **kinds,
        )

    def _kernel_rows(
        self, starts: Ints, lengths: Ints, ids: Ints, streams: list[int], nodes: list[int | None]
    ) -> None:
        names = self._strings.kernels[np.arange(starts.shape[1]) % KERNEL_NAMES]
        self._tables.add(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            start=starts,
            end=starts + lengths,
            streamId=np.array(streams),
            correlationId=ids,
            demangledName=names,
            shortName=names,
            mangledName=names,
            gridId=ids,
            graphNodeId=np.array(nodes, dtype=object),
        )

    def _osrt(self, thread: int, name: str, starts: Ints, ends: Ints) -> None:
        shape = (len(self._numbers), -1)
        self._tables.add(
            "OSRT_API",
            start=starts.reshape(shape),
            end=ends.reshape(shape),
            globalTid=thread,
            nameId=self._strings.calls[name],
        )

    def _range(self, name: str | None, starts: Ints, ends: Ints) -> None:
        """A range; the step's own, with a counter in its name, when `name` is None."""
        self._range_rows.append((name, starts.copy(), ends.copy()))

    def _place(self, offsets: Ints) -> None:
        """Move every row from its step's time to the trace's, and order ranges as nsys does."""
        for rows in self._tables.rows.values():
            for columns in rows:
                columns["start"] = columns["start"] + offsets[:, None]
                columns["end"] = columns["end"] + offsets[:, None]
        for name, starts, ends in self._range_rows:
            text = [f"Batch {n}" for n in self._numbers] if name is None else None
            self._tables.add(
                "NVTX_EVENTS",
                start=(starts + offsets)[:, None],
                end=(ends + offsets)[:, None],
                text=None if text is None else np.array(text, dtype=object)[:, None],
                textId=None if name is None else self._strings.ranges[name],
                globalTid=MAIN,
            )

    def _between(self, low: int, high: int, columns: int | None = None) -> Ints:
        size = len(self._numbers) if columns is None else (len(self._numbers), columns)
        return self._rng.integers(low, high, size)


def _before(lengths: Ints) -> Ints:
    """What lies before each entry of its row: the sums of those to its left."""
    return np.asarray(np.cumsum(lengths, axis=1) - lengths)


#: What each row of a table says that is the same in all of them.
_CONSTANTS: dict[str, dict[str, Any]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": {
        "globalPid": globalpid(PID),
        "contextId": 1,
        "launchType": 1,
        "registersPerThread": 32,
        **dict.fromkeys(("gridX", "gridY", "gridZ", "blockY", "blockZ"), 1),
        "blockX": 256,
    },
    "CUPTI_ACTIVITY_KIND_MEMCPY": {"globalPid": globalpid(PID), "contextId": 1, "copyCount": 1},
    "CUPTI_ACTIVITY_KIND_RUNTIME": {},
    "OSRT_API": {"eventClass": 27, "nestingLevel": 0},
    "NVTX_EVENTS": {"eventType": 59, "color": 255, "domainId": 0},
}
#: Rows of these stand in order of their start, those of OSRT_API and NVTX_EVENTS thread by thread.
_SORTED = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
)


class _Sink:
    """Appends chunks to the database."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._layouts: dict[str, tuple[Column, ...]] = layouts(SCHEMA)
        for table in _CONSTANTS:
            columns = ", ".join(column.ddl for column in self._layouts[table])
            database.execute(f"CREATE TABLE {table} ({columns})")

    def write(self, tables: Tables) -> None:
        for table, rows in tables.rows.items():
            self._insert(table, rows)

    def _insert(self, table: str, rows: list[dict[str, Any]]) -> None:
        names = list(dict.fromkeys(name for columns in rows for name in columns))
        stacked = {name: np.concatenate([_full(r, name) for r in rows]) for name in names}
        if table in _SORTED:
            order = np.argsort(stacked["start"], kind="stable")
            stacked = {name: values[order] for name, values in stacked.items()}
        places = [self._place(table, column, names) for column in self._layouts[table]]
        used = [column.name for column in self._layouts[table] if column.name in names]
        self._database.executemany(
            f"INSERT INTO {table} VALUES ({', '.join(places)})",
            zip(*(stacked[name].tolist() for name in used), strict=True),
        )

    @staticmethod
    def _place(table: str, column: Column, given: list[str]) -> str:
        if column.name in given:
            return "?"
        if column.name in _CONSTANTS[table]:
            return str(_CONSTANTS[table][column.name])
        return "0" if column.not_null or column.name == "deviceId" else "NULL"


def _full(columns: dict[str, Any], name: str) -> npt.NDArray[Any]:
    """One column of one batch of rows, as long as the batch."""
    shape = columns["start"].shape
    value = columns.get(name)
    if value is None:
        return np.full(shape, None, dtype=object).ravel()
    return np.broadcast_to(value, shape).ravel()


_CALL_NAMES = (
    "cudaLaunchKernel_v7000",
    "cudaLaunchKernelExC_v11060",
    "cudaGraphLaunch_v10000",
    "cudaMemcpyAsync_v3020",
    "cudaStreamSynchronize_v3020",
    "cudaEventRecord_v3020",
    "cudaEventQuery_v3020",
    "cudaMalloc_v3020",
    "cudaFree_v3020",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_mutex_lock",
    "posix_fallocate64",
    "write",
    "read",
    "mmap",
    "munmap",
    "ioctl",
    "poll",
    "sem_wait",
)
_RANGE_NAMES = (
    "get batch",
    "copy to GPU",
    "forward",
    "layer 0",
    "layer 1",
    "layer 2",
    "layer 3",
    "copy to CPU",
    "process output",
)


def generate(path: Path, *, kernels: int, seed: int) -> None:
    """Write a trace of at least that many kernels; a file of that name is replaced.

    Args:
        path: The export to write; half-written it has another name.
        kernels: Rounded up to whole steps of 500.
        seed: What the lengths of everything are drawn from.
    """
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    steps = -(-kernels // KERNELS_PER_STEP)
    try:
        strings = _describe_machine(partial)
        with contextlib.closing(sqlite3.connect(partial)) as database:
            # A file that is thrown away on failure needs no journal.
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            sink = _Sink(database)
            rng = np.random.default_rng(seed)
            now = 1 * MS
            for first in range(0, steps, STEPS_PER_CHUNK):
                tables = Tables()
                count = min(STEPS_PER_CHUNK, steps - first)
                now = _Steps(rng, tables, strings, first, count).build(now)
                sink.write(tables)
            database.execute("UPDATE ANALYSIS_DETAILS SET duration = ?, stopTime = ?", (now, now))
            database.commit()
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _describe_machine(path: Path) -> Strings:
    """The tables whose size does not depend on that of the trace."""
    with TraceWriter(path, schema=SCHEMA, gpus=False) as writer:
        writer.gpu(0)
        writer.cuda_device(gpu_id=0, ordinal=0, pid=PID)
        writer.process("python3", pid=PID)
        for name, tid in (("python3", PID), ("feeder", PID + 1), ("poller", PID + 2)):
            writer.thread_name(name, pid=PID, tid=tid)
        for pid in WORKER_PIDS:
            writer.process("pt_data_worker", pid=pid)
            writer.thread_name("pt_data_worker", pid=pid)
        return Strings(
            kernels=np.array(
                [writer.string(f"void kernel_{n}<float, {n}>(T1 *)") for n in range(KERNEL_NAMES)]
            ),
            calls={name: writer.string(name) for name in _CALL_NAMES},
            ranges={name: writer.string(name) for name in _RANGE_NAMES},
        )


@click.command()
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--kernels", default=1_000_000, show_default=True, help="How many kernel rows.")
@click.option("--seed", default=0, show_default=True, help="What lengths are drawn from.")
def main(path: Path, kernels: int, seed: int) -> None:
    """Write a synthetic trace to PATH."""
    begin = time.perf_counter()
    generate(path, kernels=kernels, seed=seed)
    size = path.stat().st_size / 1e6
    seconds = time.perf_counter() - begin
    print(f"{path}: {kernels} kernels, {size:.0f} MB, {seconds:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
