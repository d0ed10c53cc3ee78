"""Every workload runs on the CPU, and computes what the baseline of its ladder computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from analysis.errors import GateError
from workloads import registry
from workloads.parameters import Parameters

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize("name", ["h2d_unwaited", "h2d_events_unwaited"])
def test_a_batch_that_is_used_before_its_copy_is_caught(
    name: str, verifier: Verifier, request: pytest.FixtureRequest
) -> None:
    entry = registry.find(str(request.path.parent / "broken" / f"{name}.py"))
    with pytest.raises(GateError, match=f"{name}: .* another stream may still be writing"):
        verifier.verify(entry, SMALL)


@pytest.mark.parametrize(
    ("rung", "wait", "message"),
    [
        ("d2h_streams", "copying.wait_stream(computing)", "clone reads a tensor"),
        ("d2h_slices", "copying.wait_stream(computing)", "clone reads a tensor"),
        ("h2d_streams", "computing.wait_stream(copying)", "clone reads a tensor"),
        ("h2d_events", "copying.wait_event(consumed[slot])", "a copy overwrites a tensor"),
        ("encdec_streams", "decoding.wait_stream(encoding)", r"\w+ reads a tensor"),
        ("augment_streams", "computing.wait_stream(augmenting)", "clone reads a tensor"),
        ("augment_streams", "augmenting.wait_stream(copying)", "_to_copy reads a tensor"),
    ],
)
def test_every_wait_is_missed(
    rung: str, wait: str, message: str, verifier: Verifier, tmp_path: Path
) -> None:
    """Without one of its waits a rung may compute the right thing by luck, and is caught."""
    source = registry.find(rung).path.read_text()
    assert source.count(wait) == 1
    broken = tmp_path / f"{rung}_broken.py"
    broken.write_text(source.replace(wait, "pass"))
    with pytest.raises(GateError, match=f"{rung}_broken: {message} that another stream may"):
        verifier.verify(registry.find(str(broken)), SMALL)
