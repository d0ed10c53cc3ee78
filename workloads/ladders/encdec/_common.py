"""What the rungs of the encdec ladder share: the networks, the images, the memory.

The images lie on the device, for this ladder is about kernels. The arithmetic is the same in both
rungs: the losses and the weights after the last step are equal bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torchvision
from torch import nn

from analysis.errors import InputError
from workloads.data import Windows, window_images
from workloads.needs import Needs
from workloads.ranges import COMPUTE, GET_BATCH
from workloads.training import checksums

if TYPE_CHECKING:
    from workloads.parameters import Parameters
    from workloads.session import Session

# Bytes of device memory per pixel of a batch: activations of both networks.
_BYTES_PER_PIXEL = 700

_FEATURES = 512  # channels of ResNet-18's last stage
_HALVED = 2**5  # what an image is divided by on its way there


def needs(parameters: Parameters) -> Needs:
    """Memory of a run.

    Raises:
        InputError: The decoder cannot restore images of this size.
    """
    if parameters.image_size % _HALVED:
        raise InputError(
            f"--image-size {parameters.image_size} is no multiple of {_HALVED}: the encoder "
            "halves images five times, and the decoder doubles them as often",
        )
    pixels = parameters.image_size**2
    images = 12 * pixels * window_images(parameters)
    return Needs(gpu=parameters.batch_size * pixels * _BYTES_PER_PIXEL + images + 500_000_000)


class AutoEncoder:
    """ResNet-18 without its head, frozen, and a decoder that learns to restore the image."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._images = Windows(session.parameters, session.device, on_device=True)
        resnet = torchvision.models.resnet18(weights=None)
        self._encoder = nn.Sequential(*list(resnet.children())[:-2]).to(session.device.torch).eval()
        self._encoder.requires_grad_(False)
        self._decoder = _decoder().to(session.device.torch)
        self._loss = nn.MSELoss()
        self._optimizer = torch.optim.SGD(self._decoder.parameters(), lr=0.01, momentum=0.9)

    def images(self, step: int) -> torch.Tensor:
        """The batch of a step, which is on the device already."""
        with self._session.range("get batch", GET_BATCH):
            return self._images[step]

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        """Features of a batch, in the current stream."""
        with self._session.range("encode", COMPUTE), torch.no_grad():
            features: torch.Tensor = self._encoder(images)
        return features

    def decode(self, features: torch.Tensor, images: torch.Tensor) -> None:
        """One step of the decoder's training, in the current stream."""
        with self._session.range("train decoder", COMPUTE):
            loss = self._loss(self._decoder(features), images)
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self._optimizer.step()
            self._session.outputs.add("loss", loss.detach())

    def finish(self) -> None:
        """Keep a checksum of every weight of the decoder."""
        if self._session.compare:
            self._session.outputs.put("weights", checksums(self._decoder))


def _decoder() -> nn.Sequential:
    layers: list[nn.Module] = []
    channels = _FEATURES
    for narrower in (256, 128, 64, 32):
        layers += [
            nn.ConvTranspose2d(channels, narrower, kernel_size=4, stride=2, padding=1),
            nn.BatchNorm2d(narrower),
            nn.ReLU(inplace=True),
        ]
        channels = narrower
    layers.append(nn.ConvTranspose2d(channels, 3, kernel_size=4, stride=2, padding=1))
    return nn.Sequential(*layers)
