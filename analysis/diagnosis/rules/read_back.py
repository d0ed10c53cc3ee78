"""A few bytes are read back again and again; each time the device runs dry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, located

#: What a program reads back to look at: a loss, a flag, a count. Results are larger.
MOST_BYTES = 4_096
#: After a read-back the device waits for the next launch, some 10 us. What lasts this long is work
#: of the host's own, which has rules of its own.
LONGEST_GAP_NS = 1_000_000


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims the gaps around small copies to the host that somebody waited for."""
    idle, copies = evidence.idle, evidence.copies
    small = copies.d2h & (copies.bytes <= MOST_BYTES) & left.copies
    waited = evidence.drained & (idle.gap_ns < LONGEST_GAP_NS)
    after = waited & np.isin(idle.after, copies.row[small])
    before = np.isin(idle.before, copies.row[small]) & (idle.gap_ns < LONGEST_GAP_NS)
    rows = np.flatnonzero((after | before) & left.idle)
    if not (after & left.idle).any():
        return
    read = np.flatnonzero(small)
    yield Claim(
        title=f"{len(read):,} small values are read back, and each time the GPU runs dry, "
        f"{located(evidence, rows)}",
        advice="Keep the values on the GPU (add losses up there, use torch.where for decisions), "
        "or read them back once every many steps, asynchronously, into pinned memory.",
        idle=rows,
        copies=read,
    )


RULE = Rule(order=60, judge=judge)
