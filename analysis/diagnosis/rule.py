"""What a rule is, and how what it claims becomes a finding.

A rule claims parts of the device's idle time and of its exposed copies, from what rules before it
have left. No nanosecond is claimed twice, so that costs may be added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analysis.diagnosis.evidence import NONE, Evidence, Mask
from analysis.diagnosis.finding import Finding, Seen, Waited
from analysis.grouping import group, sums, values_of
from analysis.intervals import Int64
from analysis.metrics.attribution import CAUSES
from analysis.metrics.overlap import PLACES
from analysis.metrics.verdict import COMPUTE_BOUND_SHARE
from analysis.trace import COPY_DIRECTIONS, MEMORY_KINDS
from analysis.words import at, cause_text

#: A finding costs at least this share of the steady state: the share below which the verdict is
#: "compute-bound", so that a program with nothing to gain gets no findings that say otherwise.
MIN_SHARE = COMPUTE_BOUND_SHARE

#: Lines of evidence per finding: the largest causes; the rest is in the tables of the report.
MOST_SEEN = 4
#: And only what is at least this share of all that the finding shows.
LEAST_SEEN = 0.01

#: A call is named in a title if it has at least this share of the time.
_LEAST_NAMED = 0.1


@dataclass(frozen=True, eq=False)
class Left:
    """What rules before have left.

    Attributes:
        idle: Rows of `Evidence.idle` that are not claimed.
        copies: Rows of `Evidence.copies` that are not claimed.
        small: Rows of `Evidence.idle` that are claimed, but were too little for a finding.
        found: Whether a rule before has found something on this device.
    """

    idle: Mask
    copies: Mask
    small: Mask
    found: bool


@dataclass(frozen=True, eq=False)
class Claim:
    """What a rule found.

    Attributes:
        title: What was seen, in one line.
        advice: What to do.
        demonstrated_by: The workload that does so, None if none does.
        idle: Rows of `Evidence.idle` that it explains.
        copies: Rows of `Evidence.copies` that it explains.
        copy_share: How much of their exposed time would go away.
        keeps_copies: Whether another rule may explain the rest of these copies.
        most_ns: What can be won at most, ns; None for no such limit.
        seen: More evidence, put before that of the rows.
        extra_ns: Cost beside idle time and exposed copies, ns.
        always: Whether it is a finding however little it costs.
    """

    title: str
    advice: str
    demonstrated_by: str | None = None
    idle: Int64 = field(default_factory=NONE.copy)
    copies: Int64 = field(default_factory=NONE.copy)
    copy_share: float = 1.0
    keeps_copies: bool = False
    most_ns: int | None = None
    seen: tuple[Seen, ...] = ()
    extra_ns: int = 0
    always: bool = False


@dataclass(frozen=True)
class Rule:
    """A rule; each file of `analysis.diagnosis.rules` defines one as `RULE`.

    Attributes:
        order: Rules of lower order claim first.
        judge: What it claims of what is left.
        needs: What must have been traced: "osrt".
    """

    order: int
    judge: Callable[[Evidence, Left], Iterable[Claim]]
    needs: tuple[str, ...] = ()


def finding(id_: str, claim: Claim, evidence: Evidence) -> Finding | None:
    """The finding that a claim amounts to; None if it is too small."""
    idle = evidence.idle
    idle_ns = int(idle.ns[claim.idle].sum())
    steady_idle = int(idle.ns[claim.idle][idle.steady[claim.idle]].sum())
    exposed = evidence.exposed(claim.copies)
    steady_copy = round(claim.copy_share * (exposed & evidence.steady).total)
    copy_ns = round(claim.copy_share * exposed.total)
    steps = evidence.step_count
    if steps and steps > 1:
        # A short recording's first or last copy is exposed by nature. It costs each step what the
        # steady state, which is one step shorter, shows.
        copy_ns = min(copy_ns, round(steady_copy * steps / (steps - 1)))
    cost, steady = idle_ns + copy_ns, steady_idle + steady_copy
    if claim.most_ns is not None:
        cost, steady = min(cost, claim.most_ns), min(steady, claim.most_ns)
    cost, steady = cost + claim.extra_ns, steady + claim.extra_ns
    if not claim.always and steady < max(MIN_SHARE * evidence.steady.total, 1):
        return None
    whole = evidence.domain.total
    of_rows = [*idle_seen(evidence, claim.idle), *copies_seen(evidence, claim.copies)]
    of_rows.sort(key=lambda each: -each.ns)
    least = LEAST_SEEN * sum(each.ns for each in of_rows)
    seen = (*claim.seen, *(each for each in of_rows if each.ns >= least))
    return Finding(
        id=id_,
        title=claim.title,
        device=evidence.device_id,
        cost_ns=cost,
        cost_ns_per_step=cost // steps if steps else None,
        speedup_ceiling=round(whole / (whole - cost), PLACES) if cost < whole else None,
        evidence=seen[:MOST_SEEN],
        advice=claim.advice,
        demonstrated_by=claim.demonstrated_by,
    )


def idle_seen(evidence: Evidence, rows: Int64) -> list[Seen]:
    """Idle time by cause, thread, path and holder, largest first, with its longest piece."""
    if not len(rows):
        return []
    idle, timelines, trace = evidence.idle, evidence.timelines, evidence.trace
    rows = rows[np.argsort(idle.start[rows], kind="stable")]
    keys: list[NDArray[np.integer]] = [
        idle.cause[rows], idle.name[rows], idle.via[rows], evidence.place[rows], idle.thread[rows]
    ]  # fmt: skip
    first, index = group([*keys, idle.holder[rows]])
    total = sums(index, idle.ns[rows], len(first))
    found = []
    for i in np.argsort(-total, kind="stable")[:MOST_SEEN].tolist():
        mine = rows[index == i]
        held_ns = _held_ns(evidence, mine)
        # An example of a wait is one that the holder has part in.
        shown = mine if held_ns is None or not held_ns.any() else mine[held_ns > 0]
        longest = int(shown[np.argmax(idle.ns[shown])])
        thread = int(idle.thread[longest])
        who = trace.threads[thread] if thread >= 0 else None
        found.append(
            Seen(
                kind="idle",
                text=_cause_text(evidence, longest),
                name=trace.names[idle.name[longest]] if idle.name[longest] >= 0 else None,
                device=evidence.device_id,
                process=who.pid if who else None,
                thread=who.tid if who else None,
                thread_name=who.name if who else None,
                nvtx=timelines.path_text(int(idle.path[longest])),
                start_ns=int(idle.start[longest]),
                end_ns=int(idle.end[longest]),
                ns=int(total[i]),
                count=int((np.diff(idle.began[mine]) != 0).sum()) + 1,
                held_by=_held_by(evidence, longest, held_ns),
            )
        )
    return found


def _cause_text(evidence: Evidence, row: int) -> str:
    idle, names = evidence.idle, evidence.trace.names
    name, via = (names[i] if i >= 0 else None for i in (idle.name[row], idle.via[row]))
    return cause_text(CAUSES[idle.cause[row]], name, via)


def _held_ns(evidence: Evidence, rows: Int64) -> Int64 | None:
    """How much of some rows, which have one holder, it covers; None without a holder."""
    holder, idle = evidence.holder(int(rows[0])), evidence.idle
    if holder is None:
        return None
    measure = evidence.shared.chains.measure(holder.thread, holder.rule)
    return measure.measure(idle.start[rows], idle.end[rows])


def _held_by(evidence: Evidence, row: int, held_ns: Int64 | None) -> Waited | None:
    holder = evidence.holder(row)
    if holder is None or held_ns is None:
        return None
    who = evidence.trace.threads[holder.thread]
    return Waited(who.tid, who.pid, who.name, holder.name, holder.via, int(held_ns.sum()))


def copies_seen(evidence: Evidence, rows: Int64) -> list[Seen]:
    """Copies by direction and memory, largest first, with the longest one."""
    copies, trace = evidence.copies, evidence.trace
    if not len(rows):
        return []
    table, found = trace.copies, []
    first, index = group([table.direction[copies.row[rows]], table.memory[copies.row[rows]]])
    for i in range(len(first)):
        mine = rows[index == i]
        longest = int(mine[np.argmax(copies.end[mine] - copies.start[mine])])
        row, call = int(copies.row[longest]), int(copies.call[longest])
        thread = int(trace.api_calls.thread[call]) if call >= 0 else -1
        who = trace.threads[thread] if thread >= 0 else None
        path = None
        if who:
            at = evidence.timelines.thread(thread).path_at(trace.api_calls.start[[call]])
            path = evidence.timelines.path_text(int(at[0]))
        size, ns = int(copies.bytes[mine].sum()), evidence.exposed(mine).total
        length = int((copies.end[mine] - copies.start[mine]).sum())
        direction = COPY_DIRECTIONS[table.direction[row]]
        memory = MEMORY_KINDS[table.memory[row]]
        rate = f", {size / length:.1f} GB/s" if length else ""
        how = trace.names[trace.api_calls.name[call]] if call >= 0 else "no recorded call"
        found.append(
            Seen(
                kind="copy",
                text=f"{memory} {direction} copies by {how}, {size / 1e6:,.1f} MB{rate}, exposed",
                name=direction,
                device=evidence.device_id,
                process=who.pid if who else None,
                thread=who.tid if who else None,
                thread_name=who.name if who else None,
                nvtx=path,
                start_ns=int(copies.start[longest]),
                end_ns=int(copies.end[longest]),
                ns=ns,
                count=len(mine),
            )
        )
    return sorted(found, key=lambda seen: -seen.ns)


def where(evidence: Evidence, rows: Int64) -> str:
    """The path that most of some idle time lies in, step counters joined."""
    totals = sums(evidence.place[rows], evidence.idle.ns[rows], len(evidence.places))
    best = min(range(len(totals)), key=lambda i: (-totals[i], evidence.places[i]))
    return evidence.places[best]


def located(evidence: Evidence, rows: Int64) -> str:
    """The same in a title: "in Batch # / alpha", "outside any range"."""
    return at(where(evidence, rows))


def called(evidence: Evidence, rows: Int64) -> str:
    """The calls that some idle time was in, the largest two, for a title; or host code."""
    idle, names = evidence.idle, evidence.trace.names
    first, index = group([idle.holder[rows], idle.name[rows]])
    amounts = sums(index, idle.ns[rows], len(first))
    totals: dict[str, int] = {}
    for row, ns in zip(rows[first].tolist(), amounts.tolist(), strict=True):
        holder = evidence.holder(row)
        call = names[idle.name[row]] if idle.name[row] >= 0 else cause_text("host", None)
        name = holder.name if holder else call
        totals[name] = totals.get(name, 0) + ns
    ranked = sorted(totals, key=lambda name: (-totals[name], name))
    named = [name for name in ranked if totals[name] >= _LEAST_NAMED * sum(totals.values())]
    return " and ".join(named[:2])


def holders(evidence: Evidence, rows: Int64) -> Sequence[tuple[int, Int64]]:
    """Some rows of `idle` by the thread that held the feeding one up: its index, its rows."""
    idle = evidence.idle
    of_holder = np.array([h.thread for h in evidence.shared.chains.holders] + [-1], np.int64)
    threads = of_holder[idle.holder[rows]]
    return [(int(thread), rows[threads == thread]) for thread in values_of(threads)]


def thread_text(evidence: Evidence, thread: int) -> str:
    """A thread by name and id."""
    who = evidence.trace.threads[thread]
    return f"{who.name} (thread {who.tid})" if who.name else f"thread {who.tid}"
