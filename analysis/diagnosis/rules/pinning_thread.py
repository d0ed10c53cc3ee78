"""The loop waits for a batch that the loader's one pinning thread has in hand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, holders, located, thread_text

#: What PyTorch calls the thread that a DataLoader with pin_memory=True has.
NAME = "pt_data_pin"


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims waits of the feeding thread that such a thread holds up."""
    idle = evidence.idle
    for thread, rows in holders(evidence, np.flatnonzero((idle.holder >= 0) & left.idle)):
        if evidence.trace.threads[thread].name == NAME:
            yield Claim(
                title=f"The loop waits {located(evidence, rows)} for a batch that "
                f"{thread_text(evidence, thread)} has in hand",
                advice="With pin_memory=True one thread of the DataLoader maps each batch, copies "
                "it into pinned memory and unmaps it. Let the workers write into buffers that are "
                "pinned once and used again, or hand over fewer bytes (uint8, converted on the "
                "GPU).",
                demonstrated_by="h2d_pool",
                idle=rows,
            )


RULE = Rule(order=75, judge=judge, needs=("osrt",))
