"""The same by a kernel of one's own, written in Python with numba-cuda.

The vectors are copied once, before the steps. The trace: one kernel after the other, limited by the
device's memory; no copies inside the steps.

With --device cpu the kernel runs in numba's CUDA simulator, a thread of Python per element: good
for a test of some thousand elements, and refused beyond.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from analysis.errors import InputError
from workloads.ladders.vector_add import _common
from workloads.needs import Needs
from workloads.ranges import COMPUTE, COPY
from workloads.registry import Workload

if TYPE_CHECKING:
    from workloads.parameters import Parameters
    from workloads.session import Session

WORKLOAD = Workload(
    ladder="vector_add",
    rung=2,
    title="a kernel in numba-cuda",
    shows="one kernel after the other; copies before and after the steps only",
    defaults={"batch_size": 256},
    profile_steps=100,  # of a quarter of a millisecond: one late launch must not decide
    published_speedup=84.5,
    published_on="T4",
)

_THREADS = 256
# The simulator needs about a tenth of a millisecond for each element.
_SIMULATED = 16_384


def needs(parameters: Parameters) -> Needs:
    return Needs(gpu=3 * 4 * _common.length(parameters) + 500_000_000)


def run(session: Session) -> None:
    simulated = session.device.torch.type == "cpu"
    length = _common.length(session.parameters)
    if simulated and length > _SIMULATED:
        raise InputError(
            f"numba's CUDA simulator would take minutes for {length} elements a step",
            hint=f"up to {_SIMULATED} can be simulated: --batch-size 1 --image-size 64, say",
        )
    # numba chooses when it is imported.
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1" if simulated else "0"
    from numba import cuda

    from workloads.ladders.vector_add._kernel import add

    kernel = add[-(-length // _THREADS), _THREADS]
    with session.range("copy to the device", COPY):
        first, second = (cuda.to_device(vector) for vector in _common.vectors(session.parameters))
        total = cuda.device_array(length, "float32")
    for _ in session.steps():
        with session.range("compute", COMPUTE):
            kernel(first, second, total)
    with session.range("copy to CPU", COPY):
        session.outputs.put("sum", total.copy_to_host())
