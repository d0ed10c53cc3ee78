"""The kernels are so short that the host cannot launch them as fast as they finish."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, located
from analysis.metrics.activity import rows_of_device
from analysis.metrics.attribution import HOST


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims launches, launch latency and host code in short gaps."""
    idle, trace = evidence.idle, evidence.trace
    found = evidence.launching | ((idle.cause == HOST) & evidence.short)
    found |= evidence.queued & evidence.short
    rows = np.flatnonzero(found & evidence.short & left.idle)
    if not len(rows):
        return
    gaps = int((np.diff(idle.began[rows]) != 0).sum()) + 1
    of_device = rows_of_device(trace, trace.kernels, evidence.activity.device)
    kernels = (trace.kernels.end - trace.kernels.start)[of_device]
    size = f", median kernel {np.median(kernels) / 1000:.1f} us" if len(kernels) else ""
    yield Claim(
        title=f"{gaps:,} gaps under 100 us between kernels{size}: the host launches too slowly "
        f"{located(evidence, rows)}",
        advice="Fewer, larger kernels: larger batches, fused operations (torch.compile), or the "
        "whole step as a CUDA graph, which is launched at once.",
        idle=rows,
    )


RULE = Rule(order=150, judge=judge)
