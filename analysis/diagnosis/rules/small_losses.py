"""Something is lost, but nowhere enough for a finding, or in a way that no other rule knows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import MIN_SHARE, Claim, Left, Rule
from analysis.metrics.attribution import UNKNOWN


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Says so where the verdict names a loss and no rule has found one."""
    idle, steady = evidence.idle, evidence.steady
    if left.found or evidence.verdict.name in ("compute-bound", "not-enough-data"):
        return
    rows = np.flatnonzero(idle.steady & (idle.cause != UNKNOWN) & ~evidence.overhead)
    copies = np.arange(len(evidence.copies))
    lost = int(idle.ns[rows].sum()) + (evidence.exposed(copies) & steady).total
    if lost >= max(MIN_SHARE * steady.total, 1):
        yield Claim(
            title=f"{100 * lost / steady.total:.1f} % of the steady state is lost in many small "
            "parts, or in ways that no other rule knows",
            advice="No single change wins much. Begin with the largest of what is listed here, or "
            "make each step larger, so that all of them weigh less.",
            idle=rows,
            copies=copies,
        )


RULE = Rule(order=290, judge=judge)
