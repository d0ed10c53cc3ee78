"""Programs that torchrun, mpirun or srun start several times, each under a recorder of its own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from analysis import cli
from analysis.nsys.environment import rank


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "4"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, 0),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 1),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8"}, 5),
        # A launcher of ranks may itself be a task of Slurm's.
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "RANK": "6", "WORLD_SIZE": "8"}, 6),
        # One alone; the script of a batch job; RANK of somebody else.
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, None),
        ({"RANK": "captain", "WORLD_SIZE": "4"}, None),
        ({}, None),
    ],
)
def test_rank(environment: dict[str, str], expected: int | None) -> None:
    assert rank(environment) == expected


def test_a_folder_may_be_named_after_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "7")
    folder = tmp_path / "run_7"
    folder.mkdir()
    (folder / "mine").touch()
    command = ["profile", "-o", str(tmp_path / "run_%q{OMPI_COMM_WORLD_RANK}"), "--", "true"]
    assert cli.run(command) == 2
    assert f"{folder} is not empty" in capsys.readouterr().err
    assert cli.run(["profile", "-o", "x/%q{NO_SUCH_VARIABLE}", "--", "true"]) == 2
    said = capsys.readouterr().err
    assert "-o x/%q{NO_SUCH_VARIABLE}: there is no variable NO_SUCH_VARIABLE" in said


def test_a_folder_that_another_recording_is_made_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ranks that were given one folder: neither replaces what the other makes."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    for force in ([], ["--force"]):
        assert cli.run(["profile", *force, "-o", str(tmp_path), "--", "true"]) == 2
        said = capsys.readouterr().err
        assert f"another recording is being made in {tmp_path}" in said
        assert "-o 'DIR/%q{RANK}'" in said
    os.close(descriptor)
    assert list(tmp_path.iterdir()) == []


# What a rank does: wait for the other, as the ranks of MPI do.
_PROGRAM = """
import os, time
from pathlib import Path
mine, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
Path(f"here_{mine}").touch()
limit = time.monotonic() + 60
while not all(Path(f"here_{each}").exists() for each in range(size)):
    assert time.monotonic() < limit, "the other rank did not come"
    time.sleep(0.05)
print(f"rank {mine} of {size}")
"""


@pytest.mark.nsys
def test_two_ranks_are_recorded_at_once(tmp_path: Path) -> None:
    """Each into a folder of its own, with the variables by which they know each other."""
    (tmp_path / "train.py").write_text(_PROGRAM)
    (tmp_path / "tmp").mkdir()
    with contextlib.ExitStack() as stack:
        started = []
        for number in range(2):
            process = subprocess.Popen(
                [sys.executable, "-m", "analysis", "profile", "--", sys.executable, "train.py"],
                cwd=tmp_path,
                env={
                    **os.environ,
                    "TMPDIR": str(tmp_path / "tmp"),
                    "OMPI_COMM_WORLD_RANK": str(number),
                    "OMPI_COMM_WORLD_SIZE": "2",
                },
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            started.append(process)
        said = [process.communicate(timeout=150)[1] for process in started]
    for number, process in enumerate(started):
        assert process.returncode == 0, said[number]
        folder = tmp_path / "reports" / f"train_rank{number}"
        about = json.loads((folder / "run.json").read_text())
        assert about["report"] == f"train_rank{number}.nsys-rep"
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            ["run.json", *(about[key] for key in ("report", "sqlite", "log"))]
        )
        assert (folder / about["log"]).read_text() == f"rank {number} of 2\n"
    # Of nsys' state; the streams are gone.
    assert not list((tmp_path / "tmp").rglob("*.qdstrm"))
