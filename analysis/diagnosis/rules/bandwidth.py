"""The bus is busy for longer than the kernels run: the copies cannot all be hidden."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.diagnosis.rules.unoverlapped_copy import most_hidden


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims the exposed time of pinned copies that no kernel is there to hide."""
    copies = evidence.copies
    for direction, of in (("d2h", copies.d2h), ("h2d", copies.h2d)):
        which = np.flatnonzero(copies.pinned & of & left.copies)
        # What kernels could hide is for the rules that come later.
        over = evidence.exposed(which).total - most_hidden(evidence, direction, at_edges=True)
        if over <= 0:
            continue
        size = int(copies.bytes[which].sum())
        length = int((copies.end[which] - copies.start[which]).sum())
        yield Claim(
            title=f"The {direction} copies take longer than the kernels: {size / 1e6:,.1f} MB at "
            f"{size / length:.1f} GB/s",
            advice="Move fewer bytes: smaller types (uint8, float16) that the GPU converts, and "
            + (
                "only the results that are needed (an argmax instead of all scores)."
                if direction == "d2h"
                else "samples that it cuts, scales or augments itself."
            ),
            demonstrated_by="d2h_argmax" if direction == "d2h" else "h2d_bytes",
            copies=which,
            keeps_copies=True,
            most_ns=over,
        )


RULE = Rule(order=115, judge=judge)
