"""A file is written and flushed in each step.

The trace: gaps in which the thread is in write and fsync.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from workloads.ladders.gallery import _common
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=16,
    title="a file is written and flushed in each step",
    shows="write and fsync on the feeding thread",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["file_writes"],
    "forbidden": ["host_work", "output_in_loop", "fresh_host_memory"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    content = bytes(4 * _common.values(session.parameters, 32))
    with tempfile.TemporaryFile(buffering=0) as file:
        for _ in _common.steps(session, work):
            with _common.alpha(session):
                work.run(1)
                session.device.synchronize()
            with _common.gamma(session):
                file.seek(0)
                file.write(content)
                os.fsync(file.fileno())
