"""Another process on the same GPU.

The trace: kernels of two processes on one device, in turn.
"""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

from workloads.device import open_device
from workloads.ladders.gallery import _common
from workloads.registry import Workload
from workloads.session import Session

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from workloads.needs import Needs
    from workloads.parameters import Parameters

WORKLOAD = Workload(
    ladder="gallery",
    rung=26,
    title="another process on the same GPU",
    shows="kernels of two processes in turn",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound", "launch-bound"],
    "findings": ["shared_gpu"],
    "forbidden": ["host_work", "slow_loader"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def _other(parameters: Parameters, ready: Event, over: Event) -> None:
    """The same work, until told to stop."""
    device = open_device(parameters.device)
    work = _common.Work(Session(parameters, device))
    ready.set()
    while not over.is_set():
        work.run(4)
        device.synchronize()


def run(session: Session) -> None:
    context = multiprocessing.get_context("spawn")
    ready, over = context.Event(), context.Event()
    other = context.Process(target=_other, args=(session.parameters, ready, over), daemon=True)
    other.start()
    work = _common.Work(session)
    while not ready.wait(timeout=0.1):
        if not other.is_alive():
            raise RuntimeError("the other process ended before it began")

    def finish() -> None:
        over.set()
        other.join()

    for _ in session.steps(finish):
        with _common.alpha(session):
            work.run(4)
        work.output()
