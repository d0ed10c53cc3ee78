"""Pinned host memory is allocated or released in the loop; the driver's lock stops launches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, called, holders, located, thread_text
from analysis.metrics.attribution import CUDA_API

#: Calls that pin or unpin pages, which takes long and holds a lock of the driver.
CALLS = frozenset(
    {
        *("cudaHostAlloc", "cudaMallocHost", "cudaFreeHost"),
        *("cudaHostRegister", "cudaHostUnregister"),
        *("cuMemHostAlloc", "cuMemAllocHost", "cuMemAllocHost_v2", "cuMemFreeHost"),
        *("cuMemHostRegister", "cuMemHostRegister_v2", "cuMemHostUnregister"),
    }
)

_ADVICE = (
    "Pin once, before the loop, and reuse the buffers. A DataLoader with pin_memory=True pins "
    "again whenever batches grow: keep their sizes equal, warm the loader up, and keep references "
    "to as few batches as possible, so that PyTorch's cache of pinned memory has one to give."
)


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims time inside such calls of the feeding thread, or of the thread that holds it up."""
    idle = evidence.idle
    held = evidence.held_by_name(CALLS) & left.idle
    for thread, rows in holders(evidence, np.flatnonzero(held)):
        who = thread_text(evidence, thread)
        yield Claim(
            title=f"Launches wait for the driver's lock while {who} is in {called(evidence, rows)}",
            advice=_ADVICE,
            idle=rows,
        )
    own = (idle.cause == CUDA_API) & evidence.names(CALLS)[idle.name] & left.idle & ~held
    rows = np.flatnonzero(own)
    if len(rows):
        yield Claim(
            title=f"Pinned memory is made or released in the loop: {called(evidence, rows)} "
            f"{located(evidence, rows)}",
            advice=_ADVICE,
            demonstrated_by="d2h_async",
            idle=rows,
        )


RULE = Rule(order=10, judge=judge)
