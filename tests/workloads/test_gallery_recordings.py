"""The recordings of the gallery: every program is diagnosed as it says, with evidence."""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path

import pytest

import analysis
from analysis.trace import Trace
from tests.analysis.diagnosis.test_samples_diagnosis import change, not_there, thresholds
from workloads import registry
from workloads.gallery import differences, expectation

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "reports" / "gallery"
PROGRAMS = registry.ladder("gallery")


@cache
def trace_of(program: str) -> Trace:
    return analysis.load(RECORDINGS / f"{program}.sqlite")


@cache
def verdict_of(program: str) -> str:
    return analysis.analyze(trace_of(program)).verdict


def test_every_program_is_here_and_nothing_else() -> None:
    assert {path.name for path in RECORDINGS.iterdir()} == {
        "README.md",
        *(f"{entry.name}.sqlite" for entry in PROGRAMS),
    }


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda entry: entry.name)
def test_what_is_found(program: registry.Entry) -> None:
    report = analysis.analyze(trace_of(program.name))
    assert differences(report, expectation(program)) == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda entry: entry.name)
def test_evidence_is_in_the_recording(program: registry.Entry) -> None:
    assert not_there(trace_of(program.name)) == []


def test_the_documentation_says_what_is_found() -> None:
    lines = (ROOT / "docs" / "diagnosis.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    stated = [row[1:5] for row in rows if len(row) > 1 and row[1].startswith("`gallery_")]
    found = []
    for program in PROGRAMS:
        report = analysis.analyze(trace_of(program.name))
        ids = ", ".join(dict.fromkeys(f"`{finding.id}`" for finding in report.findings))
        found.append([f"`{program.name}`", program.workload.title, report.verdict, ids])
    assert stated == found


@pytest.mark.parametrize("factor", [0.8, 1.2])
@pytest.mark.parametrize("threshold", [name for name, _ in thresholds()])
def test_nothing_hangs_on_a_threshold(
    threshold: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {program.name: verdict_of(program.name) for program in PROGRAMS}
    value = dict(thresholds())[threshold]
    change(monkeypatch, threshold, type(value)(value * factor))
    for program in PROGRAMS:
        report = analysis.analyze(trace_of(program.name))
        assert report.verdict == before[program.name], program.name
        assert differences(report, expectation(program)) == [], program.name


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda entry: entry.name)
def test_they_are_small_and_say_nothing_of_the_machine(program: registry.Entry) -> None:
    path = RECORDINGS / f"{program.name}.sqlite"
    assert path.stat().st_size < 300_000
    content = path.read_bytes()
    for word in (b"/opt/", b"/root", b"/home/", b"PATH=", b"gpu-host"):
        assert word not in content
    with sqlite3.connect(path) as connection:
        (name,) = connection.execute("SELECT name FROM TARGET_INFO_GPU").fetchone()
    assert name == "NVIDIA H200"
