"""What the rungs of the h2d ladder share: the network, its training step, its memory.

Each rung writes its own loop. The arithmetic is the same in all of them, and so are the samples and
their order: the losses and the weights after the last step are equal bit for bit.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import torch
import torchvision

from workloads.needs import Needs
from workloads.ranges import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from workloads.device import Device
    from workloads.parameters import Parameters
    from workloads.session import Session

# Bytes of device memory per pixel of a batch: activations and gradients of ResNet-18 in float32.
_BYTES_PER_PIXEL = 400
# Batches that a DataLoader's worker keeps ready.
_PREFETCH = 2
# Rows and columns of each image that are kept for comparison, in the stream, without a wait.
_SAMPLED = 32


def needs(parameters: Parameters, *, workers: int, bytes_per_value: int = 4) -> Needs:
    """Memory of a training run.

    Args:
        parameters: Of the run.
        workers: Of the DataLoader.
        bytes_per_value: Of a pixel's channel, as it is copied.
    """
    pixels = parameters.batch_size * parameters.image_size**2
    batch = pixels * 3 * bytes_per_value
    return Needs(
        gpu=pixels * _BYTES_PER_PIXEL + 3 * batch + 500_000_000,
        # What is ready, and what is in the loop and in the pinning thread.
        shared=(workers * _PREFETCH + 2) * batch if workers else 0,
        why=f"{workers * _PREFETCH + 2} batches of {batch / 1e6:.0f} MB on their way"
        if workers
        else "",
    )


def require_workers(parameters: Parameters) -> int:
    """The number of workers of a rung that is about having some; at least one."""
    return max(1, parameters.workers)


def pins(device: Device) -> bool:
    """Whether the DataLoader is to pin its batches: where there is a GPU."""
    return bool(device.torch.type == "cuda")


class Training:
    """ResNet-18 with seeded weights, and its optimiser.

    Args:
        session: Of the run.
        prepare: Applied to the images, on the device, inside the compute range.
        precision: What the forward pass is computed in, by autocast; None for float32.
        layout: Of the network's weights and activations.
    """

    def __init__(
        self,
        session: Session,
        *,
        prepare: Callable[[torch.Tensor], torch.Tensor] | None = None,
        precision: torch.dtype | None = None,
        layout: torch.memory_format = torch.contiguous_format,
    ) -> None:
        self._session = session
        self._prepare = prepare
        self._precision = precision
        self._device = session.device.torch
        self._model = torchvision.models.resnet18(weights=None)
        self._model.to(self._device, memory_format=layout).train()
        self._loss = torch.nn.CrossEntropyLoss()
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.001, momentum=0.9)

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """One optimiser step on a batch that is on the device."""
        with self._session.range("compute", COMPUTE):
            if self._prepare is not None:
                images = self._prepare(images)
            if self._session.compare:
                every = max(1, images.shape[-1] // _SAMPLED)
                self._session.outputs.add("images", images[:, :, ::every, ::every].clone())
            with torch.autocast(
                self._device.type, dtype=self._precision, enabled=self._precision is not None
            ):
                loss = self._loss(self._model(images), labels)
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self._optimizer.step()
            self._session.outputs.add("loss", loss.detach())

    def finish(self) -> None:
        """Keep a checksum of every weight."""
        if self._session.compare:
            self._session.outputs.put("weights", [_checksum(p) for p in self._model.parameters()])


def _checksum(tensor: Any) -> int:
    return zlib.crc32(tensor.detach().contiguous().cpu().numpy().tobytes())
