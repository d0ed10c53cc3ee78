"""Two vectors added by NumPy, on the host.

The trace: no GPU at all. `nsyslab analyze` says so instead of calling it idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workloads.ladders.vector_add import _common
from workloads.needs import Needs
from workloads.ranges import COMPUTE
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="vector_add",
    rung=1,
    title="NumPy, on the host",
    shows="no GPU activity at all",
    defaults={"batch_size": 256},
)


def needs(parameters: Parameters) -> Needs:  # noqa: ARG001
    return Needs(gpu=0)


def run(session: Session) -> None:
    first, second = _common.vectors(session.parameters)
    total = np.empty_like(first)
    for _ in session.steps():
        with session.range("compute", COMPUTE):
            np.add(first, second, out=total)
    session.outputs.put("sum", total)
