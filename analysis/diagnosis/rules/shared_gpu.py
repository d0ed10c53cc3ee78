"""Another process uses the same GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.finding import Seen
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.grouping import values_of
from analysis.intervals import Int64, IntervalSet, union
from analysis.metrics.activity import rows_of_device


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims work that is queued while nothing runs, and counts what the other processes took.

    Kernels of several processes take turns on a GPU, while the trace shows each of them from its
    start to its end, its pauses included. Where k others ran beside this process, they took k of
    k + 1 parts of the time. (Under MPS they may have run at once; the trace does not tell.)
    """
    trace, loop = evidence.trace, evidence.loop
    parts = _kernels_and_graphs(evidence)
    if parts is None:
        return
    process, start, end = parts
    # The process that is looked at: that of the steps, else the one with the most kernel time.
    known = values_of(process).tolist()
    time = {p: int((end - start)[process == p].sum()) for p in known}
    mine = trace.threads[loop.thread].process if loop else max(known, key=lambda p: (time[p], -p))
    others = [p for p in known if p != mine]
    if mine not in known or not others:
        return
    covered = {p: union(start[process == p], end[process == p]) & evidence.domain for p in known}
    theirs = union(start[process != mine], end[process != mine]) & evidence.domain
    lost = (theirs - covered[mine]).total + _turns(covered[mine], [covered[p] for p in others])
    pids = ", ".join(str(pid) for pid in sorted(trace.processes[p].pid for p in others))
    percent = 100 * theirs.total / evidence.domain.total
    yield Claim(
        title=f"The GPU is shared: process {pids} ran kernels on it for {percent:.1f} % of the "
        "time, in turn with this one",
        advice="Give each process a GPU of its own or a slice (MIG), let them share it at the same "
        "time (MPS), or do the work of both in one process. Switching between them costs more time "
        "than is counted here.",
        idle=np.flatnonzero(evidence.queued & left.idle),
        extra_ns=lost,
        seen=_seen(evidence, mine, theirs.total),
    )


def _kernels_and_graphs(evidence: Evidence) -> tuple[Int64, Int64, Int64] | None:
    """Process, start and end of those in the domain; None unless there are some of several."""
    trace = evidence.trace
    tables = [
        (table, rows_of_device(trace, table, evidence.activity.device))
        for table in (trace.kernels, trace.graphs)
    ]
    process = np.concatenate([table.process[rows] for table, rows in tables]).astype(np.int64)
    if len(values_of(process)) < 2:
        return None
    start = np.concatenate([table.start[rows] for table, rows in tables])
    end = np.concatenate([table.end[rows] for table, rows in tables])
    inside = evidence.domain.measure(start, end) > 0
    process = process[inside]
    return (process, start[inside], end[inside]) if len(process) else None


def _turns(mine: IntervalSet, others: list[IntervalSet]) -> int:
    """How much of the time in which this process ran kernels the others took, ns."""
    # at_least[k]: where k others ran beside it. Going from k - 1 to k costs 1 / k - 1 / (k + 1).
    at_least = [mine]
    for other in others:
        more = [each & other for each in at_least]
        at_least = [
            at_least[0],
            *(a | b for a, b in zip(at_least[1:], more[:-1], strict=True)),
            more[-1],
        ]
    return round(sum(each.total / (k * (k + 1)) for k, each in enumerate(at_least) if k))


def _seen(evidence: Evidence, mine: int, ns: int) -> tuple[Seen]:
    """The kernels of the others, or their graphs, and the longest of them."""
    trace, count, found = evidence.trace, 0, []
    for table in (trace.kernels, trace.graphs):
        rows = np.arange(len(table))[rows_of_device(trace, table, evidence.activity.device)]
        rows = rows[table.process[rows] != mine]
        rows = rows[evidence.domain.measure(table.start[rows], table.end[rows]) > 0]
        count += len(rows)
        if len(rows):
            found.append((table, int(rows[np.argmax(table.end[rows] - table.start[rows])])))
    table, longest = max(found, key=lambda pair: int((pair[0].end - pair[0].start)[pair[1]]))
    return (
        Seen(
            kind="kernel",
            text="kernels of other processes",
            name=trace.names[table.name[longest]],
            device=evidence.device_id,
            process=trace.processes[int(table.process[longest])].pid,
            thread=None,
            thread_name=None,
            nvtx=None,
            start_ns=int(table.start[longest]),
            end_ns=int(table.end[longest]),
            ns=ns,
            count=count,
        ),
    )


RULE = Rule(order=5, judge=judge)
