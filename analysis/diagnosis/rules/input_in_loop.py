"""The loop makes its input while the device waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, located
from analysis.diagnosis.rules.read_back import MOST_BYTES


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims work of the host in gaps that a copy to the device ends, before it is launched."""
    idle, copies = evidence.idle, evidence.copies
    inputs = copies.row[copies.h2d & (copies.bytes > MOST_BYTES)]
    ahead = np.isin(idle.before, inputs) | idle.edge
    if evidence.loop is not None:
        ahead &= evidence.before_first_launch
    rows = np.flatnonzero(evidence.host & ahead & left.idle)
    if len(rows):
        yield Claim(
            title=f"Input is made while the GPU waits: host code {located(evidence, rows)}",
            advice="Let other processes make it ahead of time (a DataLoader with num_workers > 0 "
            "and prefetch), or make it on the GPU.",
            demonstrated_by="h2d_workers",
            idle=rows,
        )


RULE = Rule(order=170, judge=judge, needs=("osrt",))
