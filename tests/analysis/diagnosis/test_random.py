"""What holds for findings in any trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings

import analysis
from tests.analysis.diagnosis.test_samples_diagnosis import missing
from tests.strategies import Recipe, recipes

if TYPE_CHECKING:
    from pathlib import Path

#: These lose time while kernels run, beside idle time and exposed copies.
BEYOND = {"unified_memory", "shared_gpu"}


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(recipe=recipes())
def test_findings_of_random_traces(recipe: Recipe, tmp_path: Path) -> None:
    path = tmp_path / "random.sqlite"
    recipe.write(path)
    trace = analysis.load(path)
    report = analysis.analyze(trace)

    gone = [line for f in report.findings for s in f.evidence for line in missing(trace, f, s)]
    assert gone == []
    for device in report.devices:
        found = [f for f in report.findings if f.device == device.id]
        lost = device.partition.idle_ns + sum(device.partition.exposed_copy_ns.values())
        if report.steps is not None:
            lost += report.steps.edge_idle_ns
        assert sum(f.cost_ns for f in found if f.id not in BEYOND) <= lost
        if report.steps is None and device.verdict not in ("not-enough-data",):
            assert found, device.verdict
