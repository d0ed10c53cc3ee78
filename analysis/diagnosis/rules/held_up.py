"""The feeding thread waits for another thread or process: a lock, a queue, a join."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, called, holders, located, thread_text


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims the waits that have a holder, one claim per holding thread."""
    idle = evidence.idle
    for thread, rows in holders(evidence, np.flatnonzero((idle.holder >= 0) & left.idle)):
        yield Claim(
            title=f"The feeding thread waits {located(evidence, rows)} while "
            f"{thread_text(evidence, thread)} is in {called(evidence, rows)}",
            advice="Let the two share less: a lock that is held for less time, a queue with room, "
            "data of their own.",
            idle=rows,
        )


RULE = Rule(order=80, judge=judge, needs=("osrt",))
