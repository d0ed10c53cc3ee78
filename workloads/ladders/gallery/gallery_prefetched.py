"""Unified memory that is moved ahead of time, beside kernels.

The trace: migrations in each step that the program asked for, and no kernel that waits for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.gallery import _common, _cudart
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=33,
    title="unified memory that is moved ahead of time",
    shows="migrations that were asked for, beside kernels",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["unified_memory", "unoverlapped_copy", "host_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    host, _ = _cudart.managed(session, _common.values(session.parameters, 32))
    moving = device.stream()
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            work.run(6)
        with _common.beta(session), device.use(moving):
            _cudart.prefetch(session, host, to_device=True)
            _cudart.prefetch(session, host, to_device=False)
