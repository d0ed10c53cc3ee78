"""The samples lead from rung to rung, with evidence that is in them, whatever the thresholds."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import sqlite3
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

import analysis
from analysis.diagnosis import Finding, Seen, diagnose, rules
from analysis.intervals import interval
from analysis.metrics.activity import of_device
from analysis.metrics.waits import EPISODE_PAUSE_NS
from analysis.report import Options, Report
from analysis.trace import COPY_DIRECTIONS, Copies, Trace
from tests.analysis.diagnosis import cases
from tests.analysis.diagnosis.scene import CASES
from tests.analysis.test_samples import NAMES, SAMPLES
from tests.traces.traps import TRAPS

assert cases  # it fills CASES

H200 = SAMPLES.parent / "h200"
LADDERS = sorted(path.stem for path in H200.glob("*/*.sqlite"))
#: Recordings whose verdict another threshold would change, as docs/diagnosis.md says.
ON_THE_EDGE = {
    ("augment_gpu", "COMPUTE_BOUND_SHARE", 1.2),
    ("encdec_serial", "COMPUTE_BOUND_SHARE", 1.2),
}


@cache
def trace_of(name: str) -> Trace:
    return analysis.load(SAMPLES / f"{name}.sqlite")


@cache
def trace_of_ladder(name: str) -> Trace:
    return analysis.load(H200 / name / f"{name}.sqlite")


@cache
def trace_of_case(name: str) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        return analysis.load(CASES[name].write(Path(folder) / "case.sqlite"))


@cache
def report_of(name: str) -> Report:
    return analysis.analyze(trace_of(name))


def leads_to(report: Report) -> str | None:
    """The workload that demonstrates the most expensive finding that one demonstrates."""
    return next((f.demonstrated_by for f in report.findings if f.demonstrated_by), None)


LADDER = [
    ("d2h_baseline", "output_in_loop", "d2h_workers"),
    ("d2h_workers", "fresh_host_memory", "d2h_pool"),
    ("d2h_pool", "pageable_copy", "d2h_async"),
    ("d2h_async", "unoverlapped_copy", "d2h_streams"),
    ("d2h_streams", "compute_bound", None),
    ("h2d_baseline", "input_in_loop", "h2d_workers"),
    ("h2d_workers", "pageable_copy", "h2d_async"),
    ("h2d_async", "unoverlapped_copy", "h2d_streams"),
    ("h2d_streams", "compute_bound", None),
    ("h2d_prefetch", "compute_bound", None),
    ("pin_thread", "pinned_allocation", "h2d_pool"),
]


@pytest.mark.parametrize(("name", "first", "rung"), LADDER)
def test_each_rung_leads_to_the_next(name: str, first: str, rung: str | None) -> None:
    report = report_of(name)
    assert report.findings[0].id == first
    assert leads_to(report) == rung


@pytest.mark.parametrize("name", ["d2h_streams", "h2d_streams", "h2d_prefetch"])
def test_nothing_but_compute_is_found_in_the_last_rungs(name: str) -> None:
    assert [f.id for f in report_of(name).findings] == ["compute_bound"]


def test_the_two_findings_of_pin_thread_name_the_pinning_thread() -> None:
    lock, interpreter = report_of("pin_thread").findings
    assert (lock.id, interpreter.id) == ("pinned_allocation", "interpreter_lock")
    for finding, doing in ((lock, "cudaHostAlloc"), (interpreter, "munmap")):
        assert "pt_data_pin" in finding.title
        held = finding.evidence[0].held_by
        assert held is not None
        assert (held.thread_name, held.name) == ("pt_data_pin", doing)


@pytest.mark.parametrize(
    ("name", "id_", "low", "high"),
    [  # ms per step, as a careful person reads them off the timeline
        ("d2h_baseline", "output_in_loop", 1000, 1075),
        ("d2h_async", "unoverlapped_copy", 25.4, 25.6),
        ("h2d_async", "unoverlapped_copy", 3.6, 3.7),
        ("h2d_baseline", "input_in_loop", 300, 410),
        ("h2d_workers", "fresh_host_memory", 35, 37),
        ("pin_thread", "pinned_allocation", 150, 153),
        ("pin_thread", "interpreter_lock", 18, 20),
    ],
)
def test_what_it_costs(name: str, id_: str, low: float, high: float) -> None:
    (finding,) = [f for f in report_of(name).findings if f.id == id_]
    assert finding.cost_ns_per_step is not None
    assert low <= finding.cost_ns_per_step / 1e6 <= high


@pytest.mark.parametrize(
    ("slow", "fast"), [("d2h_async", "d2h_streams"), ("h2d_async", "h2d_prefetch")]
)
def test_the_predicted_gain_comes_true(slow: str, fast: str) -> None:
    before, after = report_of(slow), report_of(fast)
    assert before.steps is not None
    assert after.steps is not None
    predicted = before.findings[0].speedup_ceiling
    assert predicted is not None
    measured = after.steps.per_second / before.steps.per_second
    assert predicted == pytest.approx(measured, rel=0.1)


def test_a_chosen_window_is_judged_alone() -> None:
    whole = report_of("d2h_baseline")
    one = analysis.analyze(trace_of("d2h_baseline"), Options(nvtx="Batch 1[01]"))
    (finding,) = [f for f in one.findings if f.id == "output_in_loop"]
    (before,) = [f for f in whole.findings if f.id == "output_in_loop"]
    # Two batches of three, and of their time no more than there is.
    assert finding.cost_ns == pytest.approx(before.cost_ns * 2 / 3, rel=0.1)
    window = one.devices[0].window
    for each in one.findings:
        assert each.cost_ns <= window.duration_ns
        for seen in each.evidence:
            assert seen.end_ns > window.start_ns
            assert seen.start_ns < window.end_ns
    inside = analysis.analyze(trace_of("d2h_baseline"), Options(nvtx="copy to CPU"))
    assert "output_in_loop" not in {f.id for f in inside.findings}
    assert inside.findings[0].id == "fresh_host_memory"


# Evidence is in the trace.


def every_range(trace: Trace, path: str, thread: int, start: int, end: int) -> bool:
    """Whether the thread was inside ranges of these names from start to end."""
    ranges = trace.ranges
    rows = (ranges.thread == thread) & (ranges.start <= start) & (ranges.end >= end)
    present = {part for name in ranges.name[rows] for part in trace.names[name].split(" / ")}
    return set(path.split(" / ")) <= present


def called(trace: Trace, name: str, thread: int, start: int, end: int) -> bool:
    """Whether the thread was in a call of that name at some time of [start, end)."""
    return any(
        trace.names[table.name[row]] == name
        for table in (trace.api_calls, trace.os_calls, trace.overheads)
        for row in range(len(table))
        if table.thread[row] in (thread, -1) and table.start[row] < end and table.end[row] > start
    )


def launched(trace: Trace, name: str, thread: int, end: int) -> bool:
    """Whether the thread had made such a call before."""
    api = trace.api_calls
    return any(
        trace.names[api.name[row]] == name and api.start[row] < end
        for row in range(len(api))
        if api.thread[row] == thread
    )


def waited(trace: Trace, thread: int, low: int, high: int) -> tuple[int, int]:
    """The whole wait of which a piece is seen: its holder is named by what fills most of that."""
    table = trace.os_calls
    mine = table.thread == thread
    while True:
        near = mine & (table.start <= high + EPISODE_PAUSE_NS)
        near &= table.end >= low - EPISODE_PAUSE_NS
        wider = (
            min(low, int(table.start[near].min(initial=low))),
            max(high, int(table.end[near].max(initial=high))),
        )
        if wider == (low, high):
            return wider
        low, high = wider


def missing(trace: Trace, finding: Finding, seen: Seen) -> list[str]:
    """What of a line of evidence is not in the trace."""
    found = []
    ids = [device.id for device in trace.devices]
    if seen.device not in ids:
        return [f"there is no device {seen.device}"]
    device = ids.index(seen.device)
    threads = [
        i for i, t in enumerate(trace.threads) if (t.pid, t.tid) == (seen.process, seen.thread)
    ]
    if seen.thread is not None and not threads:
        found.append(f"there is no thread {seen.thread}")
    if seen.kind in ("copy", "kernel"):
        names = []
        for table in (trace.copies,) if seen.kind == "copy" else (trace.kernels, trace.graphs):
            rows = (table.start == seen.start_ns) & (table.end == seen.end_ns)
            names += [
                COPY_DIRECTIONS[table.direction[row]]
                if isinstance(table, Copies)
                else trace.names[table.name[row]]
                for row in (rows & (table.device == device)).nonzero()[0]
            ]
        if seen.name not in names:
            found.append(f"no such {seen.kind}: {seen.name}")
        return found
    if (of_device(trace, device).busy & interval(seen.start_ns, seen.end_ns)).total:
        found.append("the device was not idle")
    for thread in threads[:1]:
        if seen.name is not None and not (
            called(trace, seen.name, thread, seen.start_ns, seen.end_ns)
            or (
                seen.text.startswith(("queued", "launch"))
                and launched(trace, seen.name, thread, seen.end_ns)
            )
        ):
            found.append(f"thread {seen.thread} was not in {seen.name}")
        if seen.nvtx not in (None, "outside any range") and not every_range(
            trace, str(seen.nvtx), thread, seen.start_ns, seen.end_ns
        ):
            found.append(f"thread {seen.thread} was not in {seen.nvtx}")
    if seen.held_by is not None:
        held = seen.held_by
        holders = [
            i for i, t in enumerate(trace.threads) if (t.pid, t.tid) == (held.process, held.thread)
        ]
        if not holders:
            found.append(f"there is no thread {held.thread}")
        elif held.name != "host code" and held.ns:
            low, high = waited(trace, threads[0], seen.start_ns, seen.end_ns)
            in_range = any(trace.names[n] in held.name for n in trace.ranges.name)
            if not called(trace, held.name, holders[0], low, high) and not in_range:
                found.append(f"thread {held.thread} was not in {held.name}")
        if held.ns > seen.ns:
            found.append("the holder covers more than the wait")
    return [f"{finding.id}: {line}: {seen}" for line in found]


def not_there(trace: Trace) -> list[str]:
    report = analysis.analyze(trace)
    for finding in report.findings:
        assert finding.evidence, f"{finding.id} shows nothing"
        assert finding.title
        assert finding.advice
    return [line for f in report.findings for s in f.evidence for line in missing(trace, f, s)]


@pytest.mark.parametrize("name", NAMES)
def test_evidence_is_in_the_sample(name: str) -> None:
    assert not_there(trace_of(name)) == []


@pytest.mark.parametrize("name", LADDERS)
def test_evidence_is_in_the_recorded_ladder(name: str) -> None:
    assert not_there(trace_of_ladder(name)) == []


@pytest.mark.parametrize("name", CASES)
def test_evidence_is_in_the_case(name: str) -> None:
    assert not_there(trace_of_case(name)) == []


@pytest.mark.parametrize("name", TRAPS)
def test_evidence_is_in_the_trap(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trap.sqlite"
    TRAPS[name].write(path)
    assert not_there(analysis.load(path)) == []


# Thresholds.


def thresholds() -> list[tuple[str, float]]:
    """Every number that a module of the diagnosis, or the verdict, assigns to a constant."""
    found = {}
    for name in _modules():
        module = sys.modules[name]
        tree = ast.parse(Path(str(module.__file__)).read_text())
        for node in tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(target, ast.Name) and target.id.strip("_").isupper():
                value = getattr(module, target.id)
                if isinstance(value, int | float) and not isinstance(value, bool):
                    found[target.id] = value
    return sorted(found.items())


def _modules() -> list[str]:
    rule_files = importlib.import_module("analysis.diagnosis.rules")
    names = [f"{rule_files.__name__}.{m.name}" for m in pkgutil.iter_modules(rule_files.__path__)]
    names += ["analysis.diagnosis.rule", "analysis.diagnosis.evidence", "analysis.metrics.verdict"]
    for name in names:
        importlib.import_module(name)
    return names


def change(monkeypatch: pytest.MonkeyPatch, name: str, value: float) -> None:
    """Sets a constant wherever it has been imported to."""
    for module in [sys.modules[module] for module in _modules()]:
        if hasattr(module, name):
            monkeypatch.setattr(module, name, value)


def test_the_thresholds_are_found() -> None:
    names = [name for name, _ in thresholds()]
    assert len(names) >= 10
    assert {"FRESH_GB_PER_S", "LEAST_EXPOSED", "LONGEST_WAIT_NS", "COMPUTE_BOUND_SHARE"} <= set(
        names
    )


@pytest.mark.parametrize("factor", [0.8, 1.2])
@pytest.mark.parametrize("threshold", [name for name, _ in thresholds()])
def test_no_verdict_hangs_on_a_threshold(
    threshold: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = dict(thresholds())[threshold]
    ladders = {name: analysis.analyze(trace_of_ladder(name)).verdict for name in LADDERS}
    change(monkeypatch, threshold, type(value)(value * factor))
    for name, verdict in ladders.items():
        after = analysis.analyze(trace_of_ladder(name)).verdict
        assert (after == verdict) is ((name, threshold, factor) not in ON_THE_EDGE), name
    for name in NAMES:
        before, after = report_of(name), analysis.analyze(trace_of(name))
        assert after.verdict == before.verdict, name
        assert after.findings[0].id == before.findings[0].id, name
        assert leads_to(after) == leads_to(before), name
    for name, case in CASES.items():
        report = analysis.analyze(trace_of_case(name))
        assert report.verdict == case.verdict, name
        assert report.findings[0].id == case.findings[0], name


# What was not traced.


def test_rules_without_input_cannot_tell(tmp_path: Path) -> None:
    case = dataclasses.replace(CASES["files_are_flushed"], options={"traced": ("nvtx", "cuda")})
    path = case.write(tmp_path / "case.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE OSRT_API")
    report = analysis.analyze(path)
    told = {entry.id: entry for entry in report.cannot_tell}
    assert set(told) == {id_ for id_, rule in rules() if "osrt" in rule.needs}
    assert told["file_writes"].reason == "OS runtime calls were not traced"
    assert told["file_writes"].record_with == "--trace=osrt"
    # The time is still explained, and what cannot be known is said.
    assert [f.id for f in report.findings] == ["host_work"]
    assert "not traced" in report.findings[0].title


def test_nothing_to_judge() -> None:
    found = diagnose([])
    assert (found.findings, found.cannot_tell) == ((), ())
