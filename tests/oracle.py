"""A second analysis of a trace: slow, obvious, and written from docs/definitions.md alone.

It shares no code with `analysis`, uses neither NumPy nor pandas, and prefers the wording of the
page to speed: sets of time are lists of pairs that are compared moment by moment. Property tests
and all fixtures hold the fast analysis to it.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

Spans = list[tuple[int, int]]
Names = tuple[str, ...]

OUTSIDE = "outside any range"
FOREVER = 1 << 62
SHORT_GAP_NS = 100_000
EPISODE_PAUSE_NS = 1_000_000
LARGE_COPY_BYTES = 1_000_000
DIRECTIONS = ("d2h", "h2d", "d2d", "p2p", "other")
COPY_DIRECTION = {
    **dict.fromkeys((1, 3, 11), "h2d"),
    **dict.fromkeys((2, 4, 12), "d2h"),
    **dict.fromkeys((5, 6, 7, 8, 13), "d2d"),
    10: "p2p",
}
MIGRATIONS = (11, 12, 13)
MEMORY = {
    0: "pageable",
    1: "pinned",
    **dict.fromkeys((2, 3, 5), "device"),
    **dict.fromkeys((4, 6), "managed"),
}
KINDS = ("kernel", "graph", "copy", "memset")

# fmt: off
WAITS = {
    "pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "pthread_mutex_lock",
    "pthread_mutex_timedlock", "pthread_mutex_clocklock", "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock", "pthread_rwlock_timedrdlock", "pthread_rwlock_timedwrlock",
    "pthread_rwlock_clockrdlock", "pthread_rwlock_clockwrlock", "pthread_spin_lock",
    "pthread_barrier_wait", "pthread_join", "pthread_timedjoin_np", "pthread_clockjoin_np",
    "sem_wait", "sem_timedwait", "sem_clockwait", "futex", "poll", "ppoll", "select", "pselect",
    "epoll_wait", "epoll_pwait", "epoll_pwait2", "read", "readv", "recv", "recvfrom", "recvmsg",
    "recvmmsg", "accept", "accept4", "wait", "wait3", "wait4", "waitpid", "waitid", "sigwait",
    "sigwaitinfo", "sigtimedwait", "mq_receive", "mq_timedreceive", "msgrcv", "semop",
    "semtimedop", "flock", "lockf",
}
READS = {"read", "readv", "recv", "recvfrom", "recvmsg", "recvmmsg"}
SLEEPS = {"sleep", "usleep", "nanosleep", "clock_nanosleep", "sched_yield", "pause"}
SYNCHRONISES = {
    "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
    "cudaThreadSynchronize", "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize",
}
# fmt: on


# ------------------------------------------------------------------------------------------ time


def united(spans: Spans) -> Spans:
    """The same moments as sorted, disjoint, non-touching spans."""
    result: Spans = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def both(a: Spans, b: Spans) -> Spans:
    """The moments in a and in b."""
    return united([(max(s, u), min(e, v)) for s, e in a for u, v in b])


def without(a: Spans, b: Spans) -> Spans:
    """The moments in a that are not in b."""
    rest = united(a)
    for u, v in b:
        if u < v:
            rest = [p for s, e in rest for p in ((s, min(e, u)), (max(s, v), e)) if p[0] < p[1]]
    return rest


def length(spans: Spans) -> int:
    return sum(end - start for start, end in united(spans))


def within(spans: Spans, start: int, end: int) -> Spans:
    """The spans clipped to [start, end)."""
    return [(max(s, start), min(e, end)) for s, e in spans if s < end and e > start]


# ------------------------------------------------------------------------------------------ rows


@dataclass(frozen=True)
class Call:
    """A CUDA call, an OS runtime call or a piece of profiler overhead."""

    start: int
    end: int
    row: int
    name: str
    thread: int | None
    process: int | None
    correlation: int | None = None


@dataclass(frozen=True)
class Range:
    start: int
    end: int
    row: int
    name: str
    thread: int | None
    push_pop: bool
    closed: bool
    one_thread: bool


@dataclass(frozen=True)
class Activity:
    start: int
    end: int
    table: int  # Its place in the order kernels, graph replays, copies, memsets.
    row: int
    kind: str
    name: str
    direction: str
    memory: str
    bytes: int
    correlation: int | None
    process: int
    device: int

    @property
    def is_kernel(self) -> bool:
        return self.kind in ("kernel", "graph")

    @property
    def order(self) -> tuple[int, int, int]:
        return self.start, self.table, self.row


@dataclass
class Trace:
    activities: list[Activity] = field(default_factory=list)
    api: list[Call] = field(default_factory=list)
    osrt: list[Call] = field(default_factory=list)
    overhead: list[Call] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    osrt_traced: bool = False
    end: int = 0


def synchronises(name: str) -> bool:
    """Whether a CUDA call waits for the device."""
    copies = name.startswith(("cudaMemcpy", "cuMemcpy")) and "Async" not in name
    return name in SYNCHRONISES or copies


def process_of(thread: int) -> int:
    """Of a globalTid, the globalPid: the same number with the thread's 24 bits 0."""
    return thread - thread % (1 << 24)


def plain(name: str) -> str:
    """A CUDA call's name without the version suffix."""
    return re.sub(r"(_v\d+|_pt(sz|ds))+$", "", name)


def read(path: Path) -> Trace:
    """All rows that count, in the order of their tables."""
    trace = Trace()
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        database.text_factory = lambda raw: raw.decode(errors="backslashreplace")
        tables = {n for (n,) in database.execute("SELECT name FROM sqlite_master")}

        def rows(table: str) -> list[dict[str, Any]]:
            if table not in tables:
                return []
            cursor = database.execute(f'SELECT rowid AS "row#", * FROM "{table}" ORDER BY rowid')
            columns = [d[0] for d in cursor.description]
            return [dict(zip(columns, values, strict=True)) for values in cursor]

        strings: dict[int, str] = {r["id"]: r["value"] for r in rows("StringIds")}

        def named(number: int) -> str:
            return strings.get(number, f"[string {number}]")

        capture = [r["name"] for r in rows("META_DATA_CAPTURE")]
        trace.osrt_traced = any(n.startswith("OS_RUNTIME_OPTIONS") for n in capture) or bool(
            rows("OSRT_API")
        )
        device = _devices(rows("TARGET_INFO_CUDA_DEVICE"), rows("TARGET_INFO_GPU"))

        def good(table: str, wanted: Any = bool, may_be_open: bool = False) -> list[dict[str, Any]]:
            kept = []
            for row in filter(wanted, rows(table)):
                start, end = row["start"], row["end"]
                if start is None or (end is None and not may_be_open):
                    bad = True
                else:
                    bad = end is not None and (end < start or start == end == 0)
                if bad:
                    trace.dropped[table] = trace.dropped.get(table, 0) + 1
                else:
                    kept.append(row)
            return kept

        for table, kind in enumerate(("KERNEL", "GRAPH_TRACE", "MEMCPY", "MEMSET")):
            for row in good(f"CUPTI_ACTIVITY_KIND_{kind}"):
                trace.activities.append(_activity(table, row, device, named))
        for row in good("CUPTI_ACTIVITY_KIND_RUNTIME"):
            trace.api.append(_call(row, plain(named(row["nameId"]))))
        for row in good("OSRT_API", lambda row: row.get("eventClass", 27) == 27):
            trace.osrt.append(_call(row, named(row["nameId"])))
        for row in good("PROFILER_OVERHEAD"):
            trace.overhead.append(_call(row, named(row["nameId"])))
        ranges = good(
            "NVTX_EVENTS", lambda row: row["eventType"] in (59, 60, 70, 71), may_be_open=True
        )
        ends = [a.end for a in trace.activities]
        ends += [c.end for c in (*trace.api, *trace.osrt, *trace.overhead)]
        ends += [r["start"] if r["end"] is None else r["end"] for r in ranges]
        trace.end = max(ends, default=0)
        for row in ranges:
            name = named(row["textId"]) if row["text"] is None else row["text"]
            trace.ranges.append(
                Range(
                    row["start"],
                    trace.end if row["end"] is None else row["end"],
                    row["row#"],
                    name,
                    _thread(row["globalTid"]),
                    push_pop=row["eventType"] in (59, 70),
                    closed=row["end"] is not None,
                    one_thread=row["eventType"] in (59, 70)
                    or row["end"] is None
                    or row.get("endGlobalTid") in (None, 0, row["globalTid"]),
                )
            )
    return trace


def _call(row: dict[str, Any], name: str) -> Call:
    # A thread number of 0 stands for the whole process, NULL for all of them.
    whole, thread = row["globalTid"], _thread(row["globalTid"])
    process = None if whole is None else process_of(whole)
    return Call(
        row["start"], row["end"], row["row#"], name, thread, process, row.get("correlationId")
    )


def _thread(number: int | None) -> int | None:
    return number if number is not None and number % (1 << 24) else None


def _activity(table: int, row: dict[str, Any], device: Any, named: Any) -> Activity:
    kind = KINDS[table]
    direction = memory = ""
    if kind == "copy":
        direction = COPY_DIRECTION.get(row["copyKind"], "other")
        if row["copyKind"] in MIGRATIONS:
            memory = "managed"
        elif direction in ("d2d", "p2p"):
            memory = "device"
        else:
            host_end = row.get("dstKind" if direction == "d2h" else "srcKind", -1)
            memory = MEMORY.get(host_end, "unknown")
    names = {
        "kernel": named(row.get("shortName", row.get("demangledName"))),
        "graph": f"CUDA graph {row.get('graphId')}",
        "copy": direction,
        "memset": "memset",
    }
    return Activity(
        row["start"],
        row["end"],
        table,
        row["row#"],
        kind,
        names[kind],
        direction,
        memory,
        row.get("bytes") or 0,
        row["correlationId"],
        row["globalPid"],
        device(row["globalPid"], row["deviceId"]),
    )


def _devices(cuda_devices: list[dict[str, Any]], gpus: list[dict[str, Any]]) -> Any:
    """A function from (process, CUDA ordinal) to the id of the physical GPU."""
    uuid_of = {gpu["id"]: gpu["uuid"] for gpu in gpus if "id" in gpu and gpu.get("uuid")}
    ids: dict[Any, list[int]] = defaultdict(list)
    for number, uuid in uuid_of.items():
        ids[uuid].append(number)
    identity = {}
    for row in cuda_devices:
        number = row["gpuId"]
        uuid = row.get("uuid") or uuid_of.get(number)
        identity[row["pid"], row["cudaId"]] = uuid or number
        if number is not None:
            ids[uuid or number].append(number)

    def device(process: int, ordinal: int) -> int:
        """The smallest id of all that are the same GPU; the ordinal where nothing is known."""
        same = ids[identity.get((pid(process), ordinal))]
        return min(same, default=ordinal)

    return device


# --------------------------------------------------------------------------------------- threads


def outermost(calls: list[Call], moment: int) -> Call | None:
    """Of the calls that cover the moment the first to start, the last to end, the first row."""
    covering = [c for c in calls if c.start <= moment < c.end]
    return min(covering, key=lambda c: (c.start, -c.end, c.row), default=None)


def layout(calls: list[Call]) -> list[tuple[int, int, Call]]:
    """When the thread was in which outermost call."""
    pieces: list[tuple[int, int, Call]] = []
    moments = sorted({t for c in calls for t in (c.start, c.end)})
    ordered = sorted(calls, key=lambda c: c.start)
    for start, end in pairwise(moments):
        while ordered and ordered[0].end <= start:
            ordered.pop(0)
        candidates = []
        for c in ordered:
            if c.start > start:
                break
            candidates.append(c)
        call = outermost(candidates, start)
        if call is None:
            continue
        if pieces and pieces[-1][1] == start and pieces[-1][2] is call:
            pieces[-1] = (pieces[-1][0], end, call)
        else:
            pieces.append((start, end, call))
    return pieces


class Thread:
    """What one thread did."""

    def __init__(self, trace: Trace, number: int) -> None:
        self.number = number
        self.process = process_of(number)
        self.api_rows = [c for c in trace.api if c.thread == number]
        self.osrt_rows = [c for c in trace.osrt if c.thread == number]
        self.api = layout(self.api_rows)
        self.osrt = layout(self.osrt_rows)
        self.overhead = layout([c for c in trace.overhead if c.thread == number])
        self.ranges = sorted(
            (r for r in trace.ranges if r.thread == number and r.one_thread),
            key=lambda r: (r.start, -r.end, r.row),
        )

        self.waits = [p for p in self.osrt if p[2].name in WAITS]
        self.blocked = united(
            [
                *((s, e) for s, e, c in self.osrt if c.name in WAITS | SLEEPS),
                *((s, e) for s, e, c in self.api if synchronises(c.name)),
            ]
        )
        busy = [
            *((s, e) for s, e, c in self.osrt if c.name not in WAITS | SLEEPS),
            *((s, e) for s, e, c in self.api if not synchronises(c.name)),
            *((s, e) for s, e, _ in self.overhead),
        ]
        self.work = without(united(busy), self.blocked)
        self.reads = united([(s, e) for s, e, c in self.osrt if c.name in READS])
        self.ranged = united([(r.start, r.end) for r in self.ranges if r.closed])

    def path(self, moment: int) -> Names:
        """The names of the ranges around the moment, outermost first."""
        return tuple(r.name for r in self.ranges if r.start <= moment < r.end)

    def moments(self) -> list[int]:
        """Every time at which something of this thread begins or ends."""
        pieces = [*self.api, *self.osrt, *self.overhead]
        return [t for p in pieces for t in p[:2]] + [
            t for r in self.ranges for t in (r.start, r.end)
        ]

    def moves_inside(self, start: int, end: int) -> bool:
        return any(
            start <= c.start < end or start < c.end <= end for c in self.api_rows + self.osrt_rows
        )


def text(path: Names) -> str:
    return " / ".join(path) or OUTSIDE


def at(pieces: list[tuple[int, int, Call]], moment: int) -> Call | None:
    """The call of a layout that covers the moment."""
    return next((c for s, e, c in pieces if s <= moment < e), None)


@dataclass(frozen=True)
class Holder:
    thread: Thread
    name: str
    via: str | None
    profiler: bool
    covered: tuple[tuple[int, int], ...]

    @property
    def key(self) -> tuple[int, str, str | None]:
        return self.thread.number, self.name, self.via

    def covers(self, start: int, end: int) -> Spans:
        return both(list(self.covered), [(start, end)])


# ---------------------------------------------------------------------------------------- holders


def most(lengths: dict[str, int]) -> str:
    """The longest by name; of equals the first by name."""
    return min(lengths, key=lambda name: (-lengths[name], name))


def find_holder(waiter: Thread, w: Spans, threads: dict[int, Thread]) -> Holder | None:
    mine = [t for t in threads.values() if t.process == waiter.process and t is not waiter]
    others = [t for t in threads.values() if t.process != waiter.process]
    start, end = w[0][0], w[-1][1]

    def winner(candidates: list[Thread], measure: Any) -> tuple[Thread, Spans] | None:
        best: tuple[Thread, Spans] | None = None
        for thread in sorted(candidates, key=lambda t: t.number):
            covered = measure(thread)
            if best is None or length(covered) > length(best[1]):
                best = (thread, covered)
        return best if best and 2 * length(best[1]) > length(w) else None

    def worked(t: Thread) -> Spans:
        return both(within(t.work, start, end), w)

    def ranged(t: Thread) -> Spans:
        return without(both(within(t.ranged, start, end), w), within(t.blocked, start, end))

    def moved(t: Thread) -> Spans:
        return without(w, within(t.blocked, start, end))

    def read(t: Thread) -> Spans:
        return both(within(t.reads, start, end), w)

    for group in (mine, others):
        moving = [t for t in group if t.moves_inside(start, end)]
        if found := winner(group, worked):
            return holder_at_work(*found)
        if found := winner(group, ranged):
            name = most(sizes(*found, lambda m, t=found[0]: text(t.path(m))))
            return Holder(found[0], name, None, False, tuple(found[1]))
        if found := winner(moving, moved):
            return Holder(found[0], "host code", None, False, tuple(found[1]))
        if found := winner(moving, read):
            lengths: dict[str, int] = defaultdict(int)
            for s, e, call in found[0].osrt:
                if call.name in READS:
                    lengths[call.name] += length(both(found[1], [(s, e)]))
            return Holder(found[0], most(lengths), None, False, tuple(found[1]))
    return None


def holder_at_work(thread: Thread, covered: Spans) -> Holder:
    """The holder by rule 1: named by its CUDA call, else its OS runtime call, else overhead."""

    def name(moment: int) -> str:
        call = at(thread.api, moment) or at(thread.osrt, moment) or at(thread.overhead, moment)
        assert call is not None
        return call.name

    chosen = most(sizes(thread, covered, name))
    inner: dict[str, int] = defaultdict(int)
    profiler = False
    for start, end in split(covered, thread.moments()):
        if name(start) != chosen:
            continue
        cuda, system = at(thread.api, start), at(thread.osrt, start)
        if cuda and system:
            inner[system.name] += end - start
        if not cuda and not system:
            profiler = True
    return Holder(thread, chosen, most(inner) if inner else None, profiler, tuple(covered))


def sizes(thread: Thread, covered: Spans, name: Any) -> dict[str, int]:
    """How much of the time covered has which name."""
    result: dict[str, int] = defaultdict(int)
    for start, end in split(covered, thread.moments()):
        result[name(start)] += end - start
    return result


def split(spans: Spans, moments: list[int]) -> Spans:
    """The spans cut at each of the moments."""
    pieces: Spans = []
    for start, end in spans:
        cuts = sorted({start, end, *(m for m in moments if start < m < end)})
        pieces += pairwise(cuts)
    return pieces


# ------------------------------------------------------------------------------------ attribution


@dataclass(frozen=True)
class Piece:
    """A stretch of idle time with one explanation."""

    start: int
    end: int
    cause: str
    name: str
    via: str | None
    nvtx: Names
    holder: Holder | None = None
    thread: Thread | None = None

    @property
    def ns(self) -> int:
        return self.end - self.start

    @property
    def held_ns(self) -> int:
        return length(self.holder.covers(self.start, self.end)) if self.holder else 0

    @property
    def key(self) -> tuple[Any, ...]:
        return self.cause, self.name, self.via, self.nvtx, self.holder and self.holder.key


@dataclass
class Gap:
    start: int
    end: int
    ended_by: Activity | None
    thread: Thread | None
    call: Call | None
    inferred: bool
    pieces: list[Piece]
    synchronising: bool

    @property
    def short(self) -> bool:
        return self.end - self.start < SHORT_GAP_NS


class Analysis:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        numbers = {c.thread for c in (*trace.api, *trace.osrt, *trace.overhead)}
        numbers |= {r.thread for r in trace.ranges}
        self.threads = {n: Thread(trace, n) for n in sorted(n for n in numbers if n is not None)}
        # A call of no thread feeds nobody, and 0 is not an id.
        self.calls: dict[tuple[int, int], list[Call]] = defaultdict(list)
        for call in trace.api:
            if call.correlation and call.thread is not None:
                self.calls[call.correlation, process_of(call.thread)].append(call)
        self.found: dict[tuple[int, tuple[tuple[int, int], ...]], Holder | None] = {}

    def overhead_of(self, thread: Thread) -> list[Call]:
        """Profiler overhead of the thread, of its process as a whole, or of no process."""
        return [
            c
            for c in self.trace.overhead
            if c.thread == thread.number
            or (c.thread is None and c.process in (None, thread.process))
        ]

    def launch_of(self, activity: Activity) -> Call | None:
        calls = self.calls.get((activity.correlation or 0, activity.process), [])
        return min(calls, key=lambda c: (c.start, -c.end, c.row), default=None)

    def thread_of(self, call: Call) -> Thread:
        assert call.thread is not None
        return self.threads[call.thread]

    # Waits.

    def episode(self, thread: Thread, moment: int) -> Spans:
        """The calls of the episode that has a call around the moment; empty when none has."""
        episode: list[tuple[int, int, Call]] = []
        for piece in thread.waits:
            start, _, call = piece
            if episode and (
                call.name != episode[-1][2].name or start - episode[-1][1] > EPISODE_PAUSE_NS
            ):
                if any(s <= moment < e for s, e, _ in episode):
                    break
                episode = []
            episode.append(piece)
        found = any(s <= moment < e for s, e, _ in episode)
        return united([(s, e) for s, e, _ in episode]) if found else []

    def holder(self, thread: Thread, moment: int) -> Holder | None:
        w = self.episode(thread, moment)
        if not w:
            return None
        key = (thread.number, tuple(w))
        if key not in self.found:
            self.found[key] = find_holder(thread, w, self.threads)
        return self.found[key]

    # Gaps.

    def attribute(self, g: int, e: int, thread: Thread, feeding: Call | None) -> list[Piece]:
        """The parts of [g, e), not yet added up."""
        moments = thread.moments()
        moments += [t for c in self.overhead_of(thread) for t in (c.start, c.end)]
        if feeding:
            moments += [feeding.start, feeding.end]
        return [self.explain(a, b, g, e, thread, feeding) for a, b in split([(g, e)], moments)]

    def explain(
        self, a: int, b: int, g: int, e: int, thread: Thread, feeding: Call | None
    ) -> Piece:
        """Why the device was idle in [a, b), in which the thread did one thing."""
        path = thread.path(a)
        system = at(thread.osrt, a)
        cuda = at(thread.api, a)
        overhead = outermost(self.overhead_of(thread), a)
        waits = system is not None and system.name in WAITS
        waits_for_device = cuda is not None and synchronises(cuda.name)
        holder = self.holder(thread, a) if waits and not waits_for_device else None
        via = system.name if system else None
        if overhead:
            return Piece(a, b, "overhead", overhead.name, None, path, None, thread)
        if feeding and feeding.end <= g:
            return Piece(a, b, "queued", feeding.name, None, path, None, thread)
        if feeding and feeding.start <= a < e:
            inside = a < feeding.end
            if inside and waits:
                return Piece(a, b, "cuda_api", feeding.name, via, path, holder, thread)
            return Piece(a, b, "launch", feeding.name, via if inside else None, path, None, thread)
        if cuda:
            return Piece(a, b, "cuda_api", cuda.name, via, path, holder, thread)
        if system:
            return Piece(a, b, "osrt", system.name, None, path, holder, thread)
        return Piece(a, b, "host", path[-1] if path else OUTSIDE, None, path, None, thread)

    def unexplained(self, g: int, e: int) -> list[Piece]:
        """A gap without a feeding thread: unknown, but for the profiler's overhead of nobody."""
        rows = [c for c in self.trace.overhead if c.thread is None and c.process is None]
        pieces = []
        for a, b in split([(g, e)], [t for c in rows for t in (c.start, c.end)]):
            row = outermost(rows, a)
            cause, name = ("overhead", row.name) if row else ("unknown", "unknown")
            pieces.append(Piece(a, b, cause, name, None, ()))
        return pieces

    def feeder(
        self, e: int, ordered: list[Activity]
    ) -> tuple[Activity | None, Thread | None, Call | None, bool]:
        """Ended by, feeding thread, feeding call, inferred."""
        after = [a for a in ordered if a.start >= e]
        before = [a for a in ordered if a.start < e]
        ender = after[0] if after else None
        if ender and (call := self.launch_of(ender)):
            return ender, self.thread_of(call), call, False
        stand_in = ender or (before[-1] if before else None)
        if stand_in is None:
            return None, None, None, False
        later = [a for a in ordered if a.order >= stand_in.order]
        earlier = [a for a in ordered if a.order < stand_in.order]
        for activity in later + earlier[::-1]:
            if activity.process == stand_in.process and (call := self.launch_of(activity)):
                return ender, self.thread_of(call), None, True
        return ender, None, None, False

    def gap(self, g: int, e: int, ordered: list[Activity]) -> Gap:
        ender, thread, call, inferred = self.feeder(e, ordered)
        if thread is None:
            return Gap(g, e, ender, None, None, inferred, self.unexplained(g, e), False)
        synchronising = any(synchronises(c.name) and c.start <= g < c.end for c in thread.api_rows)
        pieces = self.attribute(g, e, thread, call)
        return Gap(g, e, ender, thread, call, inferred, pieces, synchronising)


def added_up(pieces: list[Piece]) -> list[dict[str, Any]]:
    """Pieces of equal cause, name, via, path and holder together."""
    parts: dict[Any, dict[str, Any]] = {}
    for p in pieces:
        if p.key not in parts:
            held_by = p.holder and {
                "thread": tid(p.holder.thread.number),
                "process": pid(p.holder.thread.number),
                "name": p.holder.name,
                "via": p.holder.via,
                "ns": 0,
            }
            parts[p.key] = {
                "cause": p.cause,
                "name": p.name,
                "via": p.via,
                "nvtx": text(p.nvtx),
                "ns": 0,
                "held_by": held_by,
            }
        parts[p.key]["ns"] += p.ns
        if p.holder:
            parts[p.key]["held_by"]["ns"] += p.held_ns
    return list(parts.values())


def tid(thread: int) -> int:
    return thread % (1 << 24)


def pid(thread: int) -> int:
    return (thread >> 24) % (1 << 24)


def clipped(pieces: list[Piece], start: int, end: int) -> list[Piece]:
    """The pieces inside [start, end); a holder who covers nothing of a part there is none."""
    inside = [
        replace(p, start=max(p.start, start), end=min(p.end, end))
        for p in pieces
        if p.start < end and p.end > start
    ]
    held: dict[Any, int] = defaultdict(int)
    for p in inside:
        held[p.key] += p.held_ns
    return [p if held[p.key] else replace(p, holder=None) for p in inside]


# ----------------------------------------------------------------------------------------- device


class Device:
    """One device in the window."""

    def __init__(self, analysis: Analysis, number: int, window: Spans | None) -> None:
        self.analysis = analysis
        self.number = number
        self.all = sorted(
            (a for a in analysis.trace.activities if a.device == number), key=lambda a: a.order
        )
        first, last = min(a.start for a in self.all), max(a.end for a in self.all)
        self.extent = (first, last)
        self.window = [(first, last)] if window is None else united(window)
        covered = united([(a.start, a.end) for a in self.all])
        # Before the first and after the last activity a window chosen by hand may be idle too.
        self.gaps = [
            analysis.gap(g, e, self.all)
            for g, e in without([(-FOREVER, FOREVER)], covered)
            if both([(g, e)], self.window)
        ]
        self.kernels = self.spans(lambda a: a.is_kernel)
        self.copies = self.spans(lambda a: a.kind == "copy")
        self.memsets = self.spans(lambda a: a.kind == "memset")
        self.by_direction = {d: self.spans(lambda a, d=d: a.direction == d) for d in DIRECTIONS}

    def spans(self, wanted: Any) -> Spans:
        return both(united([(a.start, a.end) for a in self.all if wanted(a)]), self.window)

    def exposed(self) -> dict[str, Spans]:
        """Exposed copies by direction."""
        result = {}
        taken = self.kernels
        for direction in DIRECTIONS:
            result[direction] = without(self.by_direction[direction], taken)
            taken = united(taken + self.by_direction[direction])
        return result

    def partition(self) -> dict[str, Any]:
        busy = united(self.kernels + self.copies)
        return {
            "compute_ns": length(self.kernels),
            "exposed_copy_ns": {d: length(s) for d, s in self.exposed().items()},
            "exposed_memset_ns": length(without(self.memsets, busy)),
            "idle_ns": length(without(self.window, united(busy + self.memsets))),
        }

    def overlap(self) -> dict[str, Any]:
        def of(copies: Spans) -> dict[str, Any]:
            c, hidden = length(copies), length(both(copies, self.kernels))
            achievable = min(c, length(self.kernels))
            return {
                "copy_ns": c,
                "hidden_ns": hidden,
                "percent": round(100 * hidden / c, 4) if c else None,
                "achievable_percent": round(100 * achievable / c, 4) if c else None,
            }

        shown = {d: s for d, s in self.by_direction.items() if s or d in ("d2h", "h2d")}
        return {"all": of(self.copies)} | {d: of(s) for d, s in shown.items()}

    def idle_pieces(self) -> list[tuple[Gap, int, int, list[Piece]]]:
        """The gaps clipped to the window."""
        return [
            (gap, start, end, clipped(gap.pieces, start, end))
            for gap in self.gaps
            for start, end in both([(gap.start, gap.end)], self.window)
        ]

    def hull(self) -> tuple[int, int]:
        return (self.window[0][0], self.window[-1][1]) if self.window else self.extent

    def begins_inside(self, a: Activity) -> bool:
        return any(s <= a.start < e for s, e in self.window)

    def transfers(self) -> list[dict[str, Any]]:
        groups: dict[Any, list[Activity]] = defaultdict(list)
        for a in self.all:
            if a.kind == "copy" and self.begins_inside(a):
                groups[a.direction, a.memory, self.api_of(a)].append(a)
        rows = []
        for (direction, memory, api), copies in groups.items():
            ns = length([(a.start, a.end) for a in copies])
            size = sum(a.bytes for a in copies)
            synchronous = True if memory == "pageable" or api == "sync" else None
            rows.append(
                {
                    "direction": direction,
                    "memory": memory,
                    "api": api,
                    "synchronous": False if api == "async" and not synchronous else synchronous,
                    "count": len(copies),
                    "bytes": size,
                    "ns": ns,
                    "gb_per_s": round(size / ns, 4) if ns else None,
                }
            )
        return rows

    def api_of(self, a: Activity) -> str:
        call = self.analysis.launch_of(a)
        if call is None:
            return "unknown"
        return "async" if "Async" in call.name else "sync"

    def removable(self) -> tuple[dict[str, int], str]:
        loss = {"copy": 0, "sync": 0, "launch": 0, "host": 0}
        kernels = [a for a in self.all if a.is_kernel]
        inside = [a for a in kernels if both([(a.start, a.end)], self.window)]
        if len(inside) < 2:
            return loss, "not-enough-data"
        start, end = self.kernels[0][0], self.kernels[-1][1]
        loss["copy"] = sum(length(within(s, start, end)) for s in self.exposed().values())
        for gap, lo, hi, pieces in self.idle_pieces():
            if start <= lo and hi <= end:
                for piece in pieces:
                    if bucket := blame(gap, piece):
                        loss[bucket] += piece.ns
        stretch = length(within(self.window, start, end))
        if 100 * sum(loss.values()) < 3 * stretch:
            return loss, "compute-bound"
        return loss, max(loss, key=lambda k: loss[k]) + "-bound"


def blame(gap: Gap, piece: Piece) -> str | None:
    if piece.cause in ("overhead", "unknown") or (piece.holder and piece.holder.profiler):
        return None
    if gap.short and gap.synchronising:
        return "sync"
    if piece.holder:
        return "host"
    if piece.cause == "cuda_api":
        return "sync"
    if piece.cause in ("launch", "queued") or (piece.cause == "host" and gap.short):
        return "launch"
    return "host"


# ----------------------------------------------------------------------------------------- stalls


def stalls(analysis: Analysis, devices: list[Device], window: Spans | None) -> list[dict[str, Any]]:
    """Per OS runtime function, with a breakdown by the path at the call's start."""
    if not analysis.trace.osrt_traced:
        nothing = dict.fromkeys(("calls", "total_ns", "max_ns", "idle_ns"))
        return [{"function": "munmap", **nothing, "nvtx": [], "note": "not traced"}]
    table: dict[str, dict[str, Any]] = {}

    def row(function: str, path: Names | None) -> list[dict[str, Any]]:
        empty = {"calls": 0, "total_ns": 0, "max_ns": 0, "idle_ns": 0}
        whole = table.setdefault(function, {"function": function, **empty, "nvtx": {}})
        return [whole] if path is None else [whole, whole["nvtx"].setdefault(path, dict(empty))]

    row("munmap", None)
    for call in analysis.trace.osrt:
        spans = [(call.start, call.end)]
        if window is not None:
            spans = within(window, call.start, call.end)
            if call.start == call.end:
                spans = [(call.start, call.end) for s, e in window if s <= call.start < e]
            if not spans:
                continue
        path: Names = ()
        if call.thread is not None:
            path = analysis.threads[call.thread].path(call.start)
        ns = sum(e - s for s, e in spans)
        for entry in row(call.name, path):
            entry["calls"] += 1
            entry["total_ns"] += ns
            entry["max_ns"] = max(entry["max_ns"], ns)
    for piece in (p for d in devices for *_, pieces in d.idle_pieces() for p in pieces):
        for thread, call, ns in stalled_in(piece):
            for entry in row(call.name, thread.path(call.start)):
                entry["idle_ns"] += ns
    for entry in table.values():
        entry["nvtx"] = [
            {"path": text(path), **{k: v for k, v in figures.items() if k != "max_ns"}}
            for path, figures in entry["nvtx"].items()
        ]
    return [table[name] for name in sorted(table)]


def stalled_in(piece: Piece) -> list[tuple[Thread, Call, int]]:
    """The OS runtime calls that a piece of idle time is laid at: thread, call, how long."""
    found: list[tuple[Thread, Call, int]] = []
    if piece.thread and (piece.via or piece.cause == "osrt"):
        call = at(piece.thread.osrt, piece.start)
        assert call is not None
        found.append((piece.thread, call, piece.ns))
    if piece.holder:
        held = piece.holder.covers(piece.start, piece.end)
        for start, end, call in piece.holder.thread.osrt:
            if ns := length(both(held, [(start, end)])):
                found.append((piece.holder.thread, call, ns))
    return found


# ------------------------------------------------------------------------------------------ steps


def families(ranges: list[Range]) -> dict[tuple[str, int], list[Range]]:
    """Ranges whose names differ only in a counter, by thread."""
    found: dict[tuple[str, int], list[Range]] = defaultdict(list)
    for r in ranges:
        if r.thread is not None and re.search(r"\d", r.name):
            found[counterless(r.name), r.thread].append(r)
    apart = {key: not_nested(members) for key, members in found.items()}
    return {key: members for key, members in apart.items() if len({r.name for r in members}) > 1}


def counterless(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def not_nested(ranges: list[Range]) -> list[Range]:
    """Those that do not begin inside another of the list, in order of time."""
    ordered = sorted((r for r in ranges if r.start < r.end), key=lambda r: (r.start, -r.end, r.row))
    return [
        r
        for i, r in enumerate(ordered)
        if not any(outer.start <= r.start < outer.end for outer in ordered[:i])
    ]


def launched_in(analysis: Analysis, ranges: list[Range], activity: Activity) -> Range | None:
    call = analysis.launch_of(activity)
    if call is None:
        return None
    for r in ranges:
        if r.thread == call.thread and r.start <= call.start < r.end:
            return r
    return None


def device_time(analysis: Analysis, ranges: list[Range], device: int | None = None) -> int:
    return sum(
        a.end - a.start
        for a in analysis.trace.activities
        if (device is None or a.device == device) and launched_in(analysis, ranges, a)
    )


def choose_steps(
    analysis: Analysis, pattern: str | None, window: Spans | None
) -> tuple[str, list[Range]] | None:
    usable = [
        r
        for r in analysis.trace.ranges
        if r.push_pop and r.closed and (window is None or any(s <= r.start < e for s, e in window))
    ]
    if pattern is not None:
        by_thread: dict[int, list[Range]] = defaultdict(list)
        for r in usable:
            if r.thread is not None and re.fullmatch(pattern, r.name):
                by_thread[r.thread].append(r)
        apart = {t: not_nested(ranges) for t, ranges in by_thread.items()}
        time_of = {t: device_time(analysis, rs) for t, rs in apart.items() if len(rs) > 1}
        if not max(time_of.values(), default=0):
            return None
        return pattern, apart[min(time_of, key=lambda t: (-time_of[t], t))]
    found = families(usable)
    time = {key: device_time(analysis, ranges) for key, ranges in found.items()}
    # A family belongs to the thread with the most device time, of equals to the first thread.
    owner: dict[str, int] = {}
    for name, thread in sorted(found):
        if name not in owner or time[name, thread] > time[name, owner[name]]:
            owner[name] = thread
    most_time = max((time[name, owner[name]] for name in owner), default=0)
    if not most_time:
        return None
    likely = [name for name in owner if 10 * time[name, owner[name]] >= 9 * most_time]
    loops = [name for name in likely if len(found[name, owner[name]]) >= 3] or likely
    best = min(
        loops, key=lambda name: (-sum(r.end - r.start for r in found[name, owner[name]]), name)
    )
    return best, found[best, owner[best]]


@dataclass
class Steps:
    pattern: str
    ranges: list[Range]
    device: Device
    start: int
    ends: list[int]
    edges: list[Piece]

    @property
    def end(self) -> int:
        return self.ends[-1]

    def idle(self, start: int, end: int) -> int:
        """Device idle, edges included."""
        activities = united([(a.start, a.end) for a in self.device.all])
        return length(without([(start, end)], activities))


def find_steps(
    analysis: Analysis, devices: list[Device], pattern: str | None, window: Spans | None
) -> Steps | None:
    chosen = choose_steps(analysis, pattern, window)
    if chosen is None:
        return None
    shown, ranges = chosen
    device = min(devices, key=lambda d: (-device_time(analysis, ranges, d.number), d.number))
    start = ranges[0].start
    ends: list[int] = []
    for r in ranges:
        work = [a.end for a in analysis.trace.activities if launched_in(analysis, [r], a)]
        ends.append(max([*(work or [r.end]), ends[-1] if ends else start]))
    ends[-1] = max(ends[-1], ranges[-1].end)
    first, last = device.extent
    assert ranges[0].thread is not None
    thread = analysis.threads[ranges[0].thread]
    edges: list[Piece] = []
    for lo, hi in ((start, min(first, ends[-1])), (max(last, start), ends[-1])):
        if lo < hi:
            edges += clipped(analysis.attribute(lo, hi, thread, None), lo, hi)
    return Steps(shown, ranges, device, start, ends, edges)


def step_report(steps: Steps) -> dict[str, Any]:
    whole = Device(steps.device.analysis, steps.device.number, [(steps.start, steps.end)])
    bounds = [steps.start, *steps.ends]
    rows: list[dict[str, Any]] = []
    for r, (start, end) in zip(steps.ranges, pairwise(bounds), strict=True):
        exposed = {d: length(within(s, start, end)) for d, s in whole.exposed().items()}
        memset = without(whole.memsets, united(whole.kernels + whole.copies))
        rows.append(
            {
                "name": r.name,
                "start_ns": start,
                "period_ns": end - start,
                "compute_ns": length(within(whole.kernels, start, end)),
                "exposed_copy_ns": exposed,
                "exposed_memset_ns": length(within(memset, start, end)),
                "idle_ns": steps.idle(start, end),
            }
        )
    periods = sorted(row["period_ns"] for row in rows)
    n = len(periods)
    span = steps.end - steps.start
    return {
        "pattern": steps.pattern,
        "count": n,
        "span_ns": span,
        "edge_idle_ns": sum(p.ns for p in steps.edges),
        "edge_by_cause": by_cause(steps.edges, steps),
        "median_ns": (periods[(n - 1) // 2] + periods[n // 2]) // 2,
        "p95_ns": periods[-(-95 * n // 100) - 1],
        "spread_ns": periods[-1] - periods[0],
        "per_second": round(1e9 * n / span, 4) if span else None,
        "rows": rows,
    }


def ceiling(steps: Steps, pinned_gbps: float | None) -> dict[str, Any]:
    n, span = len(steps.ranges), steps.end - steps.start
    device = steps.device
    whole = Device(device.analysis, device.number, [(steps.start, steps.end)])

    def per_second(ns: float) -> float | None:
        return round(1e9 * n / ns, 4) if ns else None

    times = [length(whole.kernels), *(length(whole.by_direction[d]) for d in ("h2d", "d2h"))]
    pinned = [float(times[0])]
    for direction, other in (("h2d", "d2h"), ("d2h", "h2d")):
        copies = [a for a in whole.all if a.direction == direction]
        fast = both(
            united([(a.start, a.end) for a in copies if a.memory != "pageable"]), whole.window
        )
        size = sum(
            a.bytes for a in copies if a.memory == "pageable" and steps.start <= a.start < steps.end
        )
        rate = pinned_rate(device, direction) or pinned_rate(device, other) or pinned_gbps
        if size and not rate:
            pinned = []
            break
        pinned.append(length(fast) + (size / rate if size and rate else 0))
    return {
        "now_per_second": per_second(span),
        "no_idle_per_second": per_second(span - steps.idle(steps.start, steps.end)),
        "overlapped_per_second": per_second(max(times)),
        "pinned_per_second": per_second(max(pinned)) if pinned else None,
    }


def pinned_rate(device: Device, direction: str) -> float | None:
    copies = [
        a
        for a in device.all
        if a.direction == direction and a.memory == "pinned" and a.bytes >= LARGE_COPY_BYTES
    ]
    ns = length([(a.start, a.end) for a in copies])
    return sum(a.bytes for a in copies) / ns if ns else None


# ----------------------------------------------------------------------------------------- report


def analyse(
    sqlite_path: Path | str,
    *,
    window: Spans | None = None,
    min_gap_ns: int = 100_000,
    steps_pattern: str | None = None,
    pinned_gbps: float | None = None,
) -> dict[str, Any]:
    """The fields of a report that say where the time went.

    Args:
        sqlite_path: An SQLite export of nsys.
        window: Spans of time, ns; the devices' own windows if None.
        min_gap_ns: Shorter gaps are not listed.
        steps_pattern: A regular expression for the ranges that are steps.
        pinned_gbps: Bandwidth of pinned copies, GB/s, where the trace has none.

    Returns:
        `devices`, `stalls`, `steps`, `ceiling`, `verdict` and `dropped_rows`.
    """
    analysis = Analysis(read(Path(sqlite_path)))
    numbers = sorted({a.device for a in analysis.trace.activities})
    devices = [Device(analysis, number, window) for number in numbers]
    steps = find_steps(analysis, devices, steps_pattern, window) if devices else None
    reports = [device_report(d, min_gap_ns, steps) for d in devices]
    worst = min(reports, key=lambda r: (-sum(r["removable_ns"].values()), r["id"]), default=None)
    return {
        "devices": reports,
        "stalls": stalls(analysis, devices, window),
        "steps": step_report(steps) if steps else None,
        "ceiling": ceiling(steps, pinned_gbps) if steps else None,
        "verdict": worst["verdict"] if worst else "not-enough-data",
        "dropped_rows": analysis.trace.dropped,
    }


def chosen_window(
    sqlite_path: Path | str,
    *,
    start: int | None = None,
    end: int | None = None,
    pattern: str | None = None,
) -> Spans | None:
    """The window that ``--from``, ``--to`` and ``--nvtx`` choose; None when none is given."""
    trace = read(Path(sqlite_path))
    chosen: Spans | None = None
    if start is not None or end is not None:
        starts, ends = [a.start for a in trace.activities], [a.end for a in trace.activities]
        chosen = [(min(starts) if start is None else start, max(ends) if end is None else end)]
    if pattern is not None:
        ranges = [(r.start, r.end) for r in trace.ranges if re.fullmatch(pattern, r.name)]
        chosen = united(ranges) if chosen is None else both(chosen, united(ranges))
    return chosen


def device_report(device: Device, min_gap_ns: int, steps: Steps | None) -> dict[str, Any]:
    pieces = device.idle_pieces()
    listed = [(g, s, e, p) for g, s, e, p in pieces if e - s >= min_gap_ns]
    removable, verdict = device.removable()
    start, end = device.hull()
    return {
        "id": device.number,
        "window": {
            "start_ns": start,
            "end_ns": end,
            "duration_ns": length(device.window),
        },
        "partition": device.partition(),
        "overlap": device.overlap(),
        "idle": {
            "total_ns": sum(e - s for _, s, e, _ in pieces),
            "gap_count": len(pieces),
            "unlisted_ns": sum(e - s for _, s, e, _ in pieces if e - s < min_gap_ns),
            "by_cause": by_cause([p for *_, some in pieces for p in some], steps),
        },
        "gaps": [gap_report(g, s, e, p) for g, s, e, p in listed],
        "transfers": device.transfers(),
        "removable_ns": removable,
        "verdict": verdict,
    }


def by_cause(pieces: list[Piece], steps: Steps | None) -> list[dict[str, Any]]:
    """Pieces added up over all gaps; ranges of different steps count as one."""
    names = {r.name for r in steps.ranges} if steps else set()
    rows = []
    for p in pieces:
        path = tuple(counterless(n) if n in names else n for n in p.nvtx)
        name = p.name if p.cause != "host" else path[-1] if path else OUTSIDE
        rows.append(replace(p, name=name, via=None, nvtx=path))
    return [{k: v for k, v in part.items() if k != "via"} for part in added_up(rows)]


def gap_report(gap: Gap, start: int, end: int, pieces: list[Piece]) -> dict[str, Any]:
    paths: dict[str, int] = defaultdict(int)
    for p in pieces:
        paths[text(p.nvtx)] += p.ns
    return {
        "start_ns": start,
        "duration_ns": end - start,
        "ended_by": gap.ended_by and {"kind": gap.ended_by.kind, "name": gap.ended_by.name},
        "feeding_thread": gap.thread
        and {"thread": tid(gap.thread.number), "process": pid(gap.thread.number)},
        "feeding_call": gap.call.name if gap.call else None,
        "feeding_call_start_ns": gap.call.start if gap.call else None,
        "feeding_call_end_ns": gap.call.end if gap.call else None,
        "inferred": gap.inferred,
        "nvtx": most(paths),
        "parts": added_up(pieces),
    }
