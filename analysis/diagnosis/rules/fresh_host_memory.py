"""Each step uses host memory that it has just been given, and gives it back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence, Mask
from analysis.diagnosis.rule import Claim, Left, Rule, called, located
from analysis.grouping import values_of
from analysis.intervals import Int64
from analysis.metrics.attribution import HOST, OSRT

#: Calls that make or release mappings, or fill shared memory with pages.
CALLS = frozenset(
    {
        *("munmap", "mmap", "mmap64", "mremap", "madvise", "posix_madvise", "brk", "sbrk"),
        *("posix_fallocate", "posix_fallocate64", "fallocate", "fallocate64"),
        *("ftruncate", "ftruncate64", "shm_open", "shm_unlink", "mlock", "munlock"),
    }
)

#: A copy into pageable memory this slow, in 10^9 bytes per second, fills pages that the kernel has
#: to make first: one core makes and zeroes 1 to 2 GB of 4 kB pages in a second, while even
#: PCIe 3.0 x8 carries 6 GB/s. The lab's recordings show 1.2 to 1.5 (fresh) and 12.6 (reused).
FRESH_GB_PER_S = 4.0
#: What the driver's staged copy reaches into pages that are there (d2h_pool: 12.6 GB/s).
REUSED_GB_PER_S = 12.0
#: Smaller copies show latency, not bandwidth; and glibc maps memory of its own for no less.
LEAST_BYTES = 1_000_000


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims such calls, host code beside pageable copies, and what faults cost the copies."""
    idle, copies = evidence.idle, evidence.copies
    large = copies.pageable & (copies.bytes >= LEAST_BYTES) & left.copies
    length = np.maximum(copies.end - copies.start, 1)
    slow = large & copies.d2h & (copies.bytes < FRESH_GB_PER_S * length)
    own = (idle.cause == OSRT) & evidence.names(CALLS)[idle.name] & (idle.holder < 0)
    # A holder that is in such a call while the interpreter's lock is wanted has a rule of its own.
    beside = (idle.cause == HOST) & _beside(evidence, np.flatnonzero(large))
    rows = np.flatnonzero((own | beside) & left.idle)
    slow_rows = np.flatnonzero(slow)
    if not len(rows) and not len(slow_rows):
        return
    share = 0.0
    if len(slow_rows):
        taken = int(length[slow_rows].sum())
        share = 1 - min(1.0, float(copies.bytes[slow_rows].sum()) / REUSED_GB_PER_S / taken)
    # Behind results it is the output's memory, else the input's; without input it can only be so.
    behind = np.isin(idle.after[rows], copies.row[copies.d2h])
    of_output = 2 * int(idle.ns[rows][behind].sum()) > int(idle.ns[rows].sum())
    to_host = bool(len(slow_rows)) or of_output or not copies.h2d.any()
    what = (
        f"{called(evidence, rows)} {located(evidence, rows)}"
        if len(rows)
        else "copies at the speed of page faults"
    )
    yield Claim(
        title=f"Fresh host memory in each step: {what}",
        advice="Copy into buffers that are allocated once and used again (a pool of shared-memory "
        "tensors, where other processes read them): new pages are made and zeroed one by one "
        "when they are first written."
        if to_host
        else "Release the batch elsewhere: with pin_memory=True the DataLoader's pinning thread "
        "unmaps the workers' shared memory, not the loop; or copy out of buffers that are "
        "allocated once.",
        demonstrated_by="d2h_pool" if to_host else "h2d_async",
        idle=rows,
        copies=slow_rows,
        copy_share=share,
        keeps_copies=True,
    )


def _beside(evidence: Evidence, copies: Int64) -> Mask:
    """Idle rows in the very range, within a step, from which some copies are called."""
    idle, table = evidence.idle, evidence.copies
    found = np.zeros(len(idle), bool)
    api = evidence.trace.api_calls
    calls = table.call[copies]
    calls = calls[calls >= 0]
    phase = evidence.innermost_is_phase(idle.path)
    for thread in values_of(api.thread[calls]).tolist():
        mine = calls[api.thread[calls] == thread]
        paths = values_of(evidence.timelines.thread(thread).path_at(api.start[mine]))
        found |= (idle.thread == thread) & np.isin(idle.path, paths) & phase
    return found


RULE = Rule(order=40, judge=judge, needs=("osrt",))
