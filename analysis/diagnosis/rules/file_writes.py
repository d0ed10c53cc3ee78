"""Files are written, or flushed to disk, while the device waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence
from analysis.diagnosis.rule import Claim, Left, Rule, called, located
from analysis.metrics.attribution import OSRT

#: Calls that put data into files, and those that wait for the disk.
CALLS = frozenset(
    {
        *("write", "writev", "pwrite", "pwrite64", "pwritev", "pwritev64", "fwrite", "fputs"),
        *("fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync", "fflush", "fclose"),
        *("sendfile", "sendfile64", "copy_file_range", "splice"),
    }
)


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims time inside such calls of the feeding thread or of its holder."""
    idle = evidence.idle
    own = (idle.cause == OSRT) & evidence.names(CALLS)[idle.name]
    rows = np.flatnonzero((own | evidence.held_by_name(CALLS)) & left.idle)
    if len(rows):
        yield Claim(
            title=f"Files are written while the GPU waits: {called(evidence, rows)} "
            f"{located(evidence, rows)}",
            advice="Hand the data to another process that writes it, write less often, and call "
            "fsync where it matters (once per checkpoint), not in each step.",
            demonstrated_by="d2h_workers",
            idle=rows,
        )


RULE = Rule(order=30, judge=judge, needs=("osrt",))
