"""The host does something else while the device waits: what no other rule explains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, called
from analysis.grouping import values_of
from analysis.metrics.attribution import UNKNOWN
from analysis.words import at


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims the rest of the idle time that has a feeding thread, by where that thread was."""
    idle = evidence.idle
    rest = left.idle & (idle.cause != UNKNOWN) & ~evidence.queued
    for place in values_of(evidence.place[rest]).tolist():
        rows = np.flatnonzero(rest & (evidence.place == place))
        what = called(evidence, rows)
        if not evidence.trace.provenance.osrt:
            what += " (or OS calls, which were not traced)"
        yield Claim(
            title=f"The GPU waits for the host: {what} {at(evidence.places[place])}",
            advice="Do it less often, in another thread or process, or behind the launches of the "
            "next step, so that the GPU has work meanwhile.",
            idle=rows,
        )


RULE = Rule(order=200, judge=judge)
