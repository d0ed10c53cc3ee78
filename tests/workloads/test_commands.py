"""The commands as a user types them: what they write, and what they say when they cannot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from analysis import cli

BROKEN = Path(__file__).with_name("broken")
SMALL = ["--device", "cpu", "--batch-size", "2", "--image-size", "64", "--warmup", "1"]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Nsyslab = Callable[..., Outcome]


@pytest.fixture
def nsyslab(capfd: pytest.CaptureFixture[str]) -> Nsyslab:
    def run(*arguments: str | Path) -> Outcome:
        code = cli.run([str(argument) for argument in arguments])
        return Outcome(code, *capfd.readouterr())

    return run


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["run", "d2h_asinc"], "no workload 'd2h_asinc'", "did you mean d2h_async"),
        (["profile", "d2h_asinc"], "no workload 'd2h_asinc'", "did you mean d2h_async"),
        (["ladder", "d2"], "no ladder 'd2'", "did you mean d2h"),
        (["list", "--ladder", "zzz"], "no ladder 'zzz'", "there are augment, d2h"),
        (["run", "h2d_async", "--batch-size", "0"], "--batch-size must be at least 1, not 0", ""),
        (["run", "h2d_async", "--device", "tpu"], "--device must be cuda, cuda:N or cpu", ""),
        (["run", "h2d_async", "--sweep", "size=1"], "--sweep cannot vary 'size'", "batch-size"),
        (["run", "h2d_async", "--sweep", ""], "--sweep is empty", "--sweep batch-size=8,16,32"),
        (["run", "h2d"], "there is no workload 'h2d'", "it is a ladder (nsyslab ladder h2d)"),
        (["run", "no_such.py"], "no_such.py cannot be read: No such file", ""),
        (["ladder", "d2h", "--only", "d2h_assync"], "--only d2h_assync: no rung", "d2h_async"),
        (["ladder", "d2h_pool"], "no ladder 'd2h_pool'", "it is a rung of d2h"),
        (["ladder", "d2h", "--steps", "0"], "--steps must be at least 1, not 0", ""),
        (["ladder", "d2h", "--no-run", "--no-profile"], "leave nothing to do", ""),
        (["ladder", "d2h", "--from-recordings", "--verify"], "--from-recordings runs nothing", ""),
        (["ladder", "d2h", "--from-recordings", "-o", "none"], "none holds no recording", "-o DIR"),
        (["profile"], "nothing to record", "nsyslab profile -- "),
        (
            ["profile", "--seed", "3", "--profile-steps", "2", "--", "true"],
            "--seed, --profile-steps: for workloads only",
            "behind its name",
        ),
        (["profile", "h2d_async", "--capture-range"], "--capture-range: for programs", ""),
        (["profile", "python", "train"], "one recording at a time", "profile -- python train"),
        (["profile", __file__], "is not a workload", f"profile -- python {__file__}"),
        (["profile", "h2d_async", "--", "true"], "h2d_async is a workload", "another name"),
        (
            ["profile", "h2d_async", "--profiler", "torch", "--sample", "--env", "A=1"],
            "--sample, --env: for nsys only",
            "--profiler torch",
        ),
        (["profile", "-o", "/dev/null/x", "--", "true"], "/dev/null is not a folder", "-o DIR"),
        (["profile", "--env", "=1", "--", "true"], "--env =1: there is no such variable", ""),
        (
            ["profile", "--env", "NO_SUCH_VARIABLE", "--", "true"],
            "--env NO_SUCH_VARIABLE",
            "=VALUE",
        ),
    ],
)
def test_bad_usage(nsyslab: Nsyslab, arguments: list[str], message: str, hint: str) -> None:
    outcome = nsyslab(*arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert hint in outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def test_a_folder_with_a_recording_is_refused_before_anything_runs(
    nsyslab: Nsyslab, tmp_path: Path
) -> None:
    folder = tmp_path / "d2h_pool"
    folder.mkdir()
    (folder / "d2h_pool.nsys-rep").write_text("mine")

    for arguments in (["profile", "d2h_pool", "-o", folder], ["ladder", "d2h", "-o", tmp_path]):
        outcome = nsyslab(*arguments)
        assert outcome.code == 2
        assert f"{folder} holds a recording already" in outcome.err
        assert "--force replaces it" in outcome.err
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["d2h_pool.nsys-rep"]


def test_a_folder_with_something_else_is_not_called_a_recording(
    nsyslab: Nsyslab, tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    outcome = nsyslab("profile", "d2h_pool", "-o", tmp_path)
    assert outcome.code == 2
    assert f"{tmp_path} is not empty" in outcome.err


def test_a_table_is_not_overwritten(nsyslab: Nsyslab, tmp_path: Path) -> None:
    (tmp_path / "ladder_d2h.md").write_text("of last night")
    outcome = nsyslab("ladder", "d2h", "--no-profile", "-o", tmp_path)
    assert outcome.code == 2
    assert f"{tmp_path / 'ladder_d2h.md'} is there already" in outcome.err
    assert "--force replaces it" in outcome.err
    assert (tmp_path / "ladder_d2h.md").read_text() == "of last night"


def test_an_output_that_exists_is_refused_before_anything_runs(
    nsyslab: Nsyslab, tmp_path: Path
) -> None:
    (tmp_path / "result").write_text("mine")
    outcome = nsyslab("run", "d2h_pool", "-o", tmp_path / "result")
    assert outcome.code == 2
    assert "--force replaces it" in outcome.err


@pytest.mark.nsys
def test_a_program_of_ones_own(nsyslab: Nsyslab, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os; print('it says', os.environ.get('MINE'), os.environ.get('HERS'))")
    folder = tmp_path / "recording"
    program = ["--", sys.executable, script, "--seed", "3"]

    outcome = nsyslab("profile", "-o", folder, "--env", "MINE=17", *program)

    assert outcome.code == 0, outcome.err
    assert outcome.out == f"{folder / 'train.nsys-rep'}\n"
    assert sorted(path.name for path in folder.iterdir()) == [
        "run.json", "train.log", "train.nsys-rep", "train.sqlite",
    ]  # fmt: skip
    assert "it says 17 None" in (folder / "train.log").read_text()
    about = json.loads((folder / "run.json").read_text())
    assert about["schema"] == "nsyslab.recording/1"
    assert about["command"] == [sys.executable, str(script), "--seed", "3"]
    assert about["workload"] is None
    assert about["exit_code"] == 0
    assert about["nsys_version"]
    assert about["commit"]

    again = nsyslab("profile", "-o", folder, *program)
    assert again.code == 2
    assert "holds a recording already" in again.err
    assert nsyslab("profile", "-o", folder, "--force", *program).code == 0


@pytest.mark.nsys
def test_what_there_is_to_know_of_a_recording_is_said_and_kept(
    nsyslab: Nsyslab, tmp_path: Path
) -> None:
    program = ["--", sys.executable, "-c", "pass"]
    outcome = nsyslab("profile", "-o", tmp_path / "r", "--env", "MY_TOKEN=abc", *program)
    assert outcome.code == 0, outcome.err
    (note,) = json.loads((tmp_path / "r" / "run.json").read_text())["notes"]
    assert "what look like credentials: MY_TOKEN." in note
    assert note in outcome.err


@pytest.mark.nsys
@pytest.mark.parametrize(
    ("options", "code", "messages"),
    [
        ([], "print('so far'); raise SystemExit(7)", ["ended with exit code 7", "| so far"]),
        (["--capture-range"], "pass", ["no report was made because", "never started its capture"]),
        (["--timeout", "2"], "import time; time.sleep(60)", ["did not end within 2 s"]),
    ],
)
def test_a_program_that_leaves_no_report(
    nsyslab: Nsyslab, tmp_path: Path, options: list[str], code: str, messages: list[str]
) -> None:
    folder = tmp_path / "recording"
    outcome = nsyslab("profile", "-o", folder, *options, "--", sys.executable, "-c", code)
    assert outcome.code == 4
    for message in messages:
        assert message in outcome.err
    assert not folder.exists()


@pytest.mark.nsys
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ending_a_recording_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, docker stop, a terminal that is closed."""
    pid = tmp_path / "pid"
    (tmp_path / "tmp").mkdir()
    program = f"import os, time; open({str(pid)!r}, 'w').write('started'); time.sleep(100)"
    command = ["profile", "-o", tmp_path / "r", "--", sys.executable, "-c", program]
    with subprocess.Popen(
        [sys.executable, "-m", "analysis", *map(str, command)],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        limit = time.monotonic() + 60
        while not pid.exists() and time.monotonic() < limit:
            time.sleep(0.05)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.endswith("nsyslab: interrupted\n")
    assert not (tmp_path / "r").exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(pid) not in running.stdout


@pytest.mark.nsys
def test_a_failure_takes_the_folders_that_it_made(nsyslab: Nsyslab, tmp_path: Path) -> None:
    outcome = nsyslab("profile", "-o", tmp_path / "a" / "b", "--", "false")
    assert outcome.code == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nsys
def test_force_leaves_nothing_of_the_recording_before(nsyslab: Nsyslab, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    assert nsyslab("profile", "first", "-o", folder, "--", "true").code == 0
    (folder / "notes.txt").write_text("mine")
    assert nsyslab("profile", "second", "-o", folder, "--force", "--", "true").code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "notes.txt", "run.json", "second.log", "second.nsys-rep", "second.sqlite",
    ]  # fmt: skip


@pytest.mark.torch
def test_run_and_sweep(nsyslab: Nsyslab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSYSLAB_COMMIT", "abc123")
    output = tmp_path / "result.json"
    sweep = ["--sweep", "batch-size=1,2", "--steps", "3", "--format", "json", "-o", output]

    outcome = nsyslab("run", "encdec_serial", *SMALL, *sweep)

    assert outcome.code == 0, outcome.err
    records = json.loads(output.read_text())
    assert [record["parameters"]["batch_size"] for record in records] == [1, 2]
    for record in records:
        assert record["schema"] == "nsyslab.run/1"
        assert record["steps"] == 3
        assert record["steps_per_second"] == pytest.approx(3 / record["seconds"])
        assert record["gpu"] is None
        assert not record["profiled"]
        assert record["commit"] == "abc123"


@pytest.mark.torch
def test_a_sweep_shows_what_varies_and_survives_a_value_that_fails(nsyslab: Nsyslab) -> None:
    small = ["--device", "cpu", "--image-size", "32", "--batch-size", "1", "--warmup", "0"]
    varied = ["--sweep", "steps=1,2 seed=3 batch-size=1,100000", "--format", "markdown"]
    outcome = nsyslab("run", "vector_add_numba", *small, *varied)
    assert outcome.code == 2
    assert "nsyslab: steps 1, seed 3, batch-size 100000: numba's CUDA simulator" in outcome.err
    lines = [line.split(" | ") for line in outcome.out.splitlines()]
    assert lines[0][:5] == ["| workload", "batch size", "image size", "seed", "steps"]
    assert [(line[1], line[3], line[4], line[6] == "failed") for line in lines[2:]] == [
        ("1", "3", "1", False), ("100000", "3", "1", True),
        ("1", "3", "2", False), ("100000", "3", "2", True),
    ]  # fmt: skip


@pytest.mark.torch
def test_a_verification_that_takes_too_long(nsyslab: Nsyslab) -> None:
    outcome = nsyslab("run", "h2d_workers", *SMALL, "--verify", "--timeout", "0.2")
    assert outcome.code == 4
    assert "h2d_baseline did not end within 0.2 s" in outcome.err


@pytest.mark.torch
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def run(session): pass", "has no needs(parameters)"),
        ("def needs(parameters): pass", "has no run(session)"),
    ],
)
def test_a_workload_that_is_not_whole(
    nsyslab: Nsyslab, tmp_path: Path, source: str, message: str
) -> None:
    path = tmp_path / "half.py"
    path.write_text(
        "from workloads.registry import Workload\n"
        'WORKLOAD = Workload(ladder="h2d", rung=9, title="t", shows="s")\n' + source
    )
    outcome = nsyslab("run", path, *SMALL)
    assert outcome.code == 2
    assert f"half.py {message}" in outcome.err
    assert "docs/workloads.md" in outcome.err


@pytest.mark.torch
def test_max_seconds_ends_the_measured_steps(nsyslab: Nsyslab) -> None:
    outcome = nsyslab(
        "run", "vector_add_cpu", "--device", "cpu", "--steps", "1000000000", "--warmup", "0",
        "--max-seconds", "0.5", "--format", "json",
    )  # fmt: skip
    (record,) = json.loads(outcome.out)
    assert 0 < record["steps"] < 1_000_000_000
    assert 0.5 <= record["seconds"] < 5


@pytest.mark.torch
def test_verify_fails_the_command(nsyslab: Nsyslab) -> None:
    outcome = nsyslab("run", BROKEN / "h2d_hasty_pool.py", *SMALL, "--steps", "19", "--verify")
    assert outcome.code == 1
    assert "h2d_hasty_pool computes something else than h2d_baseline: images" in outcome.err
    assert "% of its elements, and may in none, first at step " in outcome.err
    assert outcome.out == ""


@pytest.mark.torch
def test_a_workload_that_crashes(nsyslab: Nsyslab, tmp_path: Path) -> None:
    path = tmp_path / "crash.py"
    path.write_text(
        "from workloads.needs import Needs\n"
        "from workloads.registry import Workload\n"
        'WORKLOAD = Workload(ladder="h2d", rung=9, title="t", shows="s")\n'
        "def needs(parameters):\n    return Needs(gpu=0)\n"
        "def run(session):\n    raise RuntimeError('no such luck')\n"
    )
    outcome = nsyslab("run", path, *SMALL)
    assert outcome.code == 4
    assert "crash failed with exit code 1" in outcome.err
    assert "RuntimeError: no such luck" in outcome.err.partition("the end of its output")[2]

    path.write_text(
        path.read_text().replace("raise RuntimeError(", "import os; os.kill(os.getpid(), 9) #")
    )
    killed = nsyslab("run", path, *SMALL)
    assert killed.code == 4
    assert "crash was ended by signal 9" in killed.err
    assert "memory of the machine, or of the container, may have run out" in killed.err


@pytest.mark.torch
def test_an_output_process_that_dies_ends_the_run(nsyslab: Nsyslab, tmp_path: Path) -> None:
    path = tmp_path / "dies.py"
    path.write_text(
        (BROKEN / "d2h_unwaited.py")
        .read_text()
        .replace("self._processes.put(part)", "self._processes.put('not an item')")
    )
    outcome = nsyslab("run", path, *SMALL, "--steps", "3", "--workers", "1")
    assert outcome.code == 4
    assert "an output process ended with exit code 1" in outcome.err


@pytest.mark.torch
def test_no_gpu_says_what_can_be_done(nsyslab: Nsyslab) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    outcome = nsyslab("run", "h2d_async")
    assert outcome.code == 2
    assert "no CUDA GPU can be used" in outcome.err
    assert outcome.err.count("--device cpu runs every workload") == 1


@pytest.mark.torch
def test_pytorch_profiler(nsyslab: Nsyslab, tmp_path: Path) -> None:
    outcome = nsyslab(
        "profile", "encdec_streams", *SMALL, "--profiler", "torch", "--profile-steps", "2",
        "-o", tmp_path / "trace",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    trace = json.loads((tmp_path / "trace" / "encdec_streams.pt.trace.json").read_text())
    ranges = [e["name"] for e in trace["traceEvents"] if e.get("cat") == "user_annotation"]
    assert [name for name in ranges if name.startswith("Batch")] == ["Batch 1", "Batch 2"]
    assert "train decoder" in ranges
    about = json.loads((tmp_path / "trace" / "run.json").read_text())
    assert about["profiler"] == "torch"
    assert about["run"]["profiled"]
    assert about["commit"]
    assert about["report"] is None
    assert "encdec_streams: 2 steps" in (tmp_path / "trace" / about["log"]).read_text()


@pytest.mark.torch
@pytest.mark.nsys
def test_record_a_workload_without_a_gpu(
    nsyslab: Nsyslab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSYSLAB_COMMIT", "abc123")
    folder = tmp_path / "d2h_pool"
    outcome = nsyslab("profile", "d2h_pool", *SMALL, "--workers", "1", "-o", folder)
    assert outcome.code == 0, outcome.err
    about = json.loads((folder / "run.json").read_text())
    assert about["workload"] == "d2h_pool"
    assert about["run"]["steps"] == 3
    assert about["run"]["profiled"]
    assert about["run"]["parameters"]["device"] == "cpu"
    assert about["trace"] is None
    assert "nsys-report" not in outcome.err
    assert f"{folder}/." not in outcome.err
    assert about["commit"] == about["run"]["commit"] == "abc123"
    assert b"abc123" not in (folder / about["sqlite"]).read_bytes()
    assert (folder / about["report"]).stat().st_size > 0
    info = nsyslab("analyze", folder, "--format", "json")
    report = json.loads(info.out)
    assert info.code == 3  # readable, and no GPU in it
    assert report["trace"]["traced"]["osrt"]
    assert report["stalls"]


@pytest.mark.torch
@pytest.mark.nsys
def test_a_recorded_workload_that_fails_says_why(nsyslab: Nsyslab, tmp_path: Path) -> None:
    outcome = nsyslab("profile", "vector_add_numba", "--device", "cpu", "-o", tmp_path / "x")
    assert outcome.code == 2
    assert "nsyslab: numba's CUDA simulator would take minutes" in outcome.err
    assert not (tmp_path / "x").exists()


@pytest.mark.torch
def test_a_ladder_that_cannot_be_climbed_leaves_nothing(nsyslab: Nsyslab, tmp_path: Path) -> None:
    size = ["--device", "cpu", "--image-size", "32", "--batch-size", "100000"]
    outcome = nsyslab(
        "ladder", "vector_add", *size, "--steps", "1", "--only", "vector_add_numba",
        "--no-profile", "-o", tmp_path / "r",
    )  # fmt: skip
    assert outcome.code == 4
    assert "vector_add_numba failed: numba's CUDA simulator" in outcome.out
    assert "vector_add_cpu failed" not in outcome.out
    assert not (tmp_path / "r").exists()

    again = nsyslab(
        "ladder", "vector_add", *size, "--steps", "1", "--timeout", "0.1", "--no-profile",
        "-o", tmp_path / "all",
    )  # fmt: skip
    assert again.code == 4
    assert "vector_add_cpu did not end within 0.1 s" in again.out
    assert not (tmp_path / "all").exists()


@pytest.mark.torch
@pytest.mark.nsys
def test_a_ladder(nsyslab: Nsyslab, tmp_path: Path) -> None:
    size = ["--device", "cpu", "--batch-size", "1", "--image-size", "32", "--warmup", "0"]
    outcome = nsyslab("ladder", "vector_add", *size, "--steps", "2", "--verify", "-o", tmp_path)
    assert outcome.code == 0, outcome.err
    table = json.loads((tmp_path / "ladder_vector_add.json").read_text())
    assert [row["name"] for row in table["rungs"]] == ["vector_add_cpu", "vector_add_numba"]
    assert [row["verified"] for row in table["rungs"]] == [True, True]
    assert table["rungs"][0]["against_baseline"] == 1
    for row in table["rungs"]:
        about = json.loads((tmp_path / row["name"] / "run.json").read_text())
        assert about["throughput"]["steps_per_second"] == row["per_second"]
        assert about["comparison"]["passed"]
        assert (tmp_path / row["name"] / about["sqlite"]).exists()
    markdown = (tmp_path / "ladder_vector_add.md").read_text()

    again = nsyslab("ladder", "vector_add", "--from-recordings", "-o", tmp_path)
    assert again.code == 0
    assert (tmp_path / "ladder_vector_add.md").read_text() == markdown

    one = nsyslab(
        "ladder", "vector_add", *size, "--steps", "3", "--force", "--only", "vector_add_cpu",
        "-o", tmp_path,
    )  # fmt: skip
    assert one.code == 0, one.err
    rows = json.loads((tmp_path / "ladder_vector_add.json").read_text())["rungs"]
    assert [row["run_steps"] for row in rows] == [3, 2]
    assert rows[1]["per_second"] == table["rungs"][1]["per_second"]
