"""The feeding thread waits for the interpreter's lock, which another thread holds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analysis.diagnosis.evidence import Evidence, Mask
from analysis.diagnosis.rule import Claim, Left, Rule, called, holders, located, thread_text
from analysis.diagnosis.rules.fresh_host_memory import CALLS as MEMORY_CALLS
from analysis.diagnosis.rules.pinning_thread import NAME as PINNING_THREAD
from analysis.metrics.attribution import OSRT

#: CPython asks for its lock in waits of 5 ms (sys.getswitchinterval); a wait of another kind has
#: no such limit. Half as much again allows for the time to wake up.
LONGEST_WAIT_NS = 7_500_000
CALLS = frozenset({"pthread_cond_timedwait", "pthread_cond_clockwait"})


def judge(evidence: Evidence, left: Left) -> Iterator[Claim]:
    """Claims such waits, one claim per thread that holds the lock."""
    for thread, rows in holders(evidence, np.flatnonzero(waits(evidence) & left.idle)):
        doing = called(evidence, rows)
        longest = evidence.holder(int(rows[np.argmax(evidence.idle.ns[rows])]))
        in_memory = longest is not None and longest.name in MEMORY_CALLS
        copied = evidence.copies.bytes[evidence.copies.d2h & evidence.copies.pageable].sum()
        yield Claim(
            title=f"{thread_text(evidence, thread)} holds the interpreter's lock in {doing} while "
            f"the feeding thread wants it {located(evidence, rows)}",
            advice="That call keeps the lock for its whole duration. "
            + (
                "Let it have less memory to make and release: buffers that are allocated once and "
                "used again."
                if in_memory
                else "Move that work to another process, or into code that releases the lock."
            ),
            demonstrated_by=_remedy(evidence, thread, to_host=bool(copied)) if in_memory else None,
            idle=rows,
        )


def _remedy(evidence: Evidence, thread: int, *, to_host: bool) -> str | None:
    """The rung without the memory that a thread makes and releases."""
    if evidence.trace.threads[thread].name == PINNING_THREAD:
        return "h2d_pool"
    return "d2h_pool" if to_host else None


def waits(evidence: Evidence) -> Mask:
    """Idle rows that are waits for the interpreter's lock, with a holder in the same process."""
    idle, threads = evidence.idle, evidence.trace.threads
    os_calls = evidence.trace.os_calls
    found: Mask = (idle.cause == OSRT) & evidence.names(CALLS)[idle.name] & (idle.holder >= 0)
    found &= idle.os_call >= 0
    rows = np.flatnonzero(found)
    length = os_calls.end[idle.os_call[rows]] - os_calls.start[idle.os_call[rows]]
    process = np.array([t.process for t in threads] + [-1], np.int64)
    of_holder = np.array([h.thread for h in evidence.shared.chains.holders] + [-1], np.int64)
    same = process[of_holder[idle.holder[rows]]] == process[idle.thread[rows]]
    found[rows] = (length <= LONGEST_WAIT_NS) & same
    return found


RULE = Rule(order=50, judge=judge, needs=("osrt",))
