"""What the rungs of the d2h ladder share: the network, its inputs, its memory.

Each rung writes its own loop. The logits are the same in all of them, bit for bit, up to the rungs
that state a tolerance.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision.models.segmentation import deeplabv3_resnet50

from workloads.data import Windows, batches_made
from workloads.ladders.d2h._processing import CLASSES
from workloads.needs import Needs
from workloads.prefetch import Prefetcher
from workloads.ranges import COMPUTE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workloads.parameters import Parameters
    from workloads.session import Session

# Bytes of device memory per pixel of a batch: activations of DeepLabV3-ResNet50 in float32.
_BYTES_PER_PIXEL = 450


def logits_shape(parameters: Parameters) -> tuple[int, int, int, int]:
    """Shape of the logits of a batch, which are float32."""
    return parameters.batch_size, CLASSES, parameters.image_size, parameters.image_size


def needs(parameters: Parameters, *, on_device: int, shared: int) -> Needs:
    """Memory of a run.

    Args:
        parameters: Of the run.
        on_device: Batches of logits that may be on the device at a time.
        shared: Batches of logits that may be in shared memory at a time.
    """
    pixels = parameters.batch_size * parameters.image_size**2
    logits = 4 * math.prod(logits_shape(parameters))
    return Needs(
        gpu=_BYTES_PER_PIXEL * pixels + on_device * logits + 1_000_000_000,
        shared=shared * logits,
        why=f"{shared} output buffers of {logits / 1e9:.1f} GB" if shared else "",
    )


def _network() -> torch.nn.Module:
    return deeplabv3_resnet50(
        weights=None, weights_backbone=None, num_classes=CLASSES, aux_loss=False
    ).eval()


class Inference:
    """DeepLabV3-ResNet50 with seeded weights."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._model = _network().to(session.device.torch)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of a batch: float32 (B, CLASSES, H, W), on the device."""
        with self._session.range("compute", COMPUTE), torch.inference_mode():
            logits: torch.Tensor = self._model(images)["out"]
        return logits


class FastInference:
    """The same network in bfloat16, channels last, and what the host would do with its logits."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._model = _network()
        _fold_batch_norms(self._model)
        self._model.to(session.device.torch, torch.bfloat16, memory_format=torch.channels_last)

    def __call__(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Class maps of a batch, uint8 (B, H, W), and confidence and entropy, each (B,)."""
        with self._session.range("compute", COMPUTE), torch.inference_mode():
            images = images.to(torch.bfloat16, memory_format=torch.channels_last)
            coarse = self._model.classifier(self._model.backbone(images)["out"])
            # bfloat16 would make ties of the classes that are close; the coarse map is small.
            logits = torch.nn.functional.interpolate(
                coarse.float().contiguous(), size=images.shape[-2:], mode="bilinear"
            )
            best, classes = logits.max(dim=1)
            shifted = logits.sub_(best.unsqueeze(1))
            power = shifted.exp()
            total = power.sum(dim=1)
            entropy = total.log() - power.mul_(shifted).sum(dim=1) / total
            return (
                classes.to(torch.uint8),
                total.reciprocal().mean(dim=(1, 2)),
                entropy.mean(dim=(1, 2)),
            )


def _fold_batch_norms(module: torch.nn.Module) -> None:
    """Fold each batch normalisation into the convolution before it; all must be in eval mode."""
    previous: tuple[str, torch.nn.Module] | None = None
    for name, child in module.named_children():
        if isinstance(child, torch.nn.BatchNorm2d) and previous is not None:
            before, convolution = previous
            setattr(module, before, fuse_conv_bn_eval(convolution, child))
            setattr(module, name, torch.nn.Identity())
        _fold_batch_norms(child)
        previous = (name, child) if isinstance(child, torch.nn.Conv2d) else None


def inputs(session: Session) -> Iterator[list[torch.Tensor]]:
    """The batches of a run, on the device; the input side is as good as h2d_prefetch made it."""
    windows = Windows(session.parameters, session.device, on_device=False)
    batches = ([windows[step]] for step in range(batches_made(session.parameters)))
    return Prefetcher(batches, session, session.device.stream())
