"""Another process uses the same GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.finding import Seen
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.grouping import values_of
from analysis.intervals import union
from analysis.metrics.activity import rows_of_device


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims work that is queued while nothing runs, and counts what the other processes ran."""
    trace, loop = evidence.trace, evidence.loop
    of_device = rows_of_device(trace, trace.kernels, evidence.activity.device)
    kernels = np.arange(len(trace.kernels))[of_device]
    inside = evidence.domain.measure(trace.kernels.start[kernels], trace.kernels.end[kernels]) > 0
    kernels = kernels[inside]
    processes = trace.kernels.process[kernels]
    known = values_of(processes)
    if len(known) < 2:
        return
    # The process that is looked at: that of the steps, else the one with the most kernel time.
    length = trace.kernels.end[kernels] - trace.kernels.start[kernels]
    time = [int(length[processes == p].sum()) for p in known]
    mine = trace.threads[loop.thread].process if loop else int(known[int(np.argmax(time))])
    others = kernels[processes != mine]
    if not len(others) or not (processes == mine).any():
        return
    own = kernels[processes == mine]
    theirs = union(trace.kernels.start[others], trace.kernels.end[others]) & evidence.domain
    theirs = theirs - union(trace.kernels.start[own], trace.kernels.end[own])
    rows = np.flatnonzero(evidence.queued & left.idle)
    longest = int(others[np.argmax(trace.kernels.end[others] - trace.kernels.start[others])])
    pids = sorted({trace.processes[int(p)].pid for p in known if p != mine})
    yield Claim(
        title=f"The GPU is shared: process {', '.join(map(str, pids))} ran kernels on it "
        "while this one ran none",
        advice="Give each process a GPU of its own or a slice (MIG), let them share it at the same "
        "time (MPS), or do the work of both in one process.",
        idle=rows,
        extra_ns=theirs.total,
        seen=(
            Seen(
                kind="kernel",
                text="kernels of other processes, while this one ran none",
                name=trace.names[trace.kernels.name[longest]],
                device=evidence.device_id,
                process=trace.processes[int(trace.kernels.process[longest])].pid,
                thread=None,
                nvtx=None,
                start_ns=int(trace.kernels.start[longest]),
                end_ns=int(trace.kernels.end[longest]),
                ns=theirs.total,
                count=len(others),
            ),
        ),
    )


RULE = Rule(order=5, judge=judge)
