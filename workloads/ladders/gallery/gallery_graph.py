"""The tiny kernels as one CUDA graph.

The trace: recorded by default, whole, a replay is one bar; there are no gaps.
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
    rung=4,
    title="the tiny kernels as one CUDA graph",
    shows="whole replays, back to back",
    tolerance={"value": None},
)
EXPECT = {
    "verdict": ["compute-bound"],
    "findings": ["compute_bound"],
    "forbidden": ["launch_bound", "host_work"],
}


def needs(parameters: Parameters) -> Needs:
    return _common.needs(parameters)


def run(session: Session) -> None:
    work = _common.Work(session)
    vector = torch.zeros(_common.values(session.parameters, 0), device=session.device.torch)

    def many() -> None:
        for _ in range(1000):
            vector.add_(1)

    replay = _graph.captured(session, many)
    for _ in _common.steps(session, work):
        with _common.alpha(session):
            for _ in range(4):
                replay()
