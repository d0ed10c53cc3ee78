"""Every rule speaks where it must, and is silent where it must be."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import analysis
from analysis.diagnosis import rules
from analysis.renderers import Style, renderer
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
    # Beside other recordings, the figures are those of the device that the verdict is about.
    judged = report.devices[1]
    share = 100 * judged.partition.idle_ns / judged.window.duration_ns
    *_, line, _ = renderer("terminal")([report, report], Style(width=200)).splitlines()
    assert f"host-bound  {share:.1f} %" in line


@pytest.mark.parametrize(("others", "share"), [(1, 1 / 2), (2, 2 / 3), (3, 3 / 4)])
def test_processes_on_one_gpu_take_turns(others: int, share: float, tmp_path: Path) -> None:
    path = tmp_path / "case.sqlite"
    with TraceWriter(path) as writer:
        scene = Scene(writer)
        for k in range(STEPS):
            scene.range(0, PERIOD - 0.001, f"iteration {k}")
            scene.kernel(0.1, 10.1, launched=0.01)
            for other in range(others):
                scene.kernel(0.1, 10.1, launched=0.01, pid=cases.WORKER + other, stream=8)
            scene.now += PERIOD
    report = analysis.analyze(path)
    assert report.steps is not None
    (finding,) = report.findings
    assert finding.id == "shared_gpu"
    assert finding.cost_ns == pytest.approx(share * report.steps.span_ns, rel=0.01)
    assert "for 99.8 % of the time" in finding.title


@pytest.mark.parametrize(
    ("call", "behind"),
    [
        ("cudaLaunchHostFunc_v10000", " behind cudaLaunchHostFunc"),
        ("cudaStreamWaitEvent_v3020", " behind cudaStreamWaitEvent"),
        ("cudaEventRecord_v3020", ""),
    ],
)
def test_what_queued_work_waits_behind(call: str, behind: str, tmp_path: Path) -> None:
    path = tmp_path / "case.sqlite"
    with TraceWriter(path) as writer:
        scene = Scene(writer)
        for k in range(STEPS):
            scene.range(0, PERIOD - 0.001, f"iteration {k}")
            scene.kernel(0.02, 5, launched=0.01)
            scene.range(0.019, 0.2, "alpha")
            scene.api(0.02, 0.03, call)
            scene.kernel(7, 10.005, launched=0.1)
            scene.now += PERIOD
    (finding,) = analysis.analyze(path).findings
    assert finding.title == (
        f"Launched work waits{behind} while nothing runs: launched in iteration # / alpha"
    )


@pytest.mark.parametrize(
    ("overhead", "advice"), [("TLS allocation", "keep threads"), ("CUPTI Buffer flush", "fewer")]
)
def test_what_to_do_about_the_profiler(overhead: str, advice: str, tmp_path: Path) -> None:
    path = tmp_path / "case.sqlite"
    with TraceWriter(path) as writer:
        scene = Scene(writer)
        for k in range(STEPS):
            scene.range(0, PERIOD - 0.001, f"iteration {k}")
            scene.kernel(0.02, 7)
            writer.overhead(scene.at(6.9), scene.at(10.005), overhead)
            scene.now += PERIOD
    (finding,) = analysis.analyze(path).findings
    assert overhead in finding.title
    assert advice in finding.advice


def test_titles_name_host_code_where_it_is_most_of_it(tmp_path: Path) -> None:
    path = tmp_path / "case.sqlite"
    with TraceWriter(path) as writer:
        scene = Scene(writer)
        for k in range(STEPS):
            scene.range(0, PERIOD - 0.001, f"iteration {k}")
            scene.kernel(0.02, 5)
            scene.osrt(6, 6.1, "close")
            scene.now += PERIOD
    (finding,) = analysis.analyze(path).findings
    assert finding.title == "The GPU waits for the host: host code in iteration #"


@pytest.mark.parametrize(
    ("before", "after", "finding"),
    [("d2h", None, "output_in_loop"), (None, "h2d", "input_in_loop"), ("d2h", "h2d", "host_work")],
)
def test_without_steps_what_may_be_either_is_neither(
    before: str | None, after: str | None, finding: str, tmp_path: Path
) -> None:
    path = tmp_path / "case.sqlite"
    with TraceWriter(path) as writer:
        scene = Scene(writer)
        for _ in range(STEPS):
            scene.kernel(0.1, 4.99)
            if before:
                scene.copy(4.99, 5, before, launched=4.9)
            if after:
                scene.copy(9.99, 10.0, after)
            scene.now += PERIOD
    report = analysis.analyze(path)
    assert report.steps is None
    assert [f.id for f in report.findings] == [finding]


def test_who_moved_a_page_is_not_known_from_old_exports(tmp_path: Path) -> None:
    """Those of 2020 have no migrationCause: the kernel may have waited."""
    case = dataclasses.replace(
        CASES["pages_are_prefetched_beside_kernels"], options={"schema": None}
    )
    report = analysis.analyze(case.write(tmp_path / "case.sqlite"))
    assert [f.id for f in report.findings] == ["unified_memory"]


def test_waits_for_nobody_known_are_not_called_computing(tmp_path: Path) -> None:
    """Kernels without API calls: a third of the time the device is idle, and nobody can say why."""
    path = tmp_path / "case.sqlite"
    with TraceWriter(path) as writer:
        for k in range(STEPS):
            writer.kernel(9_000_000 * k + 1, 9_000_000 * k + 6_000_001)
    report = analysis.analyze(path)
    assert report.verdict == "compute-bound"
    (finding,) = report.findings
    assert finding.title == (
        "The GPU computes for 71.4 % of the steady state; for 28.6 % nobody can be named whom it "
        "waits for"
    )
