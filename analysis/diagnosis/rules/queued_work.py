"""Launched work waits on the device for an event or a dependency, while nothing runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, where


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims longer gaps whose feeding call had returned before they began."""
    rows = np.flatnonzero(evidence.queued & left.idle)
    if len(rows):
        yield Claim(
            title=f"Launched work waits while nothing runs, in {where(evidence, rows)}",
            advice="Something on the device holds it back: an event of another stream, a host "
            "function in the stream, a copy of another process. Wait only for what is read.",
            idle=rows,
        )


RULE = Rule(order=190, judge=judge)
