"""d2h_argmax, but the class maps are those of half the logits: beyond any tolerance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workloads.ladders.d2h import _common
from workloads.ladders.d2h._pool import PinnedPool
from workloads.ladders.d2h._workers import handle_classes
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="d2h",
    rung=7,
    title="wrong classes",
    shows="wrong results",
    tolerance={
        "classes": 5e-2,
        "pixels": None,
        "stored": None,
        "confidence": None,
        "entropy": None,
        "checksum": None,
        "logits": None,
    },
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, on_device=5, shared=0)


def run(session: Session) -> None:
    inference = _common.Inference(session)
    batches = _common.inputs(session)
    parameters = session.parameters
    shape = (parameters.batch_size, parameters.image_size, parameters.image_size)
    with PinnedPool(session, shape, torch.uint8, handle_classes) as pool:
        for step in session.steps(finish=pool.finish):
            (images,) = next(batches)
            classes = inference(images)[:, :10].argmax(dim=1).to(torch.uint8)
            index = pool.take()
            session.device.download_into(pool.tensors[index], classes, non_blocking=True)
            pool.hand_over(step, index, behind=session.device.current_stream())
