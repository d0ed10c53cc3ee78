"""What rules judge: the idle time and the copies of one device, with all that is known of them.

Nothing is judged here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analysis.grouping import distinct, values_of
from analysis.intervals import Int64, IntervalSet, interval, union
from analysis.metrics.activity import DeviceActivity, rows_of_device
from analysis.metrics.attribution import CUDA_API, HOST, LAUNCH, OSRT, OVERHEAD, QUEUED, Segments
from analysis.metrics.ceiling import pinned_rates
from analysis.metrics.gaps import Gaps
from analysis.metrics.launches import TABLES, Launches
from analysis.metrics.partition import Exposure
from analysis.metrics.steps import Loop, family
from analysis.metrics.timelines import Timelines
from analysis.metrics.transfers import api_kinds
from analysis.metrics.verdict import SHORT_GAP_NS, Verdict
from analysis.metrics.waits import Holder, WaitChains
from analysis.trace import COPY_DIRECTIONS, MEMORY_KINDS, Trace

Mask = NDArray[np.bool_]

NONE: Int64 = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Shared:
    """What all devices of a trace have in common.

    Attributes:
        trace: The trace.
        timelines: Its threads.
        chains: Its wait chains.
        launches: Its launching calls.
        loop: Its steps; None if it has none.
        pinned_gbps: Rate of pinned copies where the trace has none, 10^9 bytes per second.
    """

    trace: Trace
    timelines: Timelines
    chains: WaitChains
    launches: Launches
    loop: Loop | None
    pinned_gbps: float | None

    @cached_property
    def launching(self) -> Mask:
        """Which rows of `Trace.api_calls` launched device work."""
        found = np.zeros(len(self.trace.api_calls) + 1, bool)
        for table in TABLES:
            found[self.launches.of(table)] = True
        mask: Mask = found[:-1]
        return mask


@dataclass(frozen=True, eq=False)
class Idle:
    """Pieces of idle time of one cause each, clipped to what is judged; shape (n,).

    Attributes:
        start: Start, ns.
        end: End, ns.
        cause: As in `Segments`; so for name, via, path, os_call.
        holder: Likewise, less those of which nothing was recorded meanwhile.
        thread: Feeding thread, index into `Trace.threads`, -1 unknown.
        call: Feeding call, row in `Trace.api_calls`, -1 unknown.
        began: When the whole gap began, ns.
        gap_ns: Length of the whole gap, ns.
        after: What ran on the device just before the gap: row in `Trace.copies`, -1 no copy.
        before: What ends the gap: row in `Trace.copies`, -1 no copy.
        edge: Before the device's first or after its last activity.
        steady: Between the first and the last kernel.
    """

    start: Int64
    end: Int64
    cause: NDArray[np.int8]
    name: NDArray[np.int32]
    via: NDArray[np.int32]
    path: NDArray[np.int32]
    holder: NDArray[np.int32]
    os_call: Int64
    thread: NDArray[np.int32]
    call: Int64
    began: Int64
    gap_ns: Int64
    after: Int64
    before: Int64
    edge: Mask
    steady: Mask

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def ns(self) -> Int64:
        """Lengths, ns."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Copies:
    """The copies of the device that start inside what is judged; shape (n,).

    Attributes:
        row: Row in `Trace.copies`.
        start: Start, ns.
        end: End, ns.
        bytes: Size.
        h2d: Host to device; so for d2h.
        pageable: Host end in pageable memory; so for pinned and managed.
        blocking_call: Called by an API without "Async" in its name.
        call: Row of the launching call in `Trace.api_calls`, -1 unknown.
        stream: CUDA stream.
    """

    row: Int64
    start: Int64
    end: Int64
    bytes: Int64
    h2d: Mask
    d2h: Mask
    pageable: Mask
    pinned: Mask
    managed: Mask
    blocking_call: Mask
    call: Int64
    stream: Int64

    def __len__(self) -> int:
        return len(self.row)


class Evidence:
    """What is known about one device.

    Args:
        shared: What all devices have in common.
        activity: The device.
        exposure: Its partition.
        window: What is looked at.
        gaps: Its gaps.
        edge_idle: Idle time that the steps' span adds at its edges; None on other devices.
        verdict: What limits it.
    """

    def __init__(
        self,
        shared: Shared,
        activity: DeviceActivity,
        exposure: Exposure,
        window: IntervalSet,
        gaps: Gaps,
        edge_idle: Segments | None,
        verdict: Verdict,
    ) -> None:
        self.shared = shared
        self.trace = shared.trace
        self.timelines = shared.timelines
        self.loop = shared.loop
        self.activity = activity
        self.exposure = exposure
        self.verdict = verdict
        self._gaps = gaps
        # Where the user has chosen a window, what lies around the steps is none of it.
        chosen = len(activity.default_window() - window) > 0
        self._edge = None if chosen else edge_idle
        span = interval(*self.loop.span) if self.loop else window
        #: What is judged: the steps, else the window.
        self.domain = span if self._edge is not None else span & window
        kernels = activity.kernels & window
        #: From the first to the last kernel of it.
        self.steady = self.domain & interval(*kernels.hull) if len(kernels) else kernels

    @property
    def device_id(self) -> int:
        """The device's id."""
        return self.trace.devices[self.activity.device].id

    @property
    def step_count(self) -> int | None:
        """How many steps there are; None without steps."""
        return len(self.loop.rows) if self.loop else None

    def names(self, wanted: frozenset[str]) -> Mask:
        """Which of the trace's names are among some; index -1 gives False."""
        return np.array([*(name in wanted for name in self.trace.names), False], bool)

    def holder(self, row: int) -> Holder | None:
        """Who held up the feeding thread in a row of `idle`."""
        index = int(self.idle.holder[row])
        return self.shared.chains.holders[index] if index >= 0 else None

    def held_by_name(self, wanted: frozenset[str]) -> Mask:
        """Rows of `idle` with a holder that was in one of these calls."""
        held = [holder.name in wanted for holder in self.shared.chains.holders]
        mask: Mask = np.array([*held, False], bool)[self.idle.holder]
        return mask

    @cached_property
    def idle(self) -> Idle:
        """The device's idle time, the steps' edges included, in order of gaps."""
        gaps, edge = self._gaps, self._edge
        parts = [(gaps.segments, False)] + ([(edge, True)] if edge is not None else [])
        columns = {
            name: np.concatenate([getattr(segments, name) for segments, _ in parts])
            for name in ("start", "end", "cause", "name", "via", "path", "holder", "os_call")
        }
        is_edge = np.concatenate([np.full(len(segments), flag) for segments, flag in parts])
        of_gaps: list[Int64] = [
            gaps.idle.thread.astype(np.int64), gaps.idle.call, gaps.idle.began, gaps.gap_length,
            self._ending,
        ]  # fmt: skip
        thread, call, began, gap_ns, before = (
            np.concatenate([column[gaps.segments.owner], filler])
            for column, filler in zip(of_gaps, self._of_edge(), strict=True)
        )
        low, high = self.domain.hull if len(self.domain) else (0, 0)
        columns["start"] = np.clip(columns["start"], low, high)
        columns["end"] = np.clip(columns["end"], low, high)
        filled = columns["start"] < columns["end"]
        columns["holder"] = self._vouched(columns["start"], columns["end"], columns["holder"])
        keep = slice(None) if filled.all() else filled  # the slice copies nothing
        first, last = self.steady.hull if len(self.steady) else (0, 0)
        return Idle(
            **{name: column[keep] for name, column in columns.items()},
            thread=thread[keep].astype(np.int32),
            call=call[keep],
            began=began[keep],
            gap_ns=gap_ns[keep],
            after=self._ended_at(began[keep]),
            before=before[keep],
            edge=is_edge[keep],
            steady=((columns["start"] >= first) & (columns["end"] <= last) & ~is_edge)[keep],
        )

    def _vouched(self, start: Int64, end: Int64, holder: NDArray[np.int32]) -> NDArray[np.int32]:
        """The holders, less those in host code whose thread was not recorded for most of a row."""
        found = holder.copy()
        for index in values_of(holder[holder >= 0]).tolist():
            who = self.shared.chains.holders[index]
            if who.in_host_code:
                seen = self.timelines.thread(who.thread).seen
                rows = np.flatnonzero(holder == index)
                covered = seen.measure(start[rows], end[rows])
                found[rows[2 * covered <= (end - start)[rows]]] = -1
        return found

    @property
    def _ending(self) -> Int64:
        """Row of the copy that ends each gap, -1 where something else does."""
        feeders = self._gaps.feeders
        return np.where(feeders.table == TABLES.index("copies"), feeders.row, -1)

    def _of_edge(self) -> tuple[Int64, Int64, Int64, Int64, Int64]:
        """Thread, feeding call, begin, length and ending copy of each piece of the edges."""
        if self._edge is None or not len(self._edge) or self.loop is None:
            return (np.empty(0, np.int64),) * 5
        count, owner = len(self._edge), self._edge.owner
        start = np.array([self._edge.start[owner == o].min() for o in owner], np.int64)
        end = np.array([self._edge.end[owner == o].max() for o in owner], np.int64)
        none = np.full(count, -1, np.int64)
        return np.full(count, self.loop.thread, np.int64), none, start, end - start, none

    def _ended_at(self, times: Int64) -> Int64:
        """Row of a copy of the device that ends at each time, -1 where none does."""
        copies = self.trace.copies
        rows = np.arange(len(copies))[rows_of_device(self.trace, copies, self.activity.device)]
        if not len(rows):
            return np.full(len(times), -1, np.int64)
        rows = rows[np.argsort(copies.end[rows], kind="stable")]
        index = np.minimum(np.searchsorted(copies.end[rows], times), len(rows) - 1)
        return np.where(copies.end[rows[index]] == times, rows[index], -1)

    # What the feeding thread did.

    @cached_property
    def host(self) -> Mask:
        """Rows of `idle` in which the feeding thread worked, by itself: host code or OS calls."""
        idle, names = self.idle, self.timelines
        waits = names.is_wait[idle.name] & ~names.is_read[idle.name]
        mask: Mask = ((idle.cause == HOST) | ((idle.cause == OSRT) & ~waits)) & (idle.holder < 0)
        return mask

    @cached_property
    def waiting(self) -> Mask:
        """Rows in which it sat in an OS wait, by itself or inside a CUDA call."""
        idle, names = self.idle, self.timelines
        through = np.where(idle.cause == OSRT, idle.name, idle.via)
        called = (idle.cause == OSRT) | (idle.cause == CUDA_API)
        mask: Mask = called & (names.is_wait[through] | (idle.holder >= 0))
        return mask

    @cached_property
    def queued(self) -> Mask:
        """Rows in which launched work waited on the device."""
        mask: Mask = self.idle.cause == QUEUED
        return mask

    @cached_property
    def launching(self) -> Mask:
        """Rows inside the feeding call, or between its return and the activity's start."""
        mask: Mask = self.idle.cause == LAUNCH
        return mask

    @cached_property
    def overhead(self) -> Mask:
        """Rows of profiler overhead, the feeding thread's own or its holder's."""
        of_profiler = [holder.overhead for holder in self.shared.chains.holders]
        held = np.array([*of_profiler, False], bool)[self.idle.holder]
        mask: Mask = (self.idle.cause == OVERHEAD) | held
        return mask

    @cached_property
    def short(self) -> Mask:
        """Rows in gaps that a host makes which launches too slowly."""
        mask: Mask = self.idle.gap_ns < SHORT_GAP_NS
        return mask

    @cached_property
    def drained(self) -> Mask:
        """Rows in gaps that began while the feeding thread was waiting for the device."""
        idle = self.idle
        found = np.zeros(len(idle), bool)
        for thread in values_of(idle.thread[idle.thread >= 0]).tolist():
            mine = idle.thread == thread
            inside = self.timelines.thread(thread).synchronising
            found[mine] = inside.locate(idle.began[mine]) >= 0
        # A copy from or into pageable memory keeps its caller inside the copying call.
        copied = np.flatnonzero(idle.after >= 0)
        api = self.trace.api_calls
        rows = idle.after[copied]
        call = self.shared.launches.of("copies")[rows]
        copied, call = copied[call >= 0], call[call >= 0]
        same = api.thread[call] == idle.thread[copied]
        found[copied] |= same & (api.end[call] > idle.began[copied])
        return found

    @cached_property
    def before_first_launch(self) -> Mask:
        """Rows on the steps' thread, in a step that has launched nothing yet."""
        idle, loop = self.idle, self.loop
        if loop is None:
            return np.zeros(len(idle), bool)
        ranges = self.trace.ranges
        launches = self._launch_times(loop.thread)
        start, end = ranges.start[loop.rows], ranges.end[loop.rows]
        step = IntervalSet(start, end).locate(idle.start)
        at = np.searchsorted(launches, start)
        first = np.where(at < len(launches), launches[np.minimum(at, len(launches) - 1)], end)
        mask: Mask = (step >= 0) & (idle.thread == loop.thread) & (idle.start < first[step])
        return mask

    def _launch_times(self, thread: int) -> Int64:
        """When the steps' thread launched device work, in order; never empty."""
        api = self.trace.api_calls
        return np.sort(api.start[self.shared.launching & (api.thread == thread)], kind="stable")

    @cached_property
    def place(self) -> Int64:
        """Where each row of `idle` is: index into `places`."""
        return self._places[0]

    @property
    def places(self) -> list[str]:
        """NVTX paths with the counters of all names joined."""
        return self._places[1]

    @cached_property
    def _places(self) -> tuple[Int64, list[str]]:
        paths, index = distinct(self.idle.path)
        texts = [self.place_text(int(path)) for path in paths]
        known = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        return np.array([known[text] for text in texts], np.int64)[index], list(known)

    def place_text(self, path: int) -> str:
        """An NVTX path with the counters of all names joined."""
        names = self.timelines.path_names(path)
        return " / ".join(family(name) for name in names) or self.timelines.path_text(0)

    def innermost_is_phase(self, paths: NDArray[np.int32]) -> Mask:
        """Whether each path leads into a range inside a step, not just to the step itself."""
        step = self.loop.pattern if self.loop else None
        found, index = distinct(paths)
        names = [self.timelines.path_names(int(path)) for path in found]
        inside = np.array([bool(each) and family(each[-1]) != step for each in names], bool)
        mask: Mask = inside[index]
        return mask

    # Copies.

    @cached_property
    def copies(self) -> Copies:
        """The device's copies."""
        trace, table = self.trace, self.trace.copies
        rows = np.arange(len(table))[rows_of_device(trace, table, self.activity.device)]
        rows = rows[self.domain.locate(table.start[rows]) >= 0]
        memory = table.memory[rows]
        direction = table.direction[rows]
        managed = memory == MEMORY_KINDS.index("managed")
        return Copies(
            row=rows,
            start=table.start[rows],
            end=table.end[rows],
            bytes=table.bytes[rows],
            h2d=direction == COPY_DIRECTIONS.index("h2d"),
            d2h=direction == COPY_DIRECTIONS.index("d2h"),
            pageable=memory == MEMORY_KINDS.index("pageable"),
            pinned=memory == MEMORY_KINDS.index("pinned"),
            managed=managed,
            blocking_call=api_kinds(trace, self.shared.launches, rows) == 1,
            call=self.shared.launches.of("copies")[rows],
            stream=table.stream[rows],
        )

    def exposed(self, which: Int64) -> IntervalSet:
        """The exposed time of some of `copies`.

        As in the partition, a time shared by several directions belongs to the first; of several
        copies of one direction it belongs to the one that began first. So no time is two copies'.
        """
        direction = self.trace.copies.direction[self.copies.row[which]]
        found = union(NONE, NONE)
        for code in values_of(direction).tolist():
            mine = which[direction == code]
            own = union(self._own_start[mine], self.copies.end[mine])
            found = found | (own & self.exposure.copies[COPY_DIRECTIONS[code]])
        return found & self.domain

    @cached_property
    def _own_start(self) -> Int64:
        """From when each of `copies` is the only one, of those of its direction that began before.

        Its end, if it never is.
        """
        copies, found = self.copies, self.copies.start.copy()
        direction = self.trace.copies.direction[copies.row]
        for code in values_of(direction).tolist():
            rows = np.flatnonzero(direction == code)
            rows = rows[np.argsort(copies.start[rows], kind="stable")]
            over = np.maximum.accumulate(copies.end[rows])[:-1]
            later = rows[1:]
            found[later] = np.clip(over, copies.start[later], copies.end[later])
        return found

    def pinned_rates(self) -> tuple[dict[str, float], dict[str, str]]:
        """Rates of pinned copies by direction (bytes per ns), and where they are from."""
        return pinned_rates(self.trace, self.activity.device, self.shared.pinned_gbps)

    @cached_property
    def kernel_streams(self) -> Int64:
        """Streams in which the device's kernels and graphs ran."""
        found = []
        for table in (self.trace.kernels, self.trace.graphs):
            rows = rows_of_device(self.trace, table, self.activity.device)
            found.append(values_of(table.stream[rows]))
        return values_of(np.concatenate(found))
