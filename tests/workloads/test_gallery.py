"""The gallery says what is to be found, gives nothing away, and is held to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import analysis
from analysis import cli
from analysis.diagnosis import rules
from analysis.gates import VERDICTS
from tests.analysis.diagnosis import cases
from tests.analysis.diagnosis.scene import CASES
from workloads import registry
from workloads.gallery import Expectation, differences, expectation

assert cases  # it fills CASES

PROGRAMS = registry.ladder("gallery")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gallery.sh"


def test_there_are_enough_of_them() -> None:
    assert len(PROGRAMS) >= 16
    innocent = [p for p in PROGRAMS if expectation(p).findings == ("compute_bound",)]
    assert len(innocent) >= 5  # four suspects, and the steady one


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda entry: entry.name)
def test_what_is_expected_exists(program: registry.Entry) -> None:
    wanted = expectation(program)
    ids = {id_ for id_, _ in rules()}
    assert wanted.verdict
    assert set(wanted.verdict) <= set(VERDICTS)
    assert wanted.findings
    assert set(wanted.findings) <= ids
    assert wanted.forbidden
    assert set(wanted.forbidden) <= ids
    assert not set(wanted.findings) & set(wanted.forbidden)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda entry: entry.name)
def test_the_names_of_ranges_give_nothing_away(program: registry.Entry) -> None:
    source = program.path.read_text()
    assert not re.search(r"session\.range|nvtx|annotate", source)
    assert re.search(r"_common\.(alpha|beta|gamma)\(session\)", source)


def test_every_rule_has_a_program() -> None:
    shown = {id_ for program in PROGRAMS for id_ in expectation(program).findings}
    assert {id_ for id_, _ in rules()} == shown


@pytest.mark.parametrize("name", CASES)
def test_remedies_are_workloads(name: str, tmp_path: Path) -> None:
    report = analysis.analyze(CASES[name].write(tmp_path / "case.sqlite"))
    known = {entry.name for entry in registry.entries()}
    assert {f.demonstrated_by for f in report.findings} <= {None, *known}


@pytest.mark.parametrize(
    ("wanted", "line"),
    [
        (Expectation(("host-bound",), ("file_writes",), ("host_work",)), None),
        (Expectation(("copy-bound",), ("file_writes",), ()), "verdict host-bound, not copy-bound"),
        (Expectation(("host-bound",), ("read_back",), ()), "no read_back"),
        (Expectation(("host-bound",), (), ("file_writes",)), "file_writes though it is innocent"),
    ],
)
def test_a_report_is_held_to_it(wanted: Expectation, line: str | None, tmp_path: Path) -> None:
    report = analysis.analyze(CASES["files_are_flushed"].write(tmp_path / "case.sqlite"))
    found = differences(report, wanted)
    assert len(found) == (line is not None)
    assert all(each.startswith(str(line)) for each in found)


def test_a_missing_recording_is_said(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workloads.gallery", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "has no recording of gallery_steady" in done.stderr


def test_the_script_explains_itself() -> None:
    done = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "benchmarks/gallery.sh FOLDER" in done.stderr


@pytest.mark.nsys
def test_graphs_can_be_recorded_node_by_node(tmp_path: Path) -> None:
    output = tmp_path / "recording"
    arguments = ["profile", "--graph-nodes", "-o", str(output), "--", sys.executable, "-c", "pass"]
    assert cli.run(arguments) == 0
    (report,) = output.glob("*.nsys-rep")
    assert b"--cuda-graph-trace=node" in report.read_bytes()


def test_the_script_shares_the_programs_among_gpus_and_says_what_failed(tmp_path: Path) -> None:
    lab, calls = tmp_path / "lab", tmp_path / "calls"
    lab.write_text(f'#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES $2" >>{calls}\n[ "$2" != b ]\n')
    lab.chmod(0o755)
    done = subprocess.run(
        [SCRIPT, tmp_path / "recordings", "a", "b", "c"],
        env={**os.environ, "NSYSLAB": str(lab), "CUDA_VISIBLE_DEVICES": "3,5"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "b: FAILED" in done.stdout
    assert "a: FAILED" not in done.stdout
    assert sorted(calls.read_text().split("\n")[:-1]) == ["3 a", "3 c", "5 b"]
