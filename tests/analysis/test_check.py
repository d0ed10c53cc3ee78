"""``nsyslab check``: gates that hold, that fail, and that cannot be computed."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from analysis.cli import run
from tests.analysis.diagnosis import cases
from tests.analysis.diagnosis.scene import CASES
from tests.analysis.test_samples import SAMPLES

assert cases  # it fills CASES

SLOW, FAST = SAMPLES / "d2h_workers.sqlite", SAMPLES / "d2h_streams.sqlite"


def check(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run(["check", *map(str, arguments)])
    captured = capfd.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("option", "value", "fast", "slow"),
    [
        ("--max-idle", "5%", "idle 0.2478 % <= 5 %", "idle 14.26 % > 5 %"),
        ("--max-exposed", "10", "exposed copies 5.846 % <= 10 %", "exposed copies 76.5 % > 10 %"),
        ("--min-overlap", "60%", "overlap 69.94 % >= 60 %", "overlap 0.285 % < 60 %"),
        ("--max-gap", "10ms", "longest gap 0.008704 ms <= 10 ms", "longest gap 345.7 ms > 10 ms"),
        ("--max-step", "200ms", "median step 142.9 ms <= 200 ms", "median step 1,584 ms > 200 ms"),
        ("--min-steps-per-second", "5", "6.649 >= 5", "0.6537 < 5"),
        (
            "--max-stall",
            "munmap=1ms",
            "GPU idle by munmap per step 0 ms <= 1 ms",
            "GPU idle by munmap per step 23.33 ms > 1 ms",
        ),
        ("--verdict", "compute-bound", "verdict compute-bound is", "copy-bound is not compute-"),
        ("--forbid", "fresh_host_memory", "fresh_host_memory is absent", "Fresh host memory in"),
    ],
)
def test_each_gate(
    option: str, value: str, fast: str, slow: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = check(capfd, FAST, option, value)
    assert (code, err) == (0, "")
    assert out.startswith("ok")
    assert fast in out
    code, out, err = check(capfd, SLOW, option, value)
    assert code == 1
    assert "1 of 1 gates failed" in err
    assert slow in err
    assert slow in out


def test_all_recordings_have_to_pass(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = check(capfd, FAST, SLOW, "--max-idle", "5%")
    assert code == 1
    assert "1 of 2 gates failed" in err
    assert len(out.splitlines()) == 2


def test_what_cannot_be_computed_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = CASES["busy"].write(tmp_path / "no_copies.sqlite")
    code, _, err = check(capfd, path, "--min-overlap", "0%")
    assert code == 1
    assert "overlap cannot be computed: there are no copies" in err
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE NVTX_EVENTS")
        connection.execute("DELETE FROM META_DATA_CAPTURE")
    code, _, err = check(capfd, path, "--max-step", "1s", "--max-stall", "munmap=1s")
    assert code == 1
    assert "median step cannot be computed" in err
    assert "GPU idle by munmap cannot be computed: OS runtime calls were not traced" in err
    code, _, err = check(capfd, path, "--forbid", "file_writes")
    assert code == 1
    assert "finding file_writes cannot be computed" in err
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
    code, _, err = check(capfd, path, "--max-idle", "100%", "--verdict", "compute-bound")
    assert code == 1
    assert "idle cannot be computed" in err
    assert "verdict not-enough-data is not compute-bound" in err


def baseline(tmp_path: Path, recording: Path) -> Path:
    path = tmp_path / "baseline.json"
    assert run(["analyze", str(recording), "--format", "json", "-o", str(path)]) == 0
    return path


def test_against_a_baseline(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fast = baseline(tmp_path, FAST)
    assert check(capfd, FAST, "--baseline", fast, "--tolerance", "0%")[0] == 0
    code, _, err = check(capfd, SAMPLES / "d2h_async.sqlite", "--baseline", fast)
    assert code == 1
    assert "period per step 167.2 ms > 165.4 ms (baseline 150.4 ms)" in err
    assert "overlap 12 % < 59.94 % (baseline 69.94 %)" in err
    code, out, _ = check(
        capfd, SAMPLES / "d2h_async.sqlite", "--baseline", fast, "--tolerance", "60%"
    )
    assert code == 0
    assert len(out.splitlines()) == 4


def test_gates_from_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = baseline(tmp_path, FAST)
    config = tmp_path / "gates.toml"
    config.write_text(
        'max_idle = "5%"\nmin_overlap = 60\nmax_gap = "10ms"\nverdict = "compute-bound"\n'
        'forbid = ["pageable_copy"]\nmin_steps_per_second = 6\ntolerance = "5%"\n'
        f'baseline = "{report.name}"\n[max_stall]\nmunmap = "1ms"\nposix_fallocate64 = "1us"\n'
    )
    code, out, err = check(capfd, FAST, "--config", config)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 12
    # An option of the command line counts before the file's.
    code, _, err = check(capfd, FAST, "--config", config, "--max-idle", "0.1%")
    assert code == 1
    assert "1 of 12 gates failed" in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_idle = ", "cannot be read"),
        ('max_idel = "5%"', "there is no gate 'max_idel'"),
        ('max_idle = "much"', "'much' is not a percentage"),
        ("max_idle = true", "True is not a percentage"),
        ('max_gap = "long"', "max_gap: 'long' is not a time"),
        ("max_stall = 3", "max_stall is a table"),
        ('forbid = ["slowness"]', "there is no finding 'slowness'"),
        ("verdict = 3", "verdict is not a list of names"),
        ('min_steps_per_second = "fast"', "is not a number"),
        ("", "there is nothing to check"),
    ],
)
def test_a_broken_file_is_bad_usage(
    text: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "gates.toml"
    config.write_text(text)
    code, _, err = check(capfd, FAST, "--config", config)
    assert code == 2
    assert message in err


def test_broken_options_are_bad_usage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert check(capfd, FAST)[0] == 2
    assert check(capfd, FAST, "--max-idle", "some")[0] == 2
    assert check(capfd, FAST, "--max-stall", "munmap")[0] == 2
    assert check(capfd, FAST, "--verdict", "fast")[0] == 2
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"schema": "something/1"}))
    code, _, err = check(capfd, FAST, "--baseline", other)
    assert code == 2
    assert "is no report" in err
