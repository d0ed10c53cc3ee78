"""The loop processes its output while the device waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, located
from analysis.diagnosis.rules.input_in_loop import before_input, behind_output


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims work of the host behind a copy to the host, before the next step begins."""
    behind = behind_output(evidence) & ~evidence.before_first_launch
    if evidence.loop is None:
        behind &= ~before_input(evidence)  # or it may be input that is made
    rows = np.flatnonzero(evidence.host & behind & left.idle)
    if len(rows):
        yield Claim(
            title=f"Output is processed while the GPU waits: host code {located(evidence, rows)}",
            advice="Hand the output to other processes and begin the next step; threads help only "
            "where the work releases the interpreter's lock.",
            demonstrated_by="d2h_workers",
            idle=rows,
        )


RULE = Rule(order=160, judge=judge, needs=("osrt",))
