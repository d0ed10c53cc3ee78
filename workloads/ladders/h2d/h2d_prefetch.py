"""The same as h2d_streams, as an iterator around the loader; the loop is the baseline's again.

The iterator is `workloads.prefetch.Prefetcher`.

The trace: as h2d_streams. The win is in the code: any loop can be given such an iterator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.batch_pool import BatchPool
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
    rung=6,
    title="the same as a prefetching iterator",
    shows="copies beside the kernels; compute fills the window",
    published=6.44,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    training, copying = Training(session), session.device.stream()
    with BatchPool(session, copying) as batches:
        prefetcher = Prefetcher(batches, session, copying)
        for _ in session.steps():
            images, labels = next(prefetcher)
            training.step(images, labels)
    training.finish()
