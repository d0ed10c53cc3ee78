"""The thread sleeps between launches.

The trace: one gap per step, in which the thread sleeps.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from workloads.ladders.gallery import _common
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=17,
    title="the thread sleeps between launches",
    shows="a sleep in every gap",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["host_work"],
    "forbidden": ["slow_loader", "held_up", "interpreter_lock", "input_in_loop", "output_in_loop"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(1)
            session.device.synchronize()
        with _common.gamma(session):
            time.sleep(0.02)
