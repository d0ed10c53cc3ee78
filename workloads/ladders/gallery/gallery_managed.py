"""Unified memory that the host writes and the device reads.

The trace: pages move to the host when it writes, to the device when a kernel reads.
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
    rung=25,
    title="unified memory that the host writes and the device reads",
    shows="migrations in each step",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound", "copy-bound", "compute-bound"],
    "findings": ["unified_memory"],
    "forbidden": ["pageable_copy", "unoverlapped_copy", "read_back"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    host, tensor = _cudart.managed(session, _common.values(session.parameters, 4))
    for step in _common.steps(session, work):
        with _common.gamma(session):
            host[:] = step
        with _common.alpha(session):
            tensor.add_(1)
            work.run(1)
            session.device.synchronize()
