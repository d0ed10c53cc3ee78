"""What the programs of the gallery share: device work of a known size, and work of the host.

Each program says in `EXPECT` which verdicts are right, which findings there must be and which there
must not. The rungs are no ladder: nothing is compared with anything.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from workloads import ranges
from workloads.needs import Needs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from workloads.parameters import Parameters
    from workloads.session import Session

# At the default image size of 512 the matrices are 4096 squared: some 2.5 ms for a product in
# float32 on an H200, longer elsewhere.
_SIDE_PER_PIXEL = 8
_DEFAULT_SIZE = 512


def needs(parameters: Parameters) -> Needs:
    """Memory of any program of the gallery."""
    side = _SIDE_PER_PIXEL * parameters.image_size
    return Needs(gpu=3 * 4 * side**2 + 8 * values(parameters, 256) + 500_000_000)


def values(parameters: Parameters, megabytes: int) -> int:
    """How many float32 make `megabytes` at the default image size; fewer at smaller ones."""
    scale = (parameters.image_size / _DEFAULT_SIZE) ** 2
    return max(1024, int(megabytes * 1e6 / 4 * scale))


class Work:
    """Matrix products of one size on the device.

    Args:
        session: Of the run.
    """

    def __init__(self, session: Session) -> None:
        side = _SIDE_PER_PIXEL * session.parameters.image_size
        device = session.device.torch
        self._session = session
        self._left = torch.rand(side, side, device=device) / side
        self._right = torch.rand(side, side, device=device)
        self._product = torch.empty(side, side, device=device)

    def run(self, products: int) -> None:
        """Launch some products."""
        for _ in range(products):
            torch.mm(self._left, self._right, out=self._product)

    def output(self) -> None:
        """Keep something of the step for `--verify`, which demands that there is something."""
        if self._session.compare:
            self._session.outputs.add("value", self._product[0, 0].clone())


def steps(session: Session, work: Work) -> Iterator[int]:
    """The steps of the session, each with an output."""
    for step in session.steps():
        yield step
        work.output()


def alpha(session: Session) -> AbstractContextManager[None]:
    """A range whose name says nothing."""
    return session.range("alpha", ranges.COMPUTE)


def beta(session: Session) -> AbstractContextManager[None]:
    """Another."""
    return session.range("beta", ranges.COPY)


def gamma(session: Session) -> AbstractContextManager[None]:
    """A third."""
    return session.range("gamma", ranges.OUTPUT)


def spin(milliseconds: float) -> None:
    """Keep the thread busy in Python."""
    until = time.perf_counter() + milliseconds / 1000
    while time.perf_counter() < until:
        pass


def on_cuda(session: Session) -> bool:
    """Whether there is a GPU; on the CPU the programs do the same by plainer means."""
    return bool(session.device.torch.type == "cuda")
