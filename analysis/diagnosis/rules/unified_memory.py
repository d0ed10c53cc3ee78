"""Unified memory moves between host and device while kernels need it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.finding import Seen
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.intervals import Int64, union

#: Fewer migrations than this are somebody's initialisation, not a habit of the loop.
FEWEST = 10


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims migrations, also those inside kernels that wait for the pages meanwhile."""
    idle, copies = evidence.idle, evidence.copies
    moved = np.flatnonzero(copies.managed & left.copies)
    if len(moved) < FEWEST:
        return
    rows = np.flatnonzero(
        left.idle
        & (np.isin(idle.before, copies.row[moved]) | np.isin(idle.after, copies.row[moved]))
        & evidence.short
    )
    # Nobody waits for what is prefetched beside kernels.
    faults = moved[~evidence.trace.copies.prefetched[copies.row[moved]]]
    covered = union(copies.start[faults], copies.end[faults]) & evidence.domain
    inside = covered & evidence.activity.kernels
    size = int(copies.bytes[moved].sum())
    yield Claim(
        title=f"Unified memory migrates in the loop: {len(moved):,} migrations, "
        f"{size / 1e6:,.1f} MB",
        advice="Prefetch what a kernel needs (cudaMemPrefetchAsync) early, in a stream of its own, "
        "advise where memory belongs (cudaMemAdvise), or copy explicitly from pinned memory.",
        demonstrated_by="h2d_async",
        idle=rows,
        copies=moved,
        extra_ns=inside.total,
        seen=_seen(evidence, faults, inside.total) if inside.total else (),
    )


def _seen(evidence: Evidence, faults: Int64, ns: int) -> tuple[Seen]:
    copies = evidence.copies
    faults = faults[evidence.activity.kernels.measure(copies.start[faults], copies.end[faults]) > 0]
    longest = int(faults[np.argmax(copies.end[faults] - copies.start[faults])])
    return (
        Seen(
            kind="copy",
            text="migrations while kernels ran, which had to wait for the pages",
            name="h2d" if copies.h2d[longest] else "d2h",
            device=evidence.device_id,
            process=None,
            thread=None,
            thread_name=None,
            nvtx=None,
            start_ns=int(copies.start[longest]),
            end_ns=int(copies.end[longest]),
            ns=ns,
            count=len(faults),
        ),
    )


RULE = Rule(order=90, judge=judge)
