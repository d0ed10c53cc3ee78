"""A CUDA graph of larger kernels, recorded node by node.

The trace: with --cuda-graph-trace=node every kernel is a bar; hundreds share one launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workloads.ladders.gallery import _common, _graph
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.needs import Needs
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="gallery",
    rung=5,
    title="a CUDA graph of larger kernels, recorded node by node",
    shows="kernels of a replay, one launch for all of them",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["launch_bound", "queued_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    vector = torch.zeros(_common.values(session.parameters, 512), device=session.device.torch)

    def many() -> None:
        for _ in range(50):
            vector.add_(1)

    replay = _graph.captured(session, many)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            replay()
