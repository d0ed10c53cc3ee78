"""What the diagnosis says: findings, and questions that the trace cannot answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waited:
    """The thread that held up the one that should have fed the device; ns of overlap."""

    thread: int
    process: int
    thread_name: str
    name: str
    via: str | None
    ns: int


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that was seen in the trace, and where; what it does not concern is None.

    Attributes:
        kind: "idle" (a cause of idle time), "copy", "kernel" or "overhead".
        text: It in words.
        name: Function, direction of the copies or kernel, as the trace names it.
        device: Id of the device.
        process: Process id of the thread.
        thread: Thread id.
        thread_name: Its name; empty if it has none.
        nvtx: NVTX path of the thread.
        start_ns: Where the longest example begins.
        end_ns: Where it ends.
        ns: How long all of them together.
        count: How many there are.
        held_by: Who held the thread up.
    """

    kind: str
    text: str
    name: str | None
    device: int
    process: int | None
    thread: int | None
    thread_name: str | None
    nvtx: str | None
    start_ns: int
    end_ns: int
    ns: int
    count: int
    held_by: Waited | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What costs time, and what to do about it.

    Attributes:
        id: The rule's name.
        title: What was seen, in one line.
        device: Id of the device that loses the time.
        cost_ns: Device time lost in the steps, or in the window of a trace without steps.
        cost_ns_per_step: The same per step; None without steps.
        speedup_ceiling: How many times as fast the steps are at most without it.
        evidence: What was seen and where, largest first.
        advice: What to do.
        demonstrated_by: The workload of this lab that does so.
    """

    id: str
    title: str
    device: int
    cost_ns: int
    cost_ns_per_step: int | None
    speedup_ceiling: float | None
    evidence: tuple[Seen, ...]
    advice: str
    demonstrated_by: str | None


@dataclass(frozen=True, slots=True)
class CannotTell:
    """A rule whose input was not recorded: neither a finding nor the absence of one.

    Attributes:
        id: The rule's name.
        reason: What is missing.
        record_with: The option that records it.
    """

    id: str
    reason: str
    record_with: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Findings by cost, and the rules that could not judge."""

    findings: tuple[Finding, ...]
    cannot_tell: tuple[CannotTell, ...]
