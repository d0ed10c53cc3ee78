"""What needs torch is skipped without it, unless NSYSLAB_TEST_TORCH=1 says that it must run."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workloads.verify import Verifier

TORCH = importlib.util.find_spec("torch") is not None or os.environ.get("NSYSLAB_TEST_TORCH") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("torch") is not None and not TORCH:
            item.add_marker(pytest.mark.skip(reason="torch is not installed: make test-workloads"))


# The workloads' processes have two cores at most to share here; threads would only spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def verifier() -> Iterator[Verifier]:
    """Compares with baselines; each is run once for all tests."""
    from workloads.verify import Verifier

    with Verifier() as verifier:
        yield verifier
