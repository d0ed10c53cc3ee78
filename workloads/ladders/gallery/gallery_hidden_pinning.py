"""A DataLoader that pins its batches, and keeps up.

The trace: the thread waits for pt_data_pin in most steps, and the queue hides it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.gallery import _common, _ready
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=38,
    title="a DataLoader that pins, and keeps up",
    shows="no gaps, though the loop waits for the thread that pins",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["pinning_thread", "slow_loader", "held_up", "pinned_allocation", "host_work"],
}

_MEGABYTES = 32


def needs(parameters: Parameters) -> Needs:
    return _ready.needs(parameters, _MEGABYTES)


def run(session: Session) -> None:
    device, work = session.device, _common.Work(session)
    copying, computing = device.stream(), device.current_stream()
    batches = _ready.batches(session, _MEGABYTES)
    for _ in _common.steps(session, work):
        with _common.beta(session):
            host = next(batches)
        with _common.alpha(session):
            # The kernels are for the batch of the last step; this one is copied beside them.
            computing.wait_stream(copying)
            work.run(16)
            with device.use(copying):
                device.upload(host, non_blocking=True)
