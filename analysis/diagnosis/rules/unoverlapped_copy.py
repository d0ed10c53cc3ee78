"""Asynchronous copies in the stream of the kernels: one waits for the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.intervals import interval, union

#: Copies of which less than this share is exposed do overlap, in part. One copy that cannot be
#: hidden (the last) in a recording of three steps is a third.
LEAST_EXPOSED = 0.5


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims asynchronous pinned copies that kernels could hide, and do not."""
    copies = evidence.copies
    free = copies.pinned & left.copies
    for direction, of in (("d2h", copies.d2h), ("h2d", copies.h2d)):
        which = np.flatnonzero(free & of)
        length = int((copies.end[which] - copies.start[which]).sum())
        if not length:
            continue
        exposed = evidence.exposed(which).total / length
        yield Claim(
            title=f"Copies that never overlap: {direction} in the stream of the kernels, "
            "which wait for them"
            if exposed >= LEAST_EXPOSED
            else f"Some copies never overlap: {100 * exposed:.1f} % of the {direction} copies, in "
            "the stream of the kernels, which wait for them",
            advice="Copy in a stream of its own: this batch's output, or the next batch's input, "
            "while the kernels run; order the two by events, and tell the allocator "
            "(Tensor.record_stream).",
            demonstrated_by=f"{direction}_streams",
            copies=which,
            most_ns=most_hidden(evidence, direction),
        )


def most_hidden(evidence: Evidence, direction: str, *, at_edges: bool = False) -> int:
    """How much more of a direction's copies kernels could hide at most, ns.

    Args:
        evidence: Of the run.
        direction: "h2d" or "d2h".
        at_edges: Count also the kernels that no copy of the recording can run beside: what reads
            the last input, or makes the first output.
    """
    copies = evidence.copies
    of = copies.d2h if direction == "d2h" else copies.h2d
    covered = union(copies.start[of], copies.end[of]) & evidence.domain
    kernels = evidence.activity.kernels & evidence.domain
    if not (len(covered) and len(kernels)):
        return 0
    if not at_edges:
        (first, last), (begin, end) = covered.hull, kernels.hull
        kernels &= interval(begin, last) if direction == "h2d" else interval(first, end)
    return max(0, min(covered.total, kernels.total) - (covered & kernels).total)


RULE = Rule(order=130, judge=judge)
