"""The loop waits for whoever makes its input: other processes, or nobody that the trace names."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, located
from analysis.diagnosis.rules.interpreter_lock import waits as lock_waits


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims waits before a step's first launch that no thread of the process holds up."""
    idle, threads = evidence.idle, evidence.trace.threads
    holders = evidence.shared.chains.holders
    # With the process of the feeding thread itself as the holder it is no loader's matter.
    process = np.array([threads[h.thread].process for h in holders] + [-1], np.int64)
    mine = np.array([t.process for t in threads] + [-2], np.int64)[idle.thread]
    inside = (idle.holder >= 0) & (process[idle.holder] == mine)
    first = evidence.before_first_launch
    if evidence.loop is None:
        copies = evidence.copies
        first = np.isin(idle.before, copies.row[copies.h2d])
    found = evidence.waiting & first & ~inside & ~lock_waits(evidence) & left.idle
    rows = np.flatnonzero(found)
    if len(rows):
        yield Claim(
            title=f"The input comes too late: the loop waits for it {located(evidence, rows)}",
            advice="More workers, less work for each (decode and augment on the GPU, smaller "
            "types over the bus), or input that is prepared beforehand.",
            demonstrated_by="augment_gpu",
            idle=rows,
        )


RULE = Rule(order=70, judge=judge, needs=("osrt",))
