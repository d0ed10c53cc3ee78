"""The profiler itself kept the device idle."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, called
from analysis.intervals import Int64

#: What nsys calls its preparation for each new thread of the program.
NEW_THREAD = "TLS allocation"


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims idle time inside profiler overhead."""
    rows = np.flatnonzero(evidence.overhead & left.idle)
    if len(rows):
        yield Claim(
            title=f"The profiler kept the GPU waiting ({called(evidence, rows)}); without it the "
            "program is faster",
            advice=_advice(evidence, rows),
            idle=rows,
        )


def _advice(evidence: Evidence, rows: Int64) -> str:
    new = evidence.names(frozenset({NEW_THREAD}))[evidence.idle.name[rows]]
    if 2 * evidence.idle.ns[rows][new].sum() > evidence.idle.ns[rows].sum():
        return (
            f"{NEW_THREAD} is the profiler preparing for a new thread: keep threads rather than "
            "start new ones for each piece of work, which costs without a profiler too, or judge "
            "the program by its time without a profiler."
        )
    return (
        "Record fewer steps or fewer things (no --cuda-memory-usage, no backtraces, "
        "--cuda-graph-trace=graph), and judge the program by its time without a profiler."
    )


RULE = Rule(order=0, judge=judge)
