"""Copies have a stream of their own, and yet wait for kernels, or kernels for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule
from analysis.diagnosis.rules.unoverlapped_copy import LEAST_EXPOSED, most_hidden


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims asynchronous pinned copies in streams without kernels that nothing hides."""
    idle, copies = evidence.idle, evidence.copies
    free = copies.pinned & left.copies & ~np.isin(copies.stream, evidence.kernel_streams)
    long_queued = evidence.queued & ~evidence.short & left.idle
    for direction, of in (("d2h", copies.d2h), ("h2d", copies.h2d)):
        which = np.flatnonzero(free & of)
        length = int((copies.end[which] - copies.start[which]).sum())
        if not length:
            continue
        exposed = evidence.exposed(which).total / length
        gaps = long_queued & (
            np.isin(idle.after, copies.row[which]) | np.isin(idle.before, copies.row[which])
        )
        yield Claim(
            title=f"The {direction} copies have a stream of their own and still never run beside "
            "kernels: the streams wait for each other"
            if exposed >= LEAST_EXPOSED
            else f"The {direction} copies have a stream of their own, and for "
            f"{100 * exposed:.1f} % of their time no kernel runs beside them",
            advice="Let a stream wait for the event behind what it reads (cudaStreamWaitEvent on "
            "the copy of this batch), not for all that is in the other one, and have two buffers, "
            "so that the next copy does not wait for the kernels that read the last.",
            demonstrated_by="h2d_events" if direction == "h2d" else "d2h_streams",
            idle=np.flatnonzero(gaps),
            copies=which,
            most_ns=most_hidden(evidence, direction),
        )


RULE = Rule(order=120, judge=judge)
