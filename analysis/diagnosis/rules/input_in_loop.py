"""The loop makes its input while the device waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence, Mask
from analysis.diagnosis.rule import Claim, Left, Rule, located
from analysis.diagnosis.rules.read_back import MOST_BYTES


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims work of the host before a step's first launch, in gaps that a copy to the device ends.

    Without steps a gap from a copy to the host to a copy to the device may be either's.
    """
    idle = evidence.idle
    if evidence.loop is not None:
        ahead = (before_input(evidence) | idle.edge) & evidence.before_first_launch
    else:
        ahead = before_input(evidence) & ~behind_output(evidence)
    rows = np.flatnonzero(evidence.host & ahead & left.idle)
    if len(rows):
        yield Claim(
            title=f"Input is made while the GPU waits: host code {located(evidence, rows)}",
            advice="Let other processes make it ahead of time (a DataLoader with num_workers > 0 "
            "and prefetch), or make it on the GPU.",
            demonstrated_by="h2d_workers",
            idle=rows,
        )


def before_input(evidence: Evidence) -> Mask:
    """Idle rows in gaps that a copy to the device ends."""
    copies = evidence.copies
    inputs = copies.row[copies.h2d & (copies.bytes > MOST_BYTES)]
    mask: Mask = np.isin(evidence.idle.before, inputs)
    return mask


def behind_output(evidence: Evidence) -> Mask:
    """Idle rows in gaps that begin behind a copy to the host."""
    copies = evidence.copies
    results = copies.row[copies.d2h & (copies.bytes > MOST_BYTES)]
    mask: Mask = np.isin(evidence.idle.after, results)
    return mask


RULE = Rule(order=170, judge=judge, needs=("osrt",))
