"""The kernel; numba chooses between the device and the simulator when this is imported."""

from __future__ import annotations

from typing import Any

from numba import cuda


@cuda.jit  # type: ignore[untyped-decorator]
def add(first: Any, second: Any, total: Any) -> None:
    """Add two vectors, an element to a thread."""
    index = cuda.grid(1)
    if index < total.size:
        total[index] = first[index] + second[index]
