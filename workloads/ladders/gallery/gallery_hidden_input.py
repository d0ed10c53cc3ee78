"""Pinned input for two buffers that takes nearly as long as the kernels.

The trace: the bus is hardly ever idle, and all copies lie beside kernels: the suspect is innocent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.gallery import _common, _double_buffer
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=40,
    title="input that takes nearly as long as the kernels",
    shows="kernels end to end, and copies beside them with pauses",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": [
        "bandwidth",
        "unoverlapped_copy",
        "serial_streams",
        "synchronous_copy",
        "queued_work",
    ],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work, batches = _common.Work(session), _double_buffer.DoubleBuffer(session, 256)
    for step in _common.steps(session, work):
        with _common.beta(session):
            batches.fill(step)
        with _common.alpha(session):
            work.run(2)
            batches.release(step)
