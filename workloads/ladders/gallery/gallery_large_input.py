"""Pinned input for two buffers that takes longer than the kernels.

The trace: the bus is never idle, and all kernels lie beside copies.
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
    rung=39,
    title="input that takes longer than the kernels",
    shows="copies end to end, and kernels beside them with pauses",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["copy-bound"],
    "findings": ["bandwidth"],
    "forbidden": [
        "unoverlapped_copy",
        "serial_streams",
        "synchronous_copy",
        "pageable_copy",
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
            work.run(1)
            batches.release(step)
