"""Batched inference, as first written: `.cpu()`, then the processing of the output, in the loop.

The trace: two thirds of a step are a copy into new pageable memory, most of the rest is a gap. In
it the feeding thread is in "process output", in host code, without any call that nsys could show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.d2h import _common
from workloads.ladders.d2h._processing import Results, process_classes, process_logits
from workloads.ranges import COPY, OUTPUT
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="d2h",
    rung=1,
    title="copy to the host and processing in the loop",
    shows="one long gap per step, host code in process output; pageable copies, exposed",
    defaults={"warmup": 3},  # of steps that take seconds
    published=0.45,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, on_device=3, shared=0)


def run(session: Session) -> None:
    inference = _common.Inference(session)
    results = Results.empty(session.parameters, compare=session.compare)
    batches = _common.inputs(session)
    for step in session.steps():
        (images,) = next(batches)
        logits = inference(images)
        with session.range("copy to CPU", COPY):
            output = logits.cpu()
        with session.range("process output", OUTPUT):
            process_classes(process_logits(output, step, results), step, results)
    results.put_into(session.outputs)
