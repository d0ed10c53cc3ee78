"""A sleep that the queue hides.

The trace: the thread sleeps while the device works off what was launched: the suspect is innocent.
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
    rung=18,
    title="a sleep that the queue hides",
    shows="no gaps, and a sleep in each step",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["host_work", "slow_loader", "held_up"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(8)
        with _common.gamma(session):
            time.sleep(0.005)
