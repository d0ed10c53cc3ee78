"""The report: everything that renderers show, frozen and versioned.

The classes mirror the JSON contract `nsyslab.report/1` field for field (see
``analysis/report.schema.json``); fields may be added within version 1, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from analysis.diagnosis import CannotTell, Finding
from analysis.metrics.ceiling import Ceiling
from analysis.metrics.lanes import Lanes
from analysis.metrics.overlap import Overlap
from analysis.metrics.partition import Partition
from analysis.metrics.stalls import ALWAYS_REPORTED, Stall
from analysis.metrics.steps import Steps
from analysis.metrics.transfers import Transfer

SCHEMA = "nsyslab.report/1"

#: Shorter gaps are attributed but not listed one by one.
MIN_GAP_NS = 100_000


@dataclass(frozen=True, slots=True)
class Options:
    """What is analysed.

    Attributes:
        min_gap_ns: Gaps from this length on are listed.
        from_ns: Start of the window, ns since the session's start; None for the first activity.
        to_ns: End of the window; None for the last activity.
        nvtx: The whole name of ranges that make up the window, as a regular expression.
        steps: The whole name of ranges that are the steps, as a regular expression.
        devices: Ids of the devices wanted; empty for all.
        pinned_gbps: Rate of pinned copies for the ceiling, where the trace has none.
        lanes: Whether the report shall hold the lanes of a timeline.
    """

    min_gap_ns: int = MIN_GAP_NS
    from_ns: int | None = None
    to_ns: int | None = None
    nvtx: str | None = None
    steps: str | None = None
    devices: tuple[int, ...] = ()
    pinned_gbps: float | None = None
    lanes: bool = False


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """A GPU of the recording machine."""

    id: int
    name: str
    uuid: str | None


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process of the recorded program."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """What was analysed."""

    path: str
    nsys_version: str | None
    schema_version: str | None
    duration_ns: int
    start_utc_ns: int | None
    traced: Mapping[str, bool]
    os_call_threshold_ns: int | None
    gpus: tuple[GpuInfo, ...]
    processes: tuple[ProcessInfo, ...]


@dataclass(frozen=True, slots=True)
class Quality:
    """What a reader has to know before trusting a figure."""

    dropped_rows: Mapping[str, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """What is looked at; `duration_ns` is the total of its intervals."""

    start_ns: int
    end_ns: int
    duration_ns: int
    interval_count: int


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """A thread by its ids of the operating system."""

    thread: int
    process: int
    name: str


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Who held up the feeding thread, and for how much of the part (ns)."""

    thread: int
    process: int
    thread_name: str
    name: str
    via: str | None
    ns: int


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a gap."""

    cause: str
    name: str
    via: str | None
    nvtx: str
    ns: int
    held_by: HeldBy | None


@dataclass(frozen=True, slots=True)
class Cause:
    """Idle time of one cause over all gaps; counters of the steps' names are joined."""

    cause: str
    name: str
    nvtx: str
    ns: int
    held_by: HeldBy | None


@dataclass(frozen=True, slots=True)
class EndedBy:
    """The activity that ends a gap: a kernel, graph, copy or memset."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Gap:
    """An idle gap, or the part of it inside the window."""

    start_ns: int
    duration_ns: int
    ended_by: EndedBy | None
    feeding_thread: ThreadInfo | None
    feeding_call: str | None
    feeding_call_start_ns: int | None
    feeding_call_end_ns: int | None
    inferred: bool
    nvtx: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class IdleTime:
    """The idle time of a device."""

    total_ns: int
    gap_count: int
    unlisted_ns: int
    by_cause: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One device with activity."""

    id: int
    name: str
    window: Window
    partition: Partition
    overlap: Mapping[str, Overlap]
    idle: IdleTime
    gaps: tuple[Gap, ...]
    transfers: tuple[Transfer, ...]
    verdict: str
    removable_ns: Mapping[str, int]
    steady_ns: int
    fill_ns: int
    drain_ns: int


@dataclass(frozen=True, slots=True)
class StepsReport(Steps):
    """The steps, and what the span adds at its edges by cause."""

    edge_by_cause: tuple[Cause, ...]


def limiting(devices: Iterable[DeviceReport]) -> DeviceReport | None:
    """The device that a report's verdict is about: the one with the most to win."""
    return max(devices, key=lambda d: (sum(d.removable_ns.values()), -d.id), default=None)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything known about one trace.

    Attributes:
        findings: What to change, by what it costs; docs/diagnosis.md.
        not_available: Metrics that this trace does not allow, with the reason.
        cannot_tell: Rules that could not judge.
        lanes: The timeline, where `Options.lanes` asked for it; no part of the contract.
    """

    schema: str
    trace: TraceInfo
    quality: Quality
    devices: tuple[DeviceReport, ...]
    stalls: tuple[Stall, ...]
    steps: StepsReport | None
    ceiling: Ceiling | None
    findings: tuple[Finding, ...]
    verdict: str
    not_available: Mapping[str, str]
    cannot_tell: tuple[CannotTell, ...]
    lanes: Lanes | None = field(default=None, compare=False, repr=False)

    def contract(self) -> dict[str, Any]:
        """The fields of the JSON contract; values are still dataclasses, tuples and mappings."""
        found: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        del found["lanes"]
        if "stalls" in self.not_available:
            # An absent table is never a zero: the row is there, its figures are not.
            empty = dict.fromkeys(("calls", "total_ns", "max_ns", "idle_ns"))
            found["stalls"] = [
                {"function": ALWAYS_REPORTED, **empty, "nvtx": [], "note": "not traced"}
            ]
        return found
