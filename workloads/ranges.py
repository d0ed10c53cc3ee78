"""NVTX ranges, with one colour for each kind of work.

The nvtx package's ranges are seen by nsys only; PyTorch Profiler has ranges of its own. `annotate`
writes the first, and with `both` the second too.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import nvtx

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH = "blue"
GET_BATCH = "red"
COPY = "yellow"
COMPUTE = "green"
OUTPUT = "cyan"
AUGMENT = "purple"


@contextlib.contextmanager
def annotate(message: str, color: str, *, both: bool = False) -> Iterator[None]:
    """A push/pop range on the calling thread.

    Args:
        message: Its name, as the trace shows it.
        color: One of this module's colours.
        both: Write a range for PyTorch Profiler too.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(nvtx.annotate(message, color=color))
        if both:
            from torch.profiler import record_function

            stack.enter_context(record_function(message))
        yield
