"""The shared memory is allocated once: a pool of buffers, and a queue of those that are free.

The trace: no munmap and no posix_fallocate any more, and no gap worth listing. The copies are ten
times faster, for the pages are there already; they are still pageable and exposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workloads.ladders.d2h import _common
from workloads.ladders.d2h._pool import BUFFERS
from workloads.ladders.d2h._processing import Results
from workloads.ladders.d2h._workers import Buffers, OutputProcesses, handle_buffer
from workloads.ranges import COPY, OUTPUT
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="d2h",
    rung=3,
    title="shared-memory buffers, allocated once",
    shows="no munmap, no long gap; pageable copies into buffers that are there, exposed",
    defaults={"workers": 12},
    published=1.51,
    published_on="L40S",
)


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters, on_device=3, shared=BUFFERS)


def run(session: Session) -> None:
    device, inference = session.device, _common.Inference(session)
    results = Results.empty(session.parameters, compare=session.compare)
    batches = _common.inputs(session)
    buffers = Buffers(_common.logits_shape(session.parameters), torch.float32, BUFFERS)
    with OutputProcesses(
        max(1, session.parameters.workers), handle_buffer, (buffers, results)
    ) as processes:
        for step in session.steps(finish=processes.join):
            (images,) = next(batches)
            logits = inference(images)
            with session.range("copy to CPU", COPY):
                index = buffers.take(processes)
                device.download_into(buffers.tensors[index], logits)
            with session.range("queue output", OUTPUT):
                for part in buffers.parts(step, index):
                    processes.put(part)
    results.put_into(session.outputs)
