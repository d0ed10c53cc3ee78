"""Fixtures of the tests that run workloads; those need torch (`make test-workloads`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workloads.verify import Verifier

# The workloads' processes share few cores here; threads would only fight over them.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def verifier() -> Iterator[Verifier]:
    """Compares with baselines; each is run once for all tests."""
    from workloads.verify import Verifier

    with Verifier() as verifier:
        yield verifier
