"""Another thread holds the interpreter's lock.

The trace: gaps in which the thread asks for the interpreter's lock; another one is in beta.
"""

from __future__ import annotations

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
    rung=20,
    title="another thread holds the interpreter's lock",
    shows="waits of five milliseconds, and a thread that never lets go",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["interpreter_lock"],
    "forbidden": ["slow_loader", "input_in_loop", "output_in_loop", "pinned_allocation"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    numbers = list(range(_common.values(session.parameters, 4)))[::-1] * 2
    begun, over, done = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        while True:
            begun.wait()
            begun.clear()
            if over.is_set():
                return
            with _common.beta(session):
                sorted(numbers)  # one call that keeps the interpreter's lock
            done.set()

    thread = threading.Thread(target=hold)
    thread.start()
    for _ in _common.steps(session, work):
        done.clear()
        begun.set()
        with _common.alpha(session):
            while not done.is_set():
                work.run(1)
                session.device.synchronize()
    over.set()
    begun.set()
    thread.join()
