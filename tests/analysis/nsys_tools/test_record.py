"""Recordings of real programs by the real nsys: whole, or not there, and no process left."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from analysis.errors import InputError, LabError, ToolError
from analysis.nsys import find, process
from analysis.nsys.environment import allowed, is_credential
from analysis.nsys.record import Recording, record
from analysis.nsys.redact import environments

from .conftest import CPU, MUNMAP_STALL, PROGRAMS, processes_with, small_disk, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.nsys

#: See test_process.py.
FAMILY = 6


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", textwrap.dedent(code))


def recorded(folder: Path, command: tuple[str, ...], **options: Any) -> Recording:
    return record(command, folder=folder, name="it", trace=CPU, **options)


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def query(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def word() -> Iterator[str]:
    word = f"nsyslab-test-{uuid.uuid4()}"
    yield word
    for pid in processes_with(word):
        os.kill(pid, signal.SIGKILL)


def family(word: str, seconds: float) -> tuple[str, ...]:
    return (sys.executable, str(PROGRAMS / "leaves_children.py"), word, str(seconds))


def test_what_a_recording_is(recording: Recording) -> None:
    assert contents(recording.report.parent) == ["stall.log", "stall.nsys-rep", "stall.sqlite"]
    assert recording.exit_code == 0
    assert recording.command == MUNMAP_STALL
    assert recording.nsys_version == find.find().version_text
    assert 0 < recording.seconds < 60
    assert recording.log.read_text() == "3 steps of 192 MB\n"
    names = {name for (name,) in query(recording.sqlite, "SELECT text FROM NVTX_EVENTS")} | {
        name
        for (name,) in query(
            recording.sqlite,
            "SELECT value FROM NVTX_EVENTS JOIN StringIds ON StringIds.id = textId",
        )
    }
    assert {"Batch 0", "Batch 1", "Batch 2", "get batch", "copy batch"} <= names
    calls = query(
        recording.sqlite,
        "SELECT count(*) FROM OSRT_API JOIN StringIds ON StringIds.id = nameId "
        "WHERE value = 'munmap' AND end - start > 1000000",
    )
    assert calls == [(3,)]


def test_the_program_is_the_only_one_in_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Neither a credential of ours nor one of another program gets into the report."""
    monkeypatch.setenv("HF_TOKEN", f"{word}-ours")
    monkeypatch.setenv("NVIDIA_API_KEY", f"{word}-allowed-by-name")
    monkeypatch.setenv("PYTHONPATH", "/some/where")
    other = {**os.environ, "AWS_SECRET_ACCESS_KEY": f"{word}-theirs"}
    with subprocess.Popen(["sleep", "60"], env=other) as neighbour:
        try:
            it = recorded(
                tmp_path,
                python("import os; print(sorted(os.environ)); print(os.environ['EXTRA'])"),
                extra_env={"EXTRA": "as asked"},
            )
        finally:
            neighbour.kill()
    variables = environments(it.sqlite)
    output = it.log.read_text().splitlines()
    assert "HF_TOKEN" not in output[0]
    assert output[1] == "as asked"
    assert ("PYTHONPATH", "/some/where") in variables
    alone = process.run(["sh", "-c", "echo $PPID"], alone=True).text == "1"
    if alone:
        assert [v for v in variables if word in v[1]] == []
        assert word.encode() not in it.sqlite.read_bytes()
        assert word.encode() not in it.report.read_bytes()
        assert it.notes == ()
    else:
        assert "AWS_SECRET_ACCESS_KEY" in it.notes[0]
        assert "nsyslab redact" in it.notes[0]


@pytest.mark.parametrize(
    ("name", "value", "passes"),
    [
        ("PATH", "/usr/bin", True),
        ("CUDA_VISIBLE_DEVICES", "0", True),
        ("OMP_NUM_THREADS", "4", True),
        ("PYTHONUNBUFFERED", "1", True),
        ("LC_ALL", "C.UTF-8", True),
        ("OMPI_COMM_WORLD_RANK", "1", True),
        ("OMPI_MCA_orte_top_session_dir", "/tmp/ompi.host.0", True),
        ("PMI_RANK", "1", True),
        ("SLURM_PROCID", "1", True),
        ("SLURM_JWT", "eyJhbGciOiJIUzI1NiJ9", False),
        ("NVIDIA_API_KEY", "nvapi-1", False),
        ("PYTHON_KEYRING_PASSWORD", "x", False),
        ("TORCH_HUB_TOKEN", "x", False),
        ("HF_TOKEN", "hf_1", False),
        ("AWS_SECRET_ACCESS_KEY", "x", False),
        ("USER", "alice", False),
        ("SSH_CONNECTION", "10.0.0.1 22", False),
        ("TORCH_HOME", "https://alice:pass@host/hub", False),
    ],
)
def test_which_variables_pass(name: str, value: str, passes: bool) -> None:
    assert (name in allowed({name: value})) is passes


def test_what_looks_like_a_credential() -> None:
    assert is_credential("DB_PASSWORD")
    assert is_credential("AWS_SESSION_TOKEN")
    assert is_credential("SESSION")
    assert is_credential("PIP_INDEX_URL", "https://me:secret@pypi.example.com/simple")
    assert not is_credential("PWD", "/home/alice")
    assert not is_credential("KEYBOARD", "us")
    assert not is_credential("PIP_INDEX_URL", "https://pypi.example.com/simple")


def test_the_program_has_its_own_place_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    code = "import tempfile; print(tempfile.gettempdir())"
    monkeypatch.setenv("TMPDIR", str(own))
    it = recorded(tmp_path / "a", python(code))
    assert it.log.read_text().splitlines()[0] == str(own)
    monkeypatch.delenv("TMPDIR")
    it = recorded(tmp_path / "b", python(code))
    assert it.log.read_text().splitlines()[0] == "/tmp"


def test_output_is_passed_on_as_it_comes(tmp_path: Path) -> None:
    pieces: list[tuple[float, bytes]] = []
    code = """
        import sys, time
        print("first", flush=True); time.sleep(1.5); print("second", file=sys.stderr, flush=True)
    """
    it = recorded(
        tmp_path, python(code), on_output=lambda piece: pieces.append((time.monotonic(), piece))
    )
    times = [next(t for t, p in pieces if text in p) for text in (b"first", b"second")]
    assert times[1] - times[0] > 1
    assert it.log.read_bytes() == b"first\nsecond\n"
    assert b"".join(piece for _, piece in pieces) == b"first\nsecond\n"


def test_a_last_line_without_an_end_is_kept(tmp_path: Path) -> None:
    assert recorded(tmp_path, ("printf", "so far: %d", "7")).log.read_bytes() == b"so far: 7"


def test_the_programs_input_is_ours(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from analysis.nsys.record import record;"
        f"it = record([sys.executable, '-c', 'print(input()[::-1])'],"
        f" folder=Path({str(tmp_path)!r}), name='it', trace=('osrt',));"
        "print(it.log.read_text().splitlines()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="olleh", capture_output=True, text=True, check=True
    )
    assert done.stdout == "hello\n"


def test_a_folder_that_nsys_would_misread(tmp_path: Path) -> None:
    folder = tmp_path / "100%h %q{HOME} ü'"
    it = recorded(folder, python("pass"))
    assert contents(folder) == ["it.log", "it.nsys-rep", "it.sqlite"]
    assert query(it.sqlite, "SELECT count(*) > 0 FROM OSRT_API") == [(1,)]


# Programs that do not do as they should.


def failure(folder: Path, command: tuple[str, ...], **options: Any) -> LabError:
    """The error of a recording that must fail, and leave nothing."""
    with pytest.raises(LabError) as error:
        recorded(folder, command, **options)
    assert contents(folder) == []
    return error.value


def test_a_program_that_fails(tmp_path: Path) -> None:
    # nsys 2022.4 sometimes stumbles over a program that ends at once, and says so at length.
    program = "import time; time.sleep(0.5)\n[print(i) for i in range(30)]; exit('no luck')"
    error = failure(tmp_path, python(program))
    assert isinstance(error, ToolError)
    assert "ended with exit code 1; the end of its output:" in str(error)
    assert str(error).endswith("  | 28\n  | 29\n  | no luck")
    assert "  | 5\n" not in str(error)
    assert "--env NAME" in str(error.hint)


def test_a_program_that_is_killed(tmp_path: Path) -> None:
    error = failure(tmp_path, python("import os; os.kill(os.getpid(), 11)"))
    assert "was ended by signal 11" in str(error)


def test_a_program_that_fails_without_a_word(tmp_path: Path) -> None:
    assert str(failure(tmp_path, ("false",))).endswith(
        "false ended with exit code 1; it wrote nothing"
    )


def test_a_program_whose_last_words_are_those_of_nsys(tmp_path: Path) -> None:
    """It is not started again, and it is not nsys that failed."""
    # Not at once, for the sake of nsys 2022.4.
    script = f"echo >> {tmp_path}/starts; sleep 0.5; echo End of file; exit 1"
    error = failure(tmp_path / "out", ("sh", "-c", script))
    assert str(error).endswith("ended with exit code 1; the end of its output:\n  | End of file")
    assert (tmp_path / "starts").read_text() == "\n"


def test_a_program_that_crashes_on_a_disk_with_little_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "50m") as disk:
        error = failure(disk, python("import os; os.kill(os.getpid(), 7)"))
    assert "was ended by signal 7" in str(error)
    assert f"MB are free in {disk}, where nsys puts what it records" in str(error.hint)


def test_a_program_that_never_starts_its_capture_range(tmp_path: Path) -> None:
    error = failure(tmp_path, MUNMAP_STALL, capture_range=True)
    assert isinstance(error, ToolError)
    assert str(error).startswith("no report was made because ")
    assert str(error).endswith("never started its capture range: it did not call cudaProfilerStart")
    assert "torch.cuda.profiler.start()" in str(error.hint)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    error = failure(tmp_path, ("no-such-program",))
    assert isinstance(error, InputError)
    assert "no-such-program was not found" in str(error)


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ((), {}, "no program to record"),
        (("true",), {"name": "../x"}, "cannot be the name of a recording"),
        (("true",), {"trace": ("cuda", "everything")}, "cannot trace everything"),
        (("true",), {"trace": ()}, "cannot trace nothing"),
    ],
)
def test_bad_arguments(
    tmp_path: Path, command: tuple[str, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        record(command, **{"folder": tmp_path, "name": "it", "trace": CPU, **options})
    assert contents(tmp_path) == []


# Processes.


def test_a_program_that_takes_too_long(tmp_path: Path, word: str) -> None:
    begin = time.monotonic()
    error = failure(tmp_path, family(word, 300), timeout_s=8)
    assert "did not end within 8 s; it was ended, with all that it had started" in str(error)
    assert time.monotonic() - begin < 30
    assert processes_with(word) == []


def test_what_the_program_leaves_behind_is_ended_and_the_report_made(
    tmp_path: Path, word: str
) -> None:
    it = recorded(tmp_path, family(word, 1), timeout_s=120)
    assert processes_with(word) == []
    assert it.notes[0].startswith(f"{FAMILY - 1} processes outlived the program and were ended")
    assert query(it.sqlite, "SELECT count(*) > 0 FROM OSRT_API") == [(1,)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_recorder_is_ended(tmp_path: Path, word: str, number: signal.Signals) -> None:
    command = json.dumps([*family("WORD", 300)])
    code = (
        "import sys; from pathlib import Path; from analysis.nsys.record import record\n"
        f"word = sys.stdin.read(); command = [word if p == 'WORD' else p for p in {command}]\n"
        f"record(command, folder=Path({str(tmp_path)!r}), name='it', trace=('osrt', 'nvtx'))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as recorder:
        assert recorder.stdin is not None
        recorder.stdin.write(word.encode())
        recorder.stdin.close()
        limit = time.monotonic() + 60
        # nsys and its launcher have the word in their command line, too.
        while len(processes_with(word)) < FAMILY + 2 and time.monotonic() < limit:
            time.sleep(0.05)
        time.sleep(0.5)
        recorder.send_signal(number)
        assert recorder.wait(timeout=60) in (1, -number)
    wait_until(0, word)
    # Killed at once, the recorder can't tidy up; its hidden folder is all that is left.
    left = [name for name in contents(tmp_path) if not name.startswith(".it.")]
    assert left == []
    if number == signal.SIGINT:
        assert contents(tmp_path) == []


# Files.


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    for suffix in (".nsys-rep", ".sqlite", ".log"):
        mine = tmp_path / f"it{suffix}"
        mine.write_text("mine")
        with pytest.raises(InputError, match=rf"it\{suffix} exists already") as error:
            recorded(tmp_path, python("pass"))
        assert "--force" in str(error.value.hint)
        assert mine.read_text() == "mine"
        assert contents(tmp_path) == [mine.name]
        mine.unlink()


def test_force_replaces_and_a_failure_leaves_the_old_one(tmp_path: Path) -> None:
    old = recorded(tmp_path, python("print('old')"))
    with pytest.raises(ToolError):
        recorded(tmp_path, python("raise SystemExit(1)"), force=True)
    assert old.log.read_text().startswith("old\n")
    new = recorded(tmp_path, python("print('new')"), force=True)
    assert new.log.read_text().startswith("new\n")
    assert contents(tmp_path) == ["it.log", "it.nsys-rep", "it.sqlite"]


@pytest.mark.parametrize("size", ["64k", "300k", "600k"])
def test_full_disk(tmp_path: Path, size: str) -> None:
    with small_disk(tmp_path / "disk", size) as disk:
        # Too small for anything, and enough for all but the export.
        with pytest.raises(InputError, match=rf"the disk of {disk} is full"):
            recorded(disk, MUNMAP_STALL)
        assert contents(disk) == []


def test_a_folder_where_nothing_can_be_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "disk", "300m", "noexec") as disk:
        monkeypatch.setenv("TMPDIR", str(disk))
        it = recorded(disk / "out", MUNMAP_STALL)
        assert query(it.sqlite, "SELECT count(*) > 0 FROM OSRT_API") == [(1,)]


# nsys.


def test_no_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "PLACES", ())
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("NSYS", raising=False)
    error = failure(tmp_path, (sys.executable, "-c", "pass"))
    assert str(error) == "nsys was not found"
    assert error.exit_code == 4


def test_an_nsys_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no --capture-range-end: the program would be killed at cudaProfilerStop."""
    old = tmp_path / "nsight" / "target-linux-x64" / "nsys"
    old.parent.mkdir(parents=True)
    old.write_text(
        "#!/bin/sh\n"
        'case "$1" in --version) echo "NVIDIA Nsight Systems version 2020.3.4.32-52657a0";;\n'
        "*) echo '--trace= --sample= --cpuctxsw= --wait= --show-output= --capture-range=';; esac\n"
    )
    old.chmod(0o755)
    importer = old.parents[1] / "host-linux-x64" / "QdstrmImporter"
    importer.parent.mkdir()
    importer.write_bytes(old.read_bytes())
    importer.chmod(0o755)
    monkeypatch.setenv("NSYS", str(old))
    error = failure(tmp_path / "out", MUNMAP_STALL, capture_range=True)
    assert str(error) == (
        f"nsys 2020.3.4.32-52657a0 ({old}) is too old: it has no --capture-range-end"
    )


@pytest.mark.parametrize("failures", [1, 2, 5])
@pytest.mark.parametrize(
    "words",
    [
        "/build/Src/POSIX/ProcessWaiterImpl.cpp(166): Throw in function QuadDCommon",
        "/build/ProtobufComm/Client/ClientProxy.cpp(381): Throw in function QuadDProtobufComm",
        "End of file",
        "Connection reset by peer",
    ],
)
def test_an_nsys_that_loses_its_agent(
    words: str, failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine nsys 2022.4 sometimes ends before it starts the program."""
    real = find.find()
    assert real.importer is not None
    busy = tmp_path / "nsight" / "target-linux-x64" / "nsys"
    busy.parent.mkdir(parents=True)
    (busy.parents[1] / "host-linux-x64").symlink_to(real.importer.parent)
    count = tmp_path / "starts"
    busy.write_text(
        f"""#!/bin/sh
        if [ "$1" = profile ] && [ "$2" != --help ]; then
            echo start >> {count}
            if [ "$(wc -l < {count})" -le {failures} ]; then
                echo "{words}"
                exit 1
            fi
        fi
        exec {real.path} "$@"
        """
    )
    busy.chmod(0o755)
    monkeypatch.setenv("NSYS", str(busy))
    if failures < 5:
        log = recorded(tmp_path / "out", MUNMAP_STALL).log
        assert log.read_text() == "3 steps of 192 MB\n"
        # A real one may be lost as well.
        assert failures < count.read_text().count("start") <= 5
    else:
        error = failure(tmp_path / "out", MUNMAP_STALL)
        assert str(error).startswith("nsys lost its agent: ")
        assert count.read_text().count("start") == 5
        # After a while, the program may have run.
        count.unlink()
        monkeypatch.setattr("analysis.nsys.record._GIVES_UP_S", 0)
        assert "nsys lost its agent" in str(failure(tmp_path / "out", MUNMAP_STALL))
        assert count.read_text().count("start") == 1


def test_every_option_is_one_of_this_nsys(recording: Recording) -> None:
    """nsys would have refused one that it does not know; the report holds the command line."""
    content = recording.report.read_bytes()
    for option in (b"--trace=osrt,nvtx", b"--sample=none", b"--cpuctxsw=none", b"--wait=primary"):
        assert option in content


def test_several_recordings_at_once(tmp_path: Path) -> None:
    """nsys shares state between all recordings of a machine."""
    made: list[Recording] = []

    def one(number: int) -> None:
        made.append(recorded(tmp_path / str(number), MUNMAP_STALL))

    for _ in range(2):
        threads = [threading.Thread(target=one, args=(len(made) + i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(made) == 8
    for it in made:
        assert query(it.sqlite, "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59") == [(9,)]
