"""Another thread launches, and computes in between; the main one waits for it.

The trace: host code in every gap; the thread that waits all the time launches nothing.
"""

from __future__ import annotations

import queue
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
    rung=34,
    title="a thread that launches, and one that waits for it",
    shows="host code of the thread that launches",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["host_work"],
    "forbidden": ["held_up", "slow_loader", "interpreter_lock", "input_in_loop", "output_in_loop"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    todo: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    done = threading.Semaphore(0)

    def launch() -> None:
        while todo.get() is not None:
            with _common.gamma(session):
                _common.spin(10)
            with _common.alpha(session):
                work.run(1)
                session.device.synchronize()
            done.release()

    thread = threading.Thread(target=launch)
    thread.start()
    for step in _common.steps(session, work):
        todo.put(step)
        done.acquire()
    todo.put(None)
    thread.join()
