"""Another thread writes files all the time, and holds nobody up.

The trace: gaps in which the thread that launches computes; the one that writes is innocent.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from typing import TYPE_CHECKING

from workloads.ladders.gallery import _common
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=32,
    title="another thread writes files, and holds nobody up",
    shows="host code in every gap, and fsync beside it",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["host_work"],
    "forbidden": ["file_writes", "held_up", "interpreter_lock", "fresh_host_memory", "slow_loader"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    content = bytes(4 * _common.values(session.parameters, 32))
    over = threading.Event()

    def write() -> None:
        with tempfile.TemporaryFile(buffering=0) as file:
            while not over.is_set():
                file.seek(0)
                file.write(content)
                os.fsync(file.fileno())

    thread = threading.Thread(target=write)
    thread.start()
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(1)
            session.device.synchronize()
        with _common.gamma(session):
            hashlib.sha256(content)  # without the interpreter's lock
    over.set()
    thread.join()
