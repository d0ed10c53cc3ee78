"""Kernels keep the device busy; there is nothing to gain from transfers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.finding import Seen
from analysis.diagnosis.rule import MIN_SHARE, Claim, Left, Rule
from analysis.grouping import group, sums
from analysis.metrics.activity import rows_of_device
from analysis.metrics.attribution import UNKNOWN


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Says so where the verdict does; what it costs is all that could still be removed."""
    if evidence.verdict.name != "compute-bound" or left.found:
        return
    removable = sum(evidence.verdict.removable_ns.values())
    steady, idle = evidence.steady, evidence.idle
    if not len(steady):
        return  # all kernels ran outside the steps
    computing = (evidence.activity.kernels & steady).total / steady.total
    unknown = int(idle.ns[idle.steady & (idle.cause == UNKNOWN)].sum()) / steady.total
    seen = _largest(evidence)
    yield Claim(
        title=f"The GPU computes for {100 * computing:.1f} % of the steady state; "
        + (
            "transfers and the host have nothing to give"
            if unknown < MIN_SHARE
            else f"for {100 * unknown:.1f} % nobody can be named whom it waits for"
        ),
        advice="Make the kernels faster or fewer: lower precision, channels last, fused "
        "operations, less work."
        + (f" Most time goes to {seen.name}." if seen and seen.name else ""),
        extra_ns=removable,
        seen=(seen,) if seen else (),
        always=True,
    )


def _largest(evidence: Evidence) -> Seen | None:
    """The kernels or the CUDA graph with the most time, and the longest of them."""
    trace, found = evidence.trace, []
    for table, text in ((trace.kernels, "kernels"), (trace.graphs, "replays of the graph")):
        rows = np.arange(len(table))[rows_of_device(trace, table, evidence.activity.device)]
        rows = rows[evidence.domain.locate(table.start[rows]) >= 0]
        if not len(rows):
            continue
        length = table.end[rows] - table.start[rows]
        first, index = group([table.name[rows]])
        totals = sums(index, length, len(first))
        best = int(np.argmax(totals))
        mine = rows[index == best]
        longest = int(mine[np.argmax(length[index == best])])
        name = int(table.name[longest])
        found.append(
            Seen(
                kind="kernel",
                text=f"the {text} with the most time",
                name=trace.names[name] if name >= 0 else None,
                device=evidence.device_id,
                process=trace.processes[int(table.process[longest])].pid,
                thread=None,
                thread_name=None,
                nvtx=None,
                start_ns=int(table.start[longest]),
                end_ns=int(table.end[longest]),
                ns=int(totals[best]),
                count=len(mine),
            )
        )
    return max(found, key=lambda seen: seen.ns, default=None)


RULE = Rule(order=300, judge=judge)
