"""What the rungs of the vector_add ladder share: the vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from workloads.parameters import Parameters


def length(parameters: Parameters) -> int:
    """Elements of a vector: the pixels of a batch.

    67 million by default, so that a step takes longer (0.25 ms on an H200) than Python needs for a
    launch (up to 0.08 ms).
    """
    return parameters.batch_size * parameters.image_size**2


def vectors(parameters: Parameters) -> tuple[np.ndarray[Any, np.dtype[np.float32]], ...]:
    """Two vectors of seeded values, float32."""
    generator = np.random.default_rng(parameters.seed)
    first, second = generator.random((2, length(parameters)), dtype=np.float32)
    return first, second
