"""The next batch is copied and augmented in streams of their own beside the training on this one.

The trace: copies and the augmentation's kernels lie beside the training's kernels. What that gains
is what those leave free of the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.augment import _common
from workloads.ranges import COPY, GET_BATCH
from workloads.registry import Workload
from workloads.training import Training

if TYPE_CHECKING:
    import torch

    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="augment",
    rung=3,
    title="augmentation in a stream of its own",
    shows="copies and the augmentation's kernels beside the training's",
    defaults={"batch_size": 128, "image_size": 256},
    profile_steps=12,
    published=38.8,
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
    computing, copying, augmenting = device.current_stream(), device.stream(), device.stream()

    def prepare() -> tuple[torch.Tensor, torch.Tensor]:
        with session.range("get batch", GET_BATCH):
            host = next(batches)
        with session.range("copy batch", COPY), device.use(copying):
            pixels, labels, drawn = (device.upload(tensor, non_blocking=True) for tensor in host)
        augmenting.wait_stream(copying)
        with device.use(augmenting):
            images = _common.augment(session, augmentation, pixels, drawn)
        # Allocated in the copying stream, read in the augmenting one.
        device.keep_alive(pixels, augmenting)
        device.keep_alive(drawn, augmenting)
        return images, labels

    augmenting.wait_stream(computing)  # the augmentation's constants were uploaded there
    next_images, next_labels = prepare()
    for _ in session.steps():
        # What was prepared during the last step is this step's, once it is there. The augmenting
        # stream is behind the copying one, so that the labels are there too.
        computing.wait_stream(augmenting)
        images, labels = next_images, next_labels
        device.keep_alive(images, computing)
        device.keep_alive(labels, computing)
        next_images, next_labels = prepare()
        training.step(images, labels)
    training.finish()
