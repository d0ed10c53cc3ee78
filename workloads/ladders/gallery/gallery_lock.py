"""Another thread holds a lock.

The trace: gaps in which the thread waits for a lock; another thread, which has it, is in beta.
"""

from __future__ import annotations

import hashlib
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
    rung=19,
    title="another thread holds a lock",
    shows="waits of the feeding thread, and a thread that computes meanwhile",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["held_up"],
    "forbidden": ["slow_loader", "input_in_loop", "output_in_loop", "interpreter_lock"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    content = bytes(4 * _common.values(session.parameters, 32))
    lock, begun, over = threading.Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        while True:
            begun.wait()
            begun.clear()
            if over.is_set():
                return
            with lock, _common.beta(session):
                held.set()
                hashlib.sha256(content)  # without the interpreter's lock

    held = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(1)
            session.device.synchronize()
        held.clear()
        begun.set()
        held.wait()
        with _common.gamma(session), lock:
            pass
    over.set()
    begun.set()
    thread.join()
