"""Every workload runs on the CPU, and computes what the baseline of its ladder computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from workloads import registry
from workloads.parameters import Parameters

if TYPE_CHECKING:
    from workloads.verify import Verifier

pytestmark = pytest.mark.torch

# As small as the networks allow; ten steps use every buffer of a pool, and two of them twice.
SMALL = Parameters(batch_size=2, image_size=64, steps=10, warmup=0, workers=1, device="cpu")
TINY = Parameters(batch_size=1, image_size=32, steps=2, warmup=0, workers=1, device="cpu")


@pytest.mark.parametrize("entry", registry.entries(), ids=lambda entry: entry.name)
def test_computes_what_the_baseline_computes(entry: registry.Entry, verifier: Verifier) -> None:
    # One is simulated; the others are no rungs, and have no buffers to go through.
    tiny = entry.workload.ladder in ("vector_add", "gallery")

    comparison = verifier.verify(entry, TINY if tiny else SMALL)

    assert comparison.passed, str(comparison)
    assert comparison.differences
    assert {d.output for d in comparison.differences if d.tolerance != 0} == (
        set(entry.workload.tolerance)
    )


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("d2h_unwaited", "checksum"),
        ("h2d_unwaited", "images"),
        ("h2d_events_unwaited", "images"),
        ("h2d_hasty_pool", "images"),
        ("d2h_wrong_classes", "classes"),
    ],
)
def test_broken_variants_are_caught(
    name: str, output: str, verifier: Verifier, request: pytest.FixtureRequest
) -> None:
    entry = registry.find(str(request.path.parent / "broken" / f"{name}.py"))

    comparison = verifier.verify(entry, SMALL)

    assert not comparison.passed
    assert output in {d.output for d in comparison.differences if not d.passed}
