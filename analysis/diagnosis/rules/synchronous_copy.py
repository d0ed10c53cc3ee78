"""Somebody waits for each copy, although its memory is pinned and nobody would have to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.diagnosis.rules.read_back import LONGEST_GAP_NS, MOST_BYTES


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims pinned copies that their caller waits for before it launches anything else."""
    idle, copies = evidence.idle, evidence.copies
    large = copies.pinned & (copies.bytes > MOST_BYTES) & left.copies
    waited = np.zeros(len(copies), bool)
    for copy in np.flatnonzero(large).tolist():
        waited[copy] = copies.blocking_call[copy] or _waited_for(evidence, copy)
    for direction, of in (("d2h", copies.d2h), ("h2d", copies.h2d)):
        which = np.flatnonzero(waited & of)
        if not len(which):
            continue
        gaps = np.isin(idle.after, copies.row[which]) & evidence.drained
        gaps &= (idle.gap_ns < LONGEST_GAP_NS) & left.idle
        to = "from the GPU" if direction == "d2h" else "to the GPU"
        yield Claim(
            title=f"The loop waits for each copy {to}, though the memory is pinned",
            advice="Copy with non_blocking=True (cudaMemcpyAsync), and wait for an event where "
            "the data is read, not behind the copy.",
            demonstrated_by=f"{direction}_async",
            idle=np.flatnonzero(gaps),
            copies=which,
        )


def _waited_for(evidence: Evidence, copy: int) -> bool:
    """Whether the copying thread synchronised right behind the call, before any other launch."""
    copies, api = evidence.copies, evidence.trace.api_calls
    call = int(copies.call[copy])
    if call < 0:
        return False
    timeline = evidence.timelines.thread(int(api.thread[call]))
    rows = timeline.api_rows
    after = rows[np.searchsorted(api.start[rows], api.end[call]) :][:1]
    if not len(after) or not evidence.timelines.synchronises[api.name[after[0]]]:
        return False
    return bool(api.start[after[0]] < copies.end[copy] <= api.end[after[0]])


RULE = Rule(order=100, judge=judge)
