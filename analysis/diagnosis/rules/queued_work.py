"""Launched work waits on the device for an event or a dependency, while nothing runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.intervals import Int64
from analysis.words import at

#: Calls that put a function of the host into a stream, which stands still while that runs.
HOST_FUNCTIONS = frozenset(
    {"cudaLaunchHostFunc", "cudaStreamAddCallback", "cuLaunchHostFunc", "cuStreamAddCallback"}
)
#: Calls that make a stream wait for an event, or for a value in memory.
EVENTS = frozenset(
    {
        *("cudaStreamWaitEvent", "cuStreamWaitEvent", "cudaStreamWaitEventWithFlags"),
        *("cuStreamWaitValue32", "cuStreamWaitValue32_v2", "cuStreamWaitValue64"),
        *("cuStreamWaitValue64_v2", "cuStreamBatchMemOp", "cuStreamBatchMemOp_v2"),
    }
)

_ADVICE = (
    "Something on the device holds it back: an event of another stream, a host function in the "
    "stream, a copy of another process. Wait only for what is read.",
    "The stream waits for an event of another one. Record the event right behind what is needed, "
    "and give that enough of a head start.",
    "A host function in a stream stops the stream until it returns. Do its work in a thread that "
    "waits for an event, and keep what has to stay short.",
)


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims gaps whose feeding call had returned, by what its thread had called just before."""
    names, idle = evidence.trace.names, evidence.idle
    queued = np.flatnonzero(evidence.queued & left.idle)
    behind = _behind(evidence, idle.call[queued])
    name = np.where(behind >= 0, evidence.trace.api_calls.name[behind], -1)
    kinds = np.where(evidence.names(HOST_FUNCTIONS)[name], 2, evidence.names(EVENTS)[name])
    for kind, advice in enumerate(_ADVICE):
        rows, of = queued[kinds == kind], name[kinds == kind]
        if len(rows):
            by = f" behind {' and '.join(sorted({names[i] for i in of}))}" if kind else ""
            yield Claim(
                title=f"Launched work waits{by} while nothing runs: launched "
                f"{at(_launched(evidence, rows))}",
                advice=advice,
                idle=rows,
            )


def _behind(evidence: Evidence, calls: Int64) -> Int64:
    """The last call that holds a stream back, between the launch before and each; -1 without."""
    api, launching = evidence.trace.api_calls, evidence.shared.launching
    holding = evidence.names(HOST_FUNCTIONS | EVENTS)[api.name]
    found = np.full(len(calls), -1, np.int64)
    for thread in np.unique(api.thread[calls]).tolist():
        rows = np.flatnonzero((api.thread == thread) & (launching | holding))
        rows = rows[np.argsort(api.start[rows], kind="stable")]
        mine = np.flatnonzero(api.thread[calls] == thread)
        position = np.full(len(api), -1, np.int64)
        position[rows] = np.arange(len(rows))
        before = position[calls[mine]] - 1
        mine, before = mine[before >= 0], before[before >= 0]
        found[mine] = np.where(holding[rows[before]], rows[before], -1)
    return found


def _launched(evidence: Evidence, rows: Int64) -> str:
    """The path from which most of some queued work was launched."""
    idle, api = evidence.idle, evidence.trace.api_calls
    totals: dict[str, int] = {}
    for thread in np.unique(idle.thread[rows]).tolist():
        mine = rows[idle.thread[rows] == thread]
        paths = evidence.timelines.thread(thread).path_at(api.start[idle.call[mine]])
        for path, ns in zip(paths.tolist(), idle.ns[mine].tolist(), strict=True):
            text = evidence.place_text(path)
            totals[text] = totals.get(text, 0) + ns
    return max(sorted(totals), key=lambda text: totals[text])


RULE = Rule(order=190, judge=judge)
