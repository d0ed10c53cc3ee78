"""The loop waits for the device in each step, and the device then waits for the loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, located
from analysis.diagnosis.rules.read_back import LONGEST_GAP_NS
from analysis.metrics.attribution import CUDA_API


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims short gaps that began while the feeding thread synchronised, and such calls."""
    idle = evidence.idle
    inside = (idle.cause == CUDA_API) & evidence.timelines.synchronises[idle.name]
    rows = np.flatnonzero(
        ((evidence.drained & (idle.gap_ns < LONGEST_GAP_NS)) | inside) & left.idle
    )
    if len(rows):
        yield Claim(
            title=f"The loop waits for the GPU to finish, then the GPU for the loop, "
            f"{located(evidence, rows)}",
            advice="Do not synchronise in the loop: the order within a stream is enough for "
            "kernels, an event for data that the host reads. Time steps with events as well.",
            idle=rows,
        )


RULE = Rule(order=140, judge=judge)
