"""The host does something else while the device waits: what no other rule explains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import MIN_SHARE, Claim, Left, Rule, called, located
from analysis.grouping import sums, values_of
from analysis.intervals import Int64
from analysis.metrics.attribution import UNKNOWN

#: What is spread over many places is to some extent the overhead of any loop, and nobody's remedy:
#: a tenth of the steady state is worth a line.
LEAST_SPREAD = 0.1

_ADVICE = (
    "Do it less often, in another thread or process, or behind the launches of the next step, so "
    "that the GPU has work meanwhile."
)


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims the rest of the idle time that has a feeding thread, by where that thread was.

    What is too little for a finding, here or for the rules before, is one claim together.
    """
    idle = evidence.idle
    of_host = (idle.cause != UNKNOWN) & ~evidence.queued & ~evidence.overhead
    rest = np.flatnonzero(left.idle & of_host)
    by_place = sums(evidence.place[rest], _steady(evidence, rest), len(evidence.places))
    large = by_place >= max(MIN_SHARE * evidence.steady.total, 1)
    for place in np.flatnonzero(large).tolist():
        rows = rest[evidence.place[rest] == place]
        yield Claim(
            title=f"The GPU waits for the host: {_what(evidence, rows)} {located(evidence, rows)}",
            advice=_ADVICE,
            idle=rows,
        )
    little = left.small & of_host
    little[rest[~large[evidence.place[rest]]]] = True
    rows = np.flatnonzero(little)
    if _steady(evidence, rows).sum() >= max(LEAST_SPREAD * evidence.steady.total, 1):
        count = len(values_of(evidence.place[rows]))
        yield Claim(
            title=f"The GPU waits for the host in {count} places: {_what(evidence, rows)}, most of "
            f"it {located(evidence, rows)}",
            advice=_ADVICE,
            idle=rows,
        )


def _steady(evidence: Evidence, rows: Int64) -> Int64:
    return np.where(evidence.idle.steady[rows], evidence.idle.ns[rows], 0)


def _what(evidence: Evidence, rows: Int64) -> str:
    unknown = "" if evidence.trace.provenance.osrt else " (or OS calls, which were not traced)"
    return called(evidence, rows) + unknown


RULE = Rule(order=200, judge=judge)
