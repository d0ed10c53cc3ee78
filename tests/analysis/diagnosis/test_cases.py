"""Every rule speaks where it must, and is silent where it must be."""

from __future__ import annotations

from pathlib import Path

import pytest

import analysis
from analysis.diagnosis import rules
from tests.analysis.diagnosis import cases
from tests.analysis.diagnosis.scene import CASES, PERIOD, STEPS, Scene
from tests.traces.writer import TraceWriter

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


def test_each_device_is_judged_by_itself(tmp_path: Path) -> None:
    """One GPU computes, the other waits for the host; only that one has something to gain."""
    path = tmp_path / "case.sqlite"
    with TraceWriter(path, gpus=False) as writer:
        for ordinal in (0, 1):
            writer.gpu(ordinal, uuid=f"20fded45-0507-4fee-0806-6174ca4a200{ordinal}")
            writer.cuda_device(gpu_id=ordinal, ordinal=ordinal)
        scene = Scene(writer)
        for k in range(STEPS):
            scene.range(0, PERIOD - 0.001, f"iteration {k}")
            scene.kernel(0.1, 10.1, launched=0.01)
            scene.kernel(0.03, 5, launched=0.02, device=1)
            scene.osrt(5.02, 9.98, "fsync")
            scene.now += PERIOD
    report = analysis.analyze(path)
    found = {(finding.device, finding.id) for finding in report.findings}
    assert found == {(0, "compute_bound"), (1, "file_writes")}
    (writes,) = [f for f in report.findings if f.id == "file_writes"]
    # 4.96 ms in each gap; there are four gaps between five kernels.
    assert writes.cost_ns == pytest.approx(4 * 4.96e6, rel=0.01)
    assert all(seen.device == 1 for seen in writes.evidence)
