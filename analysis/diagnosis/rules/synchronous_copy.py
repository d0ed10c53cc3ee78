"""Somebody waits for each copy, although its memory is pinned and nobody would have to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence, Mask
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.diagnosis.rules.read_back import LONGEST_GAP_NS, MOST_BYTES
from analysis.grouping import values_of

#: Fewer than this share are no habit: somebody waits for the last copy of a recording, which in one
#: of three steps is a third.
LEAST_WAITED = 0.5


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims pinned copies that their caller waits for before it launches anything else."""
    idle, copies = evidence.idle, evidence.copies
    large = copies.pinned & (copies.bytes > MOST_BYTES) & left.copies
    waited = large & (copies.blocking_call | _waited_for(evidence))
    for direction, of in (("d2h", copies.d2h), ("h2d", copies.h2d)):
        which = np.flatnonzero(waited & of)
        if not len(which) or len(which) < LEAST_WAITED * (large & of).sum():
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


def _waited_for(evidence: Evidence) -> Mask:
    """Whether the copying thread synchronised right behind the call, before any other launch."""
    copies, api = evidence.copies, evidence.trace.api_calls
    found = np.zeros(len(copies), bool)
    known = np.flatnonzero(copies.call >= 0)
    thread = api.thread[copies.call[known]]
    for one in values_of(thread).tolist():
        mine = known[thread == one]
        layer = evidence.timelines.thread(one).cuda
        synchronises = evidence.timelines.synchronises[layer.name]
        # The next call of the thread that matters, not nested in the copying one.
        keep = synchronises | evidence.shared.launching[layer.row]
        start, end, waits = layer.start[keep], layer.end[keep], synchronises[keep]
        after = np.searchsorted(start, api.end[copies.call[mine]])
        mine, after = mine[after < len(start)], after[after < len(start)]
        copied = copies.end[mine]
        found[mine] = waits[after] & (start[after] < copied) & (copied <= end[after])
    return found


RULE = Rule(order=100, judge=judge)
