"""The tables of a trace.

Columns are NumPy arrays of one length per table. Times are int64 nanoseconds since the start of
the nsys session. Names, processes, threads and devices are dense indices into the tuples of
`Trace`; -1 stands for "none recorded". Rows keep the order of the recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]

#: Directions of a copy, in the order in which a time shared by several is given to one of them.
COPY_DIRECTIONS = ("d2h", "h2d", "d2d", "p2p", "other")

#: Kinds of memory at a copy's host end (`device` when it has none).
MEMORY_KINDS = ("pageable", "pinned", "managed", "device", "unknown")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length.

    Attributes:
        start: Start times, ns, shape (n,).
        end: End times, ns, shape (n,), ``start <= end``.
    """

    start: Int64
    end: Int64

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, eq=False)
class Activities(Table):
    """What ran on a device.

    Attributes:
        device: Index into `Trace.devices`.
        process: Index into `Trace.processes`.
        stream: CUDA stream id.
        correlation: Correlation id of the launching call; 0 where there is none.
    """

    device: Int32
    process: Int32
    stream: Int64
    correlation: Int64


@dataclass(frozen=True, eq=False)
class Kernels(Activities):
    """Kernels, or whole CUDA graph replays.

    Attributes:
        name: Index into `Trace.names`.
    """

    name: Int32


@dataclass(frozen=True, eq=False)
class Copies(Activities):
    """Memory copies, unified-memory migrations among them.

    Attributes:
        bytes: Size, bytes.
        direction: Index into `COPY_DIRECTIONS`.
        memory: Index into `MEMORY_KINDS`: the host end's kind.
        prefetched: A migration that the program asked for.
    """

    bytes: Int64
    direction: Int8
    memory: Int8
    prefetched: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Memsets(Activities):
    """Memory fills on a device."""


@dataclass(frozen=True, eq=False)
class ApiCalls(Table):
    """CUDA runtime and driver API calls.

    Attributes:
        thread: Index into `Trace.threads`.
        correlation: Correlation id, which the device work that the call launched carries too.
        name: Index into `Trace.names`; nsys' version suffix is cut off.
    """

    thread: Int32
    correlation: Int64
    name: Int32


@dataclass(frozen=True, eq=False)
class OsCalls(Table):
    """OS runtime library calls.

    Attributes:
        thread: Index into `Trace.threads`.
        name: Index into `Trace.names`.
    """

    thread: Int32
    name: Int32


@dataclass(frozen=True, eq=False)
class Ranges(Table):
    """NVTX ranges.

    Attributes:
        thread: Where the range began, index into `Trace.threads`.
        end_thread: Where it ended; the same for push/pop ranges, -1 where it is not known.
        push_pop: Whether it is a push/pop range (else start/end), bool.
        open: Whether it was still open when the recording stopped (`end` is the trace's), bool.
        name: Index into `Trace.names`.
        color: ARGB as an int64; -1 where none was given.
    """

    thread: Int32
    end_thread: Int32
    push_pop: NDArray[np.bool_]
    open: NDArray[np.bool_]
    name: Int32
    color: Int64


@dataclass(frozen=True, eq=False)
class Overheads(Table):
    """What the profiler itself did.

    Attributes:
        thread: Index into `Trace.threads`; -1 when a row concerns a whole process or all.
        process: Index into `Trace.processes`; -1 when it concerns all.
        name: Index into `Trace.names`.
    """

    thread: Int32
    process: Int32
    name: Int32


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the recorded program."""

    global_pid: int
    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread; `process` is an index into `Trace.processes`."""

    global_tid: int
    tid: int
    pid: int
    process: int
    name: str


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the recording machine, whether it did anything or not."""

    id: int
    name: str
    uuid: str | None


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU with activity."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a trace comes from and what it can tell.

    Attributes:
        path: The file as the user named it.
        nsys_version: Version of nsys that wrote the export, None where it is not recorded.
        schema_version: Version of the export's schema, None in exports of 2020.
        start_utc_ns: Wall clock at the session's start, ns since the epoch, None if unknown.
        duration_ns: Length of the capture.
        cuda: Whether CUDA was traced. So for `nvtx` and `osrt`.
        os_call_threshold_ns: Shorter OS runtime calls were not kept; None if unknown.
        graph_mode: How CUDA graphs were traced, "graph" or "node"; None if unknown.
        capture: What the recording was asked for, name to value, without the environment.
        dropped_rows: Rows that could not be used, by table.
        warnings: What a reader has to know about this trace.
    """

    path: str
    nsys_version: str | None
    schema_version: str | None
    start_utc_ns: int | None
    duration_ns: int
    cuda: bool
    nvtx: bool
    osrt: bool
    os_call_threshold_ns: int | None
    graph_mode: str | None
    capture: Mapping[str, str]
    dropped_rows: Mapping[str, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything an analysis needs of one recording.

    Attributes:
        end: The last time seen in any table, ns; 0 for an empty trace.
        names: What the `name` columns index.
        processes: In order of `global_pid`.
        threads: In order of `global_tid`.
        devices: GPUs with activity, in order of id.
    """

    provenance: Provenance
    end: int
    names: tuple[str, ...]
    processes: tuple[Process, ...]
    threads: tuple[Thread, ...]
    gpus: tuple[Gpu, ...]
    devices: tuple[Device, ...]
    kernels: Kernels
    graphs: Kernels
    copies: Copies
    memsets: Memsets
    api_calls: ApiCalls
    os_calls: OsCalls
    ranges: Ranges
    overheads: Overheads

    def frame(self, table: str) -> pd.DataFrame:
        """A table as a data frame, with names, thread ids and kinds spelled out.

        Args:
            table: Its attribute name: "kernels", "copies", "os_calls", ...

        Raises:
            KeyError: There is no such table.
        """
        import pandas as pd

        rows = getattr(self, table, None)
        if not isinstance(rows, Table):
            raise KeyError(table)
        frame = pd.DataFrame({field.name: getattr(rows, field.name) for field in fields(rows)})
        labels: dict[str, tuple[object, ...]] = {
            "name": self.names,
            "thread": tuple(thread.tid for thread in self.threads),
            "end_thread": tuple(thread.tid for thread in self.threads),
            "process": tuple(process.pid for process in self.processes),
            "device": tuple(device.id for device in self.devices),
            "direction": COPY_DIRECTIONS,
            "memory": MEMORY_KINDS,
        }
        for column, values in labels.items():
            if column in frame:
                frame[column] = frame[column].map(lambda i, v=values: v[i] if i >= 0 else None)
        return frame
