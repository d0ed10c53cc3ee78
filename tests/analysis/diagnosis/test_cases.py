"""Every rule speaks where it must, and is silent where it must be."""

from __future__ import annotations

from pathlib import Path

import pytest

import analysis
from analysis.diagnosis import rules
from tests.analysis.diagnosis import cases
from tests.analysis.diagnosis.scene import CASES

assert cases  # it fills CASES


@pytest.mark.parametrize("name", CASES)
def test_exactly_these_findings(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    report = analysis.analyze(case.write(tmp_path / "case.sqlite"))
    assert tuple(finding.id for finding in report.findings) == case.findings
    assert report.verdict == case.verdict
    assert report.cannot_tell == ()


def test_every_rule_speaks_somewhere_and_is_silent_elsewhere() -> None:
    ids = {id_ for id_, _ in rules()}
    spoken = {id_ for case in CASES.values() for id_ in case.findings}
    assert spoken == ids
    assert len(CASES) > len(ids)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_counted_twice(name: str, tmp_path: Path) -> None:
    """Findings share out idle time and exposed copies; together they are not more than there is."""
    report = analysis.analyze(CASES[name].write(tmp_path / "case.sqlite"))
    (device,) = report.devices
    assert report.steps is not None
    lost = device.partition.idle_ns + report.steps.edge_idle_ns
    lost += sum(device.partition.exposed_copy_ns.values())
    beyond = {"unified_memory", "shared_gpu"}  # they lose time while kernels run
    assert sum(f.cost_ns for f in report.findings if f.id not in beyond) <= lost
    for finding in report.findings:
        assert finding.cost_ns_per_step == finding.cost_ns // report.steps.count
        assert finding.speedup_ceiling is not None
        whole = report.steps.span_ns
        assert finding.speedup_ceiling == pytest.approx(whole / (whole - finding.cost_ns), abs=1e-4)
