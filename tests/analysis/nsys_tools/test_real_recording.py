"""A program recorded by the nsys of this machine, exported and analysed as a user would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from analysis import cli

from .conftest import MUNMAP_STALL

if TYPE_CHECKING:
    from pathlib import Path

    from analysis.nsys.record import Recording
    from tests.conftest import Analyze

pytestmark = pytest.mark.nsys

MS = 1_000_000


def test_the_munmap_stall_is_reported(recording: Recording, analyze: Analyze) -> None:
    result = analyze(recording.report)
    # Readable, but there is no GPU in it.
    assert result.exit_code == 3
    (munmap,) = [stall for stall in result.report["stalls"] if stall["function"] == "munmap"]
    # The program maps, touches and unmaps 192 MB three times; that takes milliseconds each.
    steps = {row["path"]: row for row in munmap["nvtx"] if row["path"].endswith("/ copy batch")}
    assert sorted(steps) == [f"Batch {i} / copy batch" for i in range(3)]
    assert all(row["calls"] == 1 and row["total_ns"] > MS for row in steps.values())
    assert munmap["calls"] >= 3
    assert munmap["max_ns"] == max(row["total_ns"] for row in steps.values())
    assert munmap["total_ns"] == sum(row["total_ns"] for row in munmap["nvtx"])
    assert munmap["idle_ns"] == 0


def test_what_was_not_traced_is_said_and_not_zero(recording: Recording, analyze: Analyze) -> None:
    report = analyze(recording.report).report
    assert report["schema"] == "nsyslab.report/1"
    assert report["trace"]["traced"] == {"cuda": False, "nvtx": True, "osrt": True}
    assert recording.nsys_version.startswith(report["trace"]["nsys_version"])
    assert report["trace"]["gpus"] == []
    assert report["devices"] == []
    assert report["ceiling"] is None
    assert report["verdict"] == "not-enough-data"
    assert "CUDA was not traced" in report["not_available"]["devices"]


def test_the_terminal_says_so_too(recording: Recording, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["analyze", str(recording.report)]) == 3
    text = capfd.readouterr().out
    assert "GPU metrics: not traced" in text
    (row,) = [line.split() for line in text.splitlines() if line.split()[:1] == ["munmap"]]
    assert row[-2:] == ["not", "traced"]


def test_recorded_by_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As a user does it: profile, then analyze what it left, by folder."""
    folder = tmp_path / "stall"
    assert cli.run(["profile", "-o", str(folder), "--", *MUNMAP_STALL]) == 0
    capfd.readouterr()
    assert cli.run(["analyze", str(folder)]) == 3
    assert "munmap" in capfd.readouterr().out


def test_the_redacted_export_analyses_the_same(
    recording: Recording, tmp_path: Path, analyze: Analyze
) -> None:
    redacted = tmp_path / "shared.sqlite"
    assert cli.run(["redact", str(recording.sqlite), "-o", str(redacted)]) == 0
    before, after = analyze(recording.sqlite), analyze(redacted)
    for result in (before, after):
        del result.report["trace"]["path"]
    # All that differs is that the program has no path any more.
    for process in before.report["trace"]["processes"]:
        process["name"] = process["name"].rpartition("/")[2]
    assert after.report == before.report
