"""The device augments whole batches, in the stream of the training.

The trace: the gaps are gone, the copies are of bytes and a quarter of the size. The kernels of the
augmentation (roi_align, grid_sampler, depthwise convolutions) lie between the training steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.augment import _common
from workloads.ranges import COPY, GET_BATCH
from workloads.registry import Workload
from workloads.training import Training

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="augment",
    rung=2,
    title="augmentation on the device",
    shows="no gaps; the augmentation's kernels between the training's; smaller copies",
    defaults={"batch_size": 128, "image_size": 256},
    profile_steps=12,
    published=35.2,
    published_on="A10G",
    # The same operations on another device, and training steps behind them.
    tolerance={"images": 2e-3, "loss": 2e-2, "weights": None},
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, bytes_per_value=1)


def run(session: Session) -> None:
    device, training = session.device, Training(session)
    batches = _common.batches(session, augmented=False)
    augmentation = _common.Augmentation(device.torch)
    for _ in session.steps():
        with session.range("get batch", GET_BATCH):
            host = next(batches)
        with session.range("copy batch", COPY):
            pixels, labels, drawn = (device.upload(tensor, non_blocking=True) for tensor in host)
        images = _common.augment(session, augmentation, pixels, drawn)
        training.step(images, labels)
    training.finish()
