"""From a trace to its report: every metric and the diagnosis, put together."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from analysis.diagnosis import Evidence, Shared, diagnose
from analysis.errors import InputError
from analysis.grouping import distinct, group, sums, values_of
from analysis.intervals import Int64, IntervalSet
from analysis.metrics import activity as activity_of
from analysis.metrics.attribution import CAUSES, UNKNOWN, Idle, Segments, attribute
from analysis.metrics.ceiling import Ceiling, ceiling
from analysis.metrics.gaps import Gaps, find_gaps
from analysis.metrics.lanes import lanes
from analysis.metrics.launches import TABLES, DeviceWork, Launches
from analysis.metrics.overlap import overlap
from analysis.metrics.partition import Exposure, expose
from analysis.metrics.result import NotAvailable
from analysis.metrics.stalls import stalls
from analysis.metrics.steps import Loop, Steps, edges, family, find_loop, steps
from analysis.metrics.timelines import Timelines
from analysis.metrics.transfers import transfers
from analysis.metrics.verdict import CLASSES, Verdict, judge
from analysis.metrics.waits import WaitChains
from analysis.metrics.window import compiled, select
from analysis.report import (
    SCHEMA,
    Cause,
    DeviceReport,
    EndedBy,
    Gap,
    GpuInfo,
    HeldBy,
    IdleTime,
    Options,
    Part,
    ProcessInfo,
    Quality,
    Report,
    StepsReport,
    ThreadInfo,
    TraceInfo,
    Window,
    limiting,
)
from analysis.trace import COPY_DIRECTIONS, Trace


def build(trace: Trace, options: Options | None = None) -> Report:
    """Analyses a trace.

    Args:
        trace: The trace.
        options: What is wanted; the whole trace if None.

    Raises:
        InputError: The options contradict each other or the trace.
        NotTracedError: A window by NVTX range is asked for, and NVTX was not traced.
    """
    return _Builder(trace, options or Options()).report()


class _Builder:
    def __init__(self, trace: Trace, options: Options) -> None:
        self._trace = trace
        self._options = options
        self._timelines = Timelines(trace)
        self._chains = WaitChains(self._timelines)
        self._launches = Launches(trace)
        self._selected = select(trace, options.from_ns, options.to_ns, options.nvtx)

    def report(self) -> Report:
        trace, options = self._trace, self._options
        wanted = self._wanted_devices()
        loop: Loop | NotAvailable = NotAvailable("no GPU activity was traced")
        if wanted:
            pattern = compiled(options.steps, "--steps") if options.steps else None
            loop = find_loop(trace, self._launches, pattern=pattern, window=self._selected)
        self._group_of_path = _PathGroups(self._timelines, loop)

        devices = []
        found_gaps = {}
        activities = {}
        verdicts = {}
        for index in wanted:
            activity = activity_of.of_device(trace, index)
            exposure = expose(activity)
            window = self._selected or activity.default_window()
            work = DeviceWork(trace, self._launches, index)
            gaps = find_gaps(activity, work, window, self._timelines, self._chains)
            found_gaps[index] = gaps
            activities[index] = activity, exposure
            verdict = judge(
                activity, exposure, window, gaps, self._timelines, self._chains,
                self._kernel_count(index, window),
            )  # fmt: skip
            devices.append(self._device(index, window, activity, exposure, gaps, verdict))
            verdicts[index] = window, verdict

        stall_table = stalls(
            self._timelines,
            self._chains,
            [gaps.segments for gaps in found_gaps.values()],
            self._selected,
        )
        unavailable = {}
        if not wanted:
            unavailable["devices"] = (
                "no GPU activity was recorded"
                if trace.provenance.cuda
                else "CUDA was not traced (record with --trace=cuda)"
            )
        if isinstance(stall_table, NotAvailable):
            unavailable["stalls"] = stall_table.reason
            stall_table = ()
        step_report: StepsReport | None = None
        limits: Ceiling | None = None
        edge_idle: Segments | None = None
        if isinstance(loop, NotAvailable) or loop.device not in activities:
            reason = loop.reason if isinstance(loop, NotAvailable) else "their device is left out"
            unavailable["steps"] = unavailable["ceiling"] = reason
        else:
            activity, exposure = activities[loop.device]
            edge_idle = self._edge_idle(loop, activity)
            step_report = self._steps(loop, activity, exposure, edge_idle)
            limits = ceiling(trace, activity, loop, options.pinned_gbps)
        shared = Shared(
            trace,
            self._timelines,
            self._chains,
            self._launches,
            loop if step_report and isinstance(loop, Loop) else None,
            options.pinned_gbps,
        )
        evidence = []
        for index, (window, verdict) in verdicts.items():
            of_steps = shared.loop is not None and shared.loop.device == index
            evidence.append(
                Evidence(
                    shared,
                    *activities[index],
                    window,
                    found_gaps[index],
                    edge_idle if of_steps else None,
                    verdict,
                )
            )
        diagnosis = diagnose(evidence)
        judged = limiting(devices)
        return Report(
            schema=SCHEMA,
            trace=_trace_info(trace),
            quality=Quality(trace.provenance.dropped_rows, trace.provenance.warnings),
            devices=tuple(devices),
            stalls=stall_table,
            steps=step_report,
            ceiling=limits,
            findings=diagnosis.findings,
            verdict=judged.verdict if judged else "not-enough-data",
            not_available=unavailable,
            cannot_tell=diagnosis.cannot_tell,
            lanes=lanes(
                self._timelines,
                self._chains,
                self._launches,
                found_gaps,
                loop.thread if isinstance(loop, Loop) else -1,
            )
            if options.lanes
            else None,
        )

    def _wanted_devices(self) -> list[int]:
        ids = [device.id for device in self._trace.devices]
        unknown = [id_ for id_ in self._options.devices if id_ not in ids]
        if unknown and ids:
            raise InputError(
                f"device {unknown[0]} did nothing in this trace",
                hint=f"devices with activity: {', '.join(map(str, ids))}",
            )
        return [i for i, id_ in enumerate(ids) if id_ in (self._options.devices or ids)]

    def _kernel_count(self, device: int, window: IntervalSet) -> int:
        count = 0
        for table in (self._trace.kernels, self._trace.graphs):
            rows = activity_of.rows_of_device(self._trace, table, device)
            count += int((window.measure(table.start[rows], table.end[rows]) > 0).sum())
        return count

    def _device(
        self,
        index: int,
        window: IntervalSet,
        activity: activity_of.DeviceActivity,
        exposure: Exposure,
        gaps: Gaps,
        verdict: Verdict,
    ) -> DeviceReport:
        device = self._trace.devices[index]
        low, high = window.hull if len(window) else (activity.first, activity.last)
        listed = gaps.length >= self._options.min_gap_ns
        return DeviceReport(
            id=device.id,
            name=device.name,
            window=Window(low, high, window.total, len(window)),
            partition=exposure.within(window),
            overlap=overlap(activity, window),
            idle=IdleTime(
                total_ns=int(gaps.length.sum()),
                gap_count=len(gaps.idle),
                unlisted_ns=int(gaps.length[~listed].sum()),
                by_cause=self._by_cause(gaps.segments),
            ),
            gaps=self._gaps(gaps, listed),
            transfers=transfers(self._trace, self._launches, index, window),
            verdict=verdict.name,
            removable_ns={name: verdict.removable_ns[name] for name in CLASSES},
            steady_ns=verdict.steady_ns,
            fill_ns=verdict.fill_ns,
            drain_ns=verdict.drain_ns,
        )

    def _edge_idle(self, loop: Loop, activity: activity_of.DeviceActivity) -> Segments:
        edge = edges(loop, activity)
        count = len(edge)
        idle = Idle(
            start=edge.start,
            end=edge.end,
            began=edge.start,
            thread=np.full(count, loop.thread, np.int32),
            call=np.full(count, -1, np.int64),
        )
        return attribute(self._timelines, self._chains, idle)

    def _steps(
        self,
        loop: Loop,
        activity: activity_of.DeviceActivity,
        exposure: Exposure,
        edge_idle: Segments,
    ) -> StepsReport:
        found = steps(self._trace, loop, activity, exposure)
        return StepsReport(
            **{field.name: getattr(found, field.name) for field in fields(Steps)},
            edge_by_cause=self._by_cause(edge_idle),
        )

    def _held_by(self, holder: int, ns: int) -> HeldBy | None:
        if holder < 0:
            return None
        found = self._chains.holders[holder]
        thread = self._trace.threads[found.thread]
        return HeldBy(thread.tid, thread.pid, thread.name, found.name, found.via, ns)

    def _name(self, cause: int, name: int, path: tuple[str, ...]) -> str:
        """A call's name; for host code the innermost range's."""
        if name >= 0:
            return self._trace.names[name]
        if cause == UNKNOWN:
            return CAUSES[UNKNOWN]
        return path[-1] if path else self._timelines.path_text(0)

    def _by_cause(self, segments: Segments) -> tuple[Cause, ...]:
        """Causes of idle time, largest first."""
        groups, paths = self._group_of_path.of(segments.path)
        # Host code is named by its path alone.
        first, index = (
            group([segments.cause, segments.name, groups, segments.holder])
            if len(segments)
            else (np.empty(0, np.int64), np.empty(0, np.int64))
        )
        ns = sums(index, segments.ns, len(first))
        held = sums(index, segments.held_ns, len(first))
        causes = [
            Cause(
                CAUSES[segments.cause[row]],
                self._name(int(segments.cause[row]), int(segments.name[row]), paths[groups[row]]),
                " / ".join(paths[groups[row]]) or self._timelines.path_text(0),
                int(ns[i]),
                self._held_by(int(segments.holder[row]), int(held[i])),
            )
            for i, row in enumerate(first.tolist())
        ]
        return tuple(sorted(causes, key=lambda c: (-c.ns, CAUSES.index(c.cause), c.name, c.nvtx)))

    def _gaps(self, gaps: Gaps, listed: NDArray[np.bool_]) -> tuple[Gap, ...]:
        segments = gaps.segments
        rows = np.flatnonzero(listed[segments.owner])
        if not len(rows):
            return ()
        keys = [
            getattr(segments, name)[rows]
            for name in ("owner", "cause", "name", "via", "path", "holder")
        ]
        first, index = group(keys)
        ns = sums(index, segments.ns[rows], len(first))
        held = sums(index, segments.held_ns[rows], len(first))
        columns = [*(key[first].tolist() for key in keys), ns.tolist(), held.tolist()]
        timelines, names = self._timelines, self._trace.names
        parts: dict[int, list[Part]] = {}
        for owner, cause, name, via, path, holder, length, held_ns in zip(*columns, strict=True):
            part = Part(
                CAUSES[cause],
                self._name(cause, name, timelines.path_names(path)),
                names[via] if via >= 0 else None,
                timelines.path_text(path),
                length,
                self._held_by(holder, held_ns),
            )
            parts.setdefault(owner, []).append(part)
        return tuple(self._gap(gaps, owner, of_gap) for owner, of_gap in sorted(parts.items()))

    def _gap(self, gaps: Gaps, owner: int, parts: list[Part]) -> Gap:
        trace = self._trace
        parts.sort(key=lambda p: (-p.ns, CAUSES.index(p.cause), p.name, p.via or "", p.nvtx))
        by_path: dict[str, int] = {}
        for part in parts:
            by_path[part.nvtx] = by_path.get(part.nvtx, 0) + part.ns
        thread, call = int(gaps.idle.thread[owner]), int(gaps.idle.call[owner])
        api = trace.api_calls
        return Gap(
            start_ns=int(gaps.idle.start[owner]),
            duration_ns=int(gaps.length[owner]),
            ended_by=self._ended_by(int(gaps.feeders.table[owner]), int(gaps.feeders.row[owner])),
            feeding_thread=None if thread < 0 else self._thread_info(thread),
            feeding_call=trace.names[api.name[call]] if call >= 0 else None,
            feeding_call_start_ns=int(api.start[call]) if call >= 0 else None,
            feeding_call_end_ns=int(api.end[call]) if call >= 0 else None,
            inferred=bool(gaps.feeders.inferred[owner]),
            nvtx=min(by_path, key=lambda path: (-by_path[path], path)),
            parts=tuple(parts),
        )

    def _thread_info(self, index: int) -> ThreadInfo:
        thread = self._trace.threads[index]
        return ThreadInfo(thread.tid, thread.pid, thread.name)

    def _ended_by(self, table: int, row: int) -> EndedBy | None:
        if table < 0:
            return None
        trace = self._trace
        name = TABLES[table]
        if name == "copies":
            return EndedBy("copy", COPY_DIRECTIONS[trace.copies.direction[row]])
        if name == "memsets":
            return EndedBy("memset", "memset")
        label = int(getattr(trace, name).name[row])
        return EndedBy(
            "kernel" if name == "kernels" else "graph",
            trace.names[label] if label >= 0 else "",
        )


class _PathGroups:
    """Joins the NVTX paths of different steps: "Batch 10 / copy" and "Batch 11 / copy"."""

    def __init__(self, timelines: Timelines, loop: Loop | NotAvailable) -> None:
        self._timelines = timelines
        self._step_names: frozenset[str] = frozenset()
        if isinstance(loop, Loop):
            names = timelines.trace.ranges.name[loop.rows]
            self._step_names = frozenset(timelines.trace.names[name] for name in values_of(names))
        self._ids: dict[tuple[str, ...], int] = {}

    def of(self, paths: NDArray[np.int32]) -> tuple[Int64, list[tuple[str, ...]]]:
        """The group of each path, as an index into the groups' names."""
        found, index = distinct(paths)
        ids = np.array([self._id(int(path)) for path in found], np.int64)
        return (ids[index] if len(found) else index), list(self._ids)

    def _id(self, path: int) -> int:
        names = tuple(
            family(name) if name in self._step_names else name
            for name in self._timelines.path_names(path)
        )
        return self._ids.setdefault(names, len(self._ids))


def _trace_info(trace: Trace) -> TraceInfo:
    source = trace.provenance
    return TraceInfo(
        path=source.path,
        nsys_version=source.nsys_version,
        schema_version=source.schema_version,
        duration_ns=source.duration_ns,
        start_utc_ns=source.start_utc_ns,
        traced={"cuda": source.cuda, "nvtx": source.nvtx, "osrt": source.osrt},
        os_call_threshold_ns=source.os_call_threshold_ns,
        gpus=tuple(GpuInfo(gpu.id, gpu.name, gpu.uuid) for gpu in trace.gpus),
        processes=tuple(ProcessInfo(process.pid, process.name) for process in trace.processes),
    )
