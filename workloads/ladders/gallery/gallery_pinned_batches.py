"""A DataLoader that pins its batches, which takes longer than the kernels.

The trace: one gap per step: the thread waits for pt_data_pin; the worker has nothing to do.
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
    rung=37,
    title="a DataLoader that is slow to pin",
    shows="waits for the one thread that pins",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["host-bound"],
    "findings": ["pinning_thread"],
    "forbidden": [
        "slow_loader",
        "held_up",
        "host_work",
        "input_in_loop",
        "pageable_copy",
        "serial_streams",
    ],
}

_MEGABYTES = 128


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
            work.run(2)
            with device.use(copying):
                device.upload(host, non_blocking=True)
