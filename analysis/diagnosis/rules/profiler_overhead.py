"""The profiler itself kept the device idle."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims idle time inside profiler overhead."""
    rows = np.flatnonzero(evidence.overhead & left.idle)
    if len(rows):
        yield Claim(
            title="The profiler kept the GPU waiting; without it the program is faster",
            advice="Record fewer steps or fewer things (no --cuda-memory-usage, no backtraces, "
            "--cuda-graph-trace=graph), and judge the program by its time without a profiler.",
            idle=rows,
        )


RULE = Rule(order=0, judge=judge)
