"""Copies from or into pageable memory: slow, and synchronous whatever they are called by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.diagnosis.rules.fresh_host_memory import (
    FRESH_GB_PER_S,
    LEAST_BYTES,
    REUSED_GB_PER_S,
)
from analysis.diagnosis.rules.read_back import LONGEST_GAP_NS


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims what pageable copies take longer than pinned ones would."""
    idle, copies = evidence.idle, evidence.copies
    rates, origin = evidence.pinned_rates()
    osrt = evidence.trace.provenance.osrt
    for direction, of in (("d2h", copies.d2h), ("h2d", copies.h2d)):
        which = np.flatnonzero(copies.pageable & of & left.copies)
        if not len(which):
            continue
        size, length = copies.bytes[which], copies.end[which] - copies.start[which]
        took = float(max(length.sum(), 1))
        kept = length.astype(float)
        if osrt and direction == "d2h":
            # What page faults cost belongs to fresh_host_memory.
            slow = (size < FRESH_GB_PER_S * length) & (size >= LEAST_BYTES)
            kept[slow] = np.minimum(kept[slow], size[slow] / REUSED_GB_PER_S)
        pinned = size.sum() / rates[direction] if direction in rates else 0.0
        share = max(0.0, kept.sum() - pinned) / took
        known = (
            f"Pinned copies reach {rates[direction]:.1f} GB/s ({origin[direction]})."
            if direction in rates
            else "The trace has no pinned copy to compare with (--pinned-gbps gives the rate), so "
            "the cost is that of the whole copy."
        )
        api = evidence.trace.api_calls
        is_async = copies.call[which] >= 0
        is_async &= ~copies.blocking_call[which]
        kind = "Asynchronous" if len(api) and is_async.all() else "Blocking"
        gaps = np.isin(idle.after, copies.row[which]) & evidence.drained & left.idle
        gaps &= (idle.gap_ns < LONGEST_GAP_NS) & ~evidence.host
        yield Claim(
            title=f"{kind} {direction} copies {'into' if direction == 'd2h' else 'from'} pageable "
            "memory: staged, and the caller waits",
            advice=f"{known} Pin the memory: pin_memory=True for a DataLoader, "
            "torch.empty(..., pin_memory=True) or cudaHostRegister (for shared memory) for buffers "
            "that are allocated once; then copy with non_blocking=True.",
            demonstrated_by=f"{direction}_async",
            idle=np.flatnonzero(gaps),
            copies=which,
            copy_share=share,
        )


RULE = Rule(order=110, judge=judge)
