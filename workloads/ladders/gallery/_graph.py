"""A function as a CUDA graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workloads.ladders.gallery import _common

if TYPE_CHECKING:
    from collections.abc import Callable

    from workloads.session import Session


def captured(session: Session, function: Callable[[], None]) -> Callable[[], None]:
    """What replays the launches of `function`; on the CPU the function itself."""
    if not _common.on_cuda(session):
        return function
    function()
    session.device.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    replay: Callable[[], None] = graph.replay
    return replay
