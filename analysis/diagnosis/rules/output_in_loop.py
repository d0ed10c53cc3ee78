"""The loop processes its output while the device waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, located
from analysis.diagnosis.rules.read_back import MOST_BYTES


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims work of the host behind a copy to the host, before the next step begins."""
    idle, copies = evidence.idle, evidence.copies
    results = copies.row[copies.d2h & (copies.bytes > MOST_BYTES)]
    behind = np.isin(idle.after, results)
    rows = np.flatnonzero(evidence.host & behind & ~evidence.before_first_launch & left.idle)
    if len(rows):
        yield Claim(
            title=f"Output is processed while the GPU waits: host code {located(evidence, rows)}",
            advice="Hand the output to other processes and begin the next step; threads help only "
            "where the work releases the interpreter's lock.",
            demonstrated_by="d2h_workers",
            idle=rows,
        )


RULE = Rule(order=160, judge=judge, needs=("osrt",))
