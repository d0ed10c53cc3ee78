"""Figures and causes in words, the same in every format for people."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analysis import words
from analysis.diagnosis import CannotTell, Finding, Seen, Waited
from analysis.metrics.stalls import ALWAYS_REPORTED, Stall
from analysis.metrics.transfers import Transfer
from analysis.report import Cause, DeviceReport, HeldBy, Part, Report

_SCALES = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))

#: The space between a number and its unit, at which no line should break.
BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[num]?s|[kMG]?B|x)(?!\w))")

VERDICTS = {
    "compute-bound": "kernels keep the GPU busy; transfers are not the problem",
    "copy-bound": "copies that no kernel hides cost the most",
    "sync-bound": "the GPU drains while the host synchronises or sits in a blocking CUDA call",
    "launch-bound": "the host cannot launch work as fast as the GPU finishes it",
    "host-bound": "the GPU waits for the host to do something else",
    "not-enough-data": "too little GPU work was recorded to judge",
}

#: What cannot be told when something was not traced, and the cure.
HIDDEN = {
    "cuda": "no GPU metrics; record with --trace=cuda",
    "nvtx": "no ranges, steps or ceilings; record with --trace=nvtx",
    "osrt": "stalls such as munmap show as host code, waits have no holder; "
    "record with --trace=osrt",
}


def duration(ns: int) -> str:
    """A time in the unit that fits, three or four significant digits."""
    for scale, unit in _SCALES:
        if ns >= scale:
            value = ns / scale
            digits = 2 if value < 10 else 1 if value < 1000 else 0
            return f"{value:,.{digits}f} {unit}"
    return f"{ns} ns"


def share(part: int, whole: int) -> str:
    """A percentage; small ones are not rounded to nothing."""
    if not whole:
        return "-"
    percent = 100 * part / whole
    return "<0.1 %" if 0 < percent < 0.05 else f"{percent:.1f} %"


def size(count: int) -> str:
    """Bytes in the decimal unit that fits."""
    for scale, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count} B"


def one_line(text: str) -> str:
    """Text of a recording on one line: control characters are spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cause(part: Part | Cause) -> str:
    """What the feeding thread was doing: "munmap", "cudaFree via ioctl", "host code"."""
    return cause_text(part.cause, part.name, getattr(part, "via", None))


def cause_text(cause: str, name: str, via: str | None) -> str:
    """The same, of a cause's fields."""
    return one_line(words.cause_text(cause, name, via))


def place(nvtx: str) -> str:
    """An NVTX path behind a cause: "in Batch 3 / alpha", "outside any range"."""
    return one_line(words.at(nvtx))


def thread(tid: int, name: str | None) -> str:
    """A thread by its id, and by its name if it has one."""
    return f"{name} thread {tid}" if name else f"thread {tid}"


def fed_by(tid: int, pid: int | None, name: str | None) -> str:
    """A feeding thread; the first of a process is named like that one, which says nothing."""
    return thread(tid, None if tid == pid else name)


def holder(held_by: HeldBy | Waited, of: int) -> str:
    """Who held up the feeding thread, and for how much of it."""
    name = f"{held_by.name} via {held_by.via}" if held_by.via else held_by.name
    who = thread(held_by.thread, held_by.thread_name)
    return one_line(f"overlaps {who} in {name}, {duration(held_by.ns)} of {duration(of)}")


def headline(report: Report) -> str:
    """The verdict in one sentence."""
    return f"{report.verdict}: {VERDICTS[report.verdict]}"


def gain(finding: Finding) -> str:
    """What a finding costs, and how much faster the steps are at most without it."""
    cost = (
        f"{duration(finding.cost_ns)} in all"
        if finding.cost_ns_per_step is None
        else f"{duration(finding.cost_ns_per_step)} per step"
    )
    ceiling = finding.speedup_ceiling
    return cost if ceiling is None else f"{cost}; without it at most {ceiling:.2f} x as fast"


def remedy(finding: Finding) -> str:
    """What to do, and where the lab shows it."""
    shown = f" The workload {finding.demonstrated_by} does so." if finding.demonstrated_by else ""
    return one_line(finding.advice + shown)


_SEEN_IN = {"idle": "gaps", "copy": "copies", "kernel": "kernels"}


def amount(seen: Seen) -> str:
    """How much was seen: "2.07 ms in 1,354 gaps"."""
    if seen.count == 1:
        return duration(seen.ns)
    return f"{duration(seen.ns)} in {seen.count:,} {_SEEN_IN.get(seen.kind, 'rows')}"


def seen(seen: Seen) -> str:
    """A line of evidence: what, how much, on which thread and where the longest example is."""
    text = f"{seen.text}: {amount(seen)}"
    if seen.nvtx is not None:
        text += f", {words.at(seen.nvtx)}"
    if seen.thread is not None:
        text += f", {fed_by(seen.thread, seen.process, seen.thread_name)}"
    if seen.held_by is not None:
        text += f", {holder(seen.held_by, seen.ns)}"
    return one_line(
        f"{text} (longest at {seen.start_ns / 1e6:,.3f} to {seen.end_ns / 1e6:,.3f} ms)"
    )


def cannot_tell(entry: CannotTell) -> str:
    """A rule that could not judge, and what would let it."""
    return f"cannot tell about {entry.id}: {entry.reason}; record with {entry.record_with}"


def partition_rows(device: DeviceReport) -> list[tuple[str, int]]:
    """The partition as label and ns; directions that never happened are left out."""
    parts = device.partition
    return [
        ("compute", parts.compute_ns),
        *((f"exposed {name} copy", ns) for name, ns in parts.exposed_copy_ns.items() if ns),
        ("exposed memset", parts.exposed_memset_ns),
        ("idle", parts.idle_ns),
    ]


def hidden(report: Report) -> list[str]:
    """What was not traced, and what that hides."""
    return [
        f"{kind} was not traced: {HIDDEN[kind]}"
        for kind, traced in report.trace.traced.items()
        if not traced
    ]


def transfer_call(row: Transfer) -> str:
    """How copies were called; an asynchronous call of pageable memory waits all the same."""
    return "async, but waits" if row.api == "async" and row.synchronous else row.api


def shown_stalls(report: Report, top: int) -> tuple[Stall, ...]:
    """The first rows of the stall table, and the one that is always shown."""
    rest = (stall for stall in report.stalls[top:] if stall.function == ALWAYS_REPORTED)
    return (*report.stalls[:top], *rest)


def ceilings(report: Report) -> Iterator[tuple[str, str, str]]:
    """The ceilings as label, rate and ratio to now."""
    ceiling = report.ceiling
    if ceiling is None:
        return
    for label, rate, ratio in (
        ("now", ceiling.now_per_second, None),
        ("without idle", ceiling.no_idle_per_second, ceiling.no_idle_ratio),
        ("every copy hidden", ceiling.overlapped_per_second, ceiling.overlapped_ratio),
        ("hidden, at the pinned rate", ceiling.pinned_per_second, ceiling.pinned_ratio),
    ):
        yield (
            label,
            "not stated" if rate is None else f"{rate:,.2f}",
            "" if ratio is None else f"{ratio:.2f} x",
        )
