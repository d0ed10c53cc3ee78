"""Random small traces: everything that real exports hold, at times that coincide often.

A `Recipe` is what is to be written, in a form that Hypothesis can shrink and a person can read;
`Recipe.write` makes the export. Times are small multiples of a unit, so that rows touch, coincide
and nest; the unit decides whether the thresholds of docs/definitions.md (100 us, 1 ms) are in
reach.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.traces.writer import COPY_KINDS, Call, TraceWriter, globaltid

if TYPE_CHECKING:
    from pathlib import Path

#: How many units a trace lasts.
LENGTH = 60
UNITS_NS = (1, 20_000, 500_000)
PIDS = (100, 200, 300)

API_NAMES = (
    "cudaLaunchKernel_v7000",
    "cudaMemcpyAsync_v3020",
    "cudaMemcpyAsync_ptsz_v7000",
    "cudaMemcpy_v3020",
    "cudaStreamSynchronize_v3020",
    "cudaHostAlloc_v3020",
    "cudaFree_v3020",
    "cuLaunchKernel",
    "cuCtxSynchronize",
)
OS_NAMES = (
    "munmap",
    "ioctl",
    "write",
    "read",
    "recv",
    "poll",
    "pthread_cond_timedwait",
    "pthread_mutex_lock",
    "usleep",
)
WAIT_NAMES = ("pthread_cond_timedwait", "pthread_mutex_lock", "read", "poll")
RANGE_NAMES = (
    "step 1",
    "step 2",
    "step 3",
    "step 4",
    "epoch 1",
    "epoch 2",
    "load",
    "work",
    "load / work",
)
OVERHEAD_NAMES = ("CUPTI Buffer flush", "TLS allocation")
WORK_KINDS = ("kernel", "graph", "memset", *COPY_KINDS)
HOST_MEMORY = ("pageable", "pinned", "managed", "device", "array", "unknown")


@dataclass(frozen=True)
class Thread:
    """The nth thread of a process; `number` None stands for the process as a whole (TID 0)."""

    pid: int
    number: int | None

    @property
    def tid(self) -> int:
        return 0 if self.number is None else self.pid + self.number


@dataclass(frozen=True)
class Api:
    thread: Thread
    start: int
    end: int
    name: str
    correlation: int


@dataclass(frozen=True)
class Os:
    thread: Thread
    start: int
    end: int
    name: str
    is_call: bool = True


@dataclass(frozen=True)
class Range:
    thread: Thread
    start: int
    end: int | None
    name: str
    push_pop: bool = True
    ends_on: Thread | None = None


@dataclass(frozen=True)
class Overhead:
    """Of a thread; of a process as a whole with thread None; of nobody with both None."""

    thread: Thread | None
    pid: int | None
    start: int
    end: int
    name: str


@dataclass(frozen=True)
class Work:
    """Something that a device did; `correlation` 0 stands for no API row."""

    pid: int
    ordinal: int
    start: int
    end: int
    kind: str
    correlation: int
    memory: str = "pinned"
    size: int = 1


Row = Api | Os | Range | Overhead | Work


@dataclass(frozen=True)
class Recipe:
    """A trace to be written.

    Attributes:
        unit: What one unit of time is, ns.
        rows: In the order in which they are written.
        gpus: (pid, ordinal) to GPU id; None for an export without the table.
        uuids: Whether GPUs have none, one each, or all the same (one GPU under several ids).
    """

    unit: int
    rows: tuple[Row, ...]
    gpus: tuple[tuple[int, int, int], ...] | None = None
    uuids: str = "own"

    def write(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        with TraceWriter(path, gpus=False) as w:
            for row in self.rows:
                self._write_row(w, row)
            for pid, ordinal, gpu in self.gpus or ():
                w.cuda_device(gpu_id=gpu, ordinal=ordinal, pid=pid)
            for gpu in sorted({gpu for _, _, gpu in self.gpus or ()}):
                uuid = {"none": None, "own": f"uuid of {gpu}", "shared": "the uuid"}[self.uuids]
                w.gpu(gpu, uuid=uuid)

    def _write_row(self, w: TraceWriter, row: Row) -> None:
        start = row.start * self.unit
        end = row.end if row.end is None else row.end * self.unit
        if isinstance(row, Range):
            if row.push_pop:
                w.push_pop(start, end, row.name, pid=row.thread.pid, tid=row.thread.tid)
            else:
                ends_on = row.ends_on or row.thread
                number = None if end is None else globaltid(ends_on.pid, ends_on.tid)
                w.start_end(
                    start,
                    end,
                    row.name,
                    pid=row.thread.pid,
                    tid=row.thread.tid,
                    endGlobalTid=number,
                )
            return
        assert end is not None
        if isinstance(row, Api):
            w.api(
                start,
                end,
                row.name,
                pid=row.thread.pid,
                tid=row.thread.tid,
                correlation=row.correlation,
            )
        elif isinstance(row, Os):
            event_class = {} if row.is_call else {"eventClass": 31, "nestingLevel": None}
            w.osrt(start, end, row.name, pid=row.thread.pid, tid=row.thread.tid, **event_class)
        elif isinstance(row, Overhead):
            if row.thread:
                w.overhead(start, end, row.name, pid=row.thread.pid, tid=row.thread.tid)
            elif row.pid:
                w.overhead(start, end, row.name, pid=row.pid, tid=0)
            else:
                w.overhead(start, end, row.name, globalTid=None)
        else:
            call = Call(row.correlation, globaltid(row.pid, 0))
            if row.kind == "kernel":
                w.kernel(start, end, call=call, device=row.ordinal)
            elif row.kind == "graph":
                w.graph(start, end, call=call, device=row.ordinal)
            elif row.kind == "memset":
                w.memset(start, end, call=call, device=row.ordinal)
            else:
                outwards = row.kind == "d2h"
                w.memcpy(
                    start,
                    end,
                    row.kind,
                    size=row.size,
                    call=call,
                    device=row.ordinal,
                    src=None if outwards else row.memory,
                    dst=row.memory if outwards else None,
                )


moments = st.integers(0, LENGTH)
sizes = st.sampled_from([1, 999_999, 1_000_000, 5_000_000])
lengths = st.one_of(st.integers(0, 3), st.integers(0, 20))


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int]:
    """A stretch of time; now and then empty, and rarely one that no reader may use."""
    start = draw(moments)
    if draw(st.integers(0, 40)) == 40:
        return draw(st.sampled_from([(start, max(start - 1, 0)), (0, 0)]))
    return start, start + draw(lengths)


@st.composite
def launches(draw: st.DrawFn, threads: list[Thread], ordinals: int) -> list[Row]:
    """A call and what it caused, most of the time; either can be missing, or there are more."""
    thread = draw(st.sampled_from(threads))
    correlation = draw(st.integers(1, 12))
    start, end = draw(spans())
    rows: list[Row] = []
    if draw(st.integers(0, 5)):
        rows.append(Api(thread, start, end, draw(st.sampled_from(API_NAMES)), correlation))
        if draw(st.integers(0, 8)) == 8:
            # A driver call inside the runtime call, with the same id.
            rows.append(Api(thread, start, max(start, end - 1), "cuLaunchKernel", correlation))
    else:
        correlation = draw(st.sampled_from([0, correlation]))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 0]))):
        begin = max(start + draw(st.integers(-4, 12)), 0)
        rows.append(
            Work(
                thread.pid,
                draw(st.integers(0, ordinals - 1)),
                begin,
                begin + draw(lengths),
                draw(st.one_of(st.just("kernel"), st.sampled_from(WORK_KINDS))),
                correlation,
                draw(st.sampled_from(HOST_MEMORY)),
                draw(sizes),
            )
        )
    return rows


@st.composite
def waits(draw: st.DrawFn, threads: list[Thread]) -> list[Row]:
    """A run of waits of one name, like those for CPython's lock."""
    thread = draw(st.sampled_from(threads))
    name = draw(st.sampled_from(WAIT_NAMES))
    at = draw(moments)
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, 4))):
        end = at + draw(st.integers(1, 8))
        rows.append(Os(thread, at, end, name))
        at = end + draw(st.integers(0, 3))
    return rows


@st.composite
def singles(draw: st.DrawFn, threads: list[Thread]) -> list[Row]:
    """One row of the host's."""
    thread = draw(st.sampled_from(threads))
    if draw(st.integers(0, 20)) == 20:
        thread = Thread(thread.pid, None)
    start, end = draw(spans())
    kind = draw(st.sampled_from(["api", "os", "os", "range", "range", "start-end", "overhead"]))
    if kind == "api":
        # Ids that no launch uses, so that it is just a call.
        correlation = draw(st.sampled_from([99, 99, 0]))
        return [Api(thread, start, end, draw(st.sampled_from(API_NAMES)), correlation)]
    if kind == "os":
        is_call = draw(st.integers(0, 15)) > 0
        return [Os(thread, start, end, draw(st.sampled_from(OS_NAMES)), is_call)]
    if kind == "overhead":
        name = draw(st.sampled_from(OVERHEAD_NAMES))
        whose = draw(st.sampled_from([(thread, thread.pid), (None, thread.pid), (None, None)]))
        return [Overhead(*whose, start, end, name)]
    open_end = None if draw(st.integers(0, 8)) == 8 else end
    name = draw(st.sampled_from(RANGE_NAMES))
    if kind == "range":
        return [Range(thread, start, open_end, name)]
    ends_on = draw(st.sampled_from([thread, *threads]))
    return [Range(thread, start, open_end, name, False, ends_on)]


@st.composite
def loops(draw: st.DrawFn, threads: list[Thread], ordinals: int) -> list[Row]:
    """Steps one after the other, each with a launch inside; now and then in two epochs."""
    thread = draw(st.sampled_from(threads))
    first = at = draw(st.integers(0, 20))
    rows: list[Row] = []
    middle = at
    for number in range(draw(st.integers(2, 4))):
        end = at + draw(st.integers(1, 12))
        call = at + draw(st.integers(0, end - at - 1))
        correlation = 50 + number
        rows.append(Range(thread, at, end, f"step {number}"))
        rows.append(Api(thread, call, call + 1, "cudaMemcpyAsync_v3020", correlation))
        begin = call + draw(st.integers(1, 15))
        rows.append(
            Work(
                thread.pid,
                draw(st.integers(0, ordinals - 1)),
                begin,
                begin + draw(st.integers(1, 9)),
                draw(st.sampled_from(["kernel", "kernel", "h2d", "d2h"])),
                correlation,
                draw(st.sampled_from(["pageable", "pinned"])),
                draw(sizes),
            )
        )
        at = end + draw(st.integers(0, 3))
        if number == 0:
            middle = at
    if draw(st.booleans()):
        rows.append(Range(thread, first, middle, "epoch 1"))
        rows.append(Range(thread, middle, at, "epoch 2"))
    return rows


@st.composite
def stalls(draw: st.DrawFn, threads: list[Thread]) -> list[Row]:
    """A gap whose feeding thread sits in something while other threads do other things."""
    feeder = draw(st.sampled_from(threads))
    start = draw(st.integers(0, 40))
    length = draw(st.integers(2, 16))
    end = start + length
    correlation = draw(st.integers(20, 40))
    call = draw(st.integers(start, end))
    rows: list[Row] = [
        Work(feeder.pid, 0, max(start - 4, 0), start, "kernel", correlation - 1),
        Api(
            feeder,
            call,
            draw(st.integers(call, end)),
            draw(st.sampled_from(API_NAMES)),
            correlation,
        ),
        Work(feeder.pid, 0, end, end + 4, "kernel", correlation),
    ]
    name = draw(st.sampled_from((*WAIT_NAMES, *WAIT_NAMES, *OS_NAMES)))
    at = start + draw(st.integers(-2, 3))
    while at < end:
        until = at + draw(st.integers(1, 8))
        rows.append(Os(feeder, max(at, 0), until, name))
        at = until + draw(st.integers(0, 3))
    if not draw(st.integers(0, 3)):
        # The wait is inside a CUDA call.
        outer = draw(st.sampled_from(API_NAMES))
        rows.append(Api(feeder, max(start - 3, 0), end - draw(st.integers(0, 2)), outer, 98))
    for _ in range(draw(st.integers(0, 5))):
        other = draw(st.sampled_from(threads))
        begin = max(start + draw(st.integers(-3, length)), 0)
        until = begin + draw(st.integers(0, length + 3))
        kind = draw(st.sampled_from(["api", "os", "os", "range", "overhead"]))
        if kind == "api":
            rows.append(Api(other, begin, until, draw(st.sampled_from(API_NAMES)), 97))
        elif kind == "os":
            rows.append(Os(other, begin, until, draw(st.sampled_from(OS_NAMES))))
        elif kind == "range":
            open_end = None if draw(st.integers(0, 3)) == 3 else until
            rows.append(Range(other, begin, open_end, draw(st.sampled_from(RANGE_NAMES))))
        else:
            what = draw(st.sampled_from(OVERHEAD_NAMES))
            rows.append(Overhead(other, other.pid, begin, until, what))
    return rows


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """A trace of one to three processes with up to four threads each, on one or two devices."""
    threads = [
        Thread(pid, number)
        for pid in PIDS[: draw(st.sampled_from([1, 1, 2, 3]))]
        for number in range(draw(st.integers(1, 4)))
    ]
    ordinals = draw(st.sampled_from([1, 1, 2]))
    kinds = [
        stalls(threads),
        launches(threads, ordinals),
        singles(threads),
        waits(threads),
        loops(threads, ordinals),
    ]
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, 16))):
        rows += draw(st.one_of(kinds))
    gpus = None
    if draw(st.booleans()):
        pairs = [(pid, o) for pid in sorted({t.pid for t in threads}) for o in range(ordinals)]
        # A pair may be missing from the table.
        known = [pair for pair in pairs if draw(st.integers(0, 9)) > 0]
        gpus = tuple((*pair, draw(st.integers(0, 1))) for pair in known)
    return Recipe(
        draw(st.sampled_from(UNITS_NS)),
        tuple(_with_real_work(rows)),
        gpus,
        draw(st.sampled_from(["own", "own", "none", "shared"])),
    )


def _with_real_work(rows: list[Row]) -> list[Row]:
    """Makes sure that no device did nothing but things that took no time."""
    busy = {(r.pid, r.ordinal) for r in rows if isinstance(r, Work) and r.start < r.end}
    result: list[Row] = []
    for row in rows:
        if isinstance(row, Work) and (row.pid, row.ordinal) not in busy:
            result.append(replace(row, end=row.start + 1))
        else:
            result.append(row)
    return result


@st.composite
def windows(draw: st.DrawFn) -> tuple[int, int]:
    """A window in units of time, never empty; it may lie outside everything."""
    start = draw(moments)
    return start, start + draw(st.integers(1, LENGTH))
