"""The same as h2d_streams, as an iterator around the loader; the loop is the baseline's again.

The iterator is `workloads.prefetch.Prefetcher`.

The trace: as h2d_streams. The win is in the code: any loop can be given such an iterator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.data import loader
from workloads.ladders.h2d import _common
from workloads.prefetch import Prefetcher
from workloads.registry import Workload
from workloads.training import Training

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="h2d",
    rung=5,
    title="the same as a prefetching iterator",
    shows="copies beside the kernels; compute fills the window",
    published=6.44,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, workers=_common.require_workers(parameters))


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    workers = _common.require_workers(session.parameters)
    batches = iter(loader(session.parameters, workers=workers, pin_memory=_common.pins(device)))
    prefetcher = Prefetcher(batches, session)
    for _ in session.steps():
        images, labels = next(prefetcher)
        training.step(images, labels)
    training.finish()
