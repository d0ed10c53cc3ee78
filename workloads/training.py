"""Training ResNet-18: the step that the h2d and augment ladders feed."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import torch
import torchvision

from workloads.ranges import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from workloads.session import Session

# Rows and columns of each image that are kept for comparison.
_SAMPLED = 32


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
        # A small rate: two runs that round differently drift apart slowly, and can be compared.
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.0001, momentum=0.9)

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """One optimiser step on a batch that is on the device."""
        with self._session.range("compute", COMPUTE):
            if self._prepare is not None:
                images = self._prepare(images)
            if self._session.compare:
                # In the stream and without a wait, which would hide a missing one elsewhere.
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
            self._session.outputs.put("weights", checksums(self._model))


def checksums(module: torch.nn.Module) -> list[int]:
    """CRC-32 of each parameter of `module`."""
    return [
        zlib.crc32(weights.detach().contiguous().cpu().numpy().tobytes())
        for weights in module.parameters()
    ]
