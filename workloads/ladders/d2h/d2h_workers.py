"""Worker processes process the output; it reaches them through a joinable queue.

The trace: "process output" has left the loop, and two stalls have come in. In "copy to CPU" the
feeding thread is in munmap: the last output, which the queue has moved to shared memory, is
unmapped when its name is given to the next. In "get batch" it waits for the interpreter lock, which
the queue's feeder thread holds while posix_fallocate makes that shared memory: "get batch" is the
victim. The copies are pageable, into new memory, and exposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.ladders.d2h import _common
from workloads.ladders.d2h._processing import Results
from workloads.ladders.d2h._workers import OutputProcesses, handle_tensor
from workloads.ranges import COPY, OUTPUT
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="d2h",
    rung=2,
    title="processing in worker processes, through a queue",
    shows="munmap in copy to CPU, and the queue's thread in posix_fallocate; pageable copies",
    defaults={"workers": 4, "warmup": 3},
    published=0.71,
    published_on="L40S",
)

# Batches that may wait in the queue; each is shared memory that nobody works on.
_WAITING = 2


def needs(parameters: Parameters) -> Needs:
    # Each process has one batch; one is waiting to be written to the queue.
    shared = max(1, parameters.workers) + _WAITING + 1
    return _common.needs(parameters, on_device=3, shared=shared)


def run(session: Session) -> None:
    inference = _common.Inference(session)
    results = Results.empty(session.parameters, compare=session.compare)
    batches = _common.inputs(session)
    count = max(1, session.parameters.workers)
    with OutputProcesses(count, handle_tensor, (results,), waiting=_WAITING) as processes:
        for step in session.steps(finish=processes.join):
            (images,) = next(batches)
            logits = inference(images)
            with session.range("copy to CPU", COPY):
                output = logits.cpu()
            with session.range("queue output", OUTPUT):
                processes.put((step, output))
    results.put_into(session.outputs)
