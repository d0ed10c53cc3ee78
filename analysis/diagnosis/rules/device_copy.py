"""Copies within a GPU's memory or between GPUs, with no kernel beside them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.trace import COPY_DIRECTIONS

_KINDS = {
    "d2d": (
        "Copies within the GPU's memory",
        "Write results where they are needed (out=, views into one buffer) instead of copying them "
        "there.",
    ),
    "p2p": (
        "Copies between GPUs",
        "Copy in a stream of its own while kernels run that do not need it, in pieces if the "
        "kernels need all of it, and order the two by events.",
    ),
    "other": (
        "Copies within the host's memory",
        "Let the host copy, or a stream of its own, and order the two by events.",
    ),
}


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims such copies."""
    copies = evidence.copies
    direction = evidence.trace.copies.direction[copies.row]
    for name, (what, advice) in _KINDS.items():
        of = direction == COPY_DIRECTIONS.index(name)
        which = np.flatnonzero(of & ~copies.managed & left.copies)
        if len(which):
            size = int(copies.bytes[which].sum())
            yield Claim(
                title=f"{what}, with no kernel beside them: {size / 1e6:,.1f} MB",
                advice=advice,
                copies=which,
            )


RULE = Rule(order=125, judge=judge)
