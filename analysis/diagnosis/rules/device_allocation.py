"""Device memory is allocated or released in the loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, called, located
from analysis.metrics.attribution import CUDA_API

#: Calls that allocate or release; cudaFree waits for the device on top.
CALLS = frozenset(
    {
        *("cudaMalloc", "cudaFree", "cudaMallocPitch", "cudaMalloc3D", "cudaMallocManaged"),
        *("cudaMallocAsync", "cudaFreeAsync", "cudaMallocFromPoolAsync", "cudaMallocArray"),
        *("cudaFreeArray", "cuMemAlloc", "cuMemAlloc_v2", "cuMemFree", "cuMemFree_v2"),
        *("cuMemAllocAsync", "cuMemFreeAsync", "cuMemAllocManaged", "cuMemAllocPitch_v2"),
        *("cuMemCreate", "cuMemRelease", "cuMemMap", "cuMemUnmap", "cuMemSetAccess"),
    }
)


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims time inside such calls of the feeding thread or of its holder."""
    idle = evidence.idle
    own = (idle.cause == CUDA_API) & evidence.names(CALLS)[idle.name]
    rows = np.flatnonzero((own | evidence.held_by_name(CALLS)) & left.idle)
    if len(rows):
        yield Claim(
            title=f"Device memory is allocated or released in the loop: {called(evidence, rows)} "
            f"{located(evidence, rows)}",
            advice="Allocate once, before the loop, and write into the same buffers; or use a "
            "caching allocator (PyTorch's, cudaMallocAsync with a release threshold) and do not "
            "empty its cache in the loop.",
            demonstrated_by="h2d_events",
            idle=rows,
        )


RULE = Rule(order=20, judge=judge)
