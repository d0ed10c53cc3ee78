"""Files that cannot be read, and places that cannot be written: exit code 2 and a message.

Every case runs the installed command in a process of its own, without root's privileges.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.traces.traps import TRAPS
from tests.traces.writer import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NSYSLAB = Path(sys.executable).with_name("nsyslab")
#: Root without capabilities minds permissions like anybody else, and still owns its files.
UNPRIVILEGED = (
    ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"] if os.geteuid() == 0 else []
)
#: The commands that read a trace.
READERS = ("analyze", "info")


def nsyslab(*arguments: str | Path, **process: Any) -> subprocess.CompletedProcess[str]:
    command = [*UNPRIVILEGED, NSYSLAB, *arguments]
    process = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **process}
    return subprocess.run(command, text=True, timeout=120, check=False, **process)


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 2, all the words on stderr, and neither a traceback nor any output."""
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("nsyslab: "), done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert not done.stdout


def listing(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, hidden files too, with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A sound trace in a folder of its own."""
    folder = tmp_path / "traces"
    folder.mkdir()
    TRAPS["plain"].write(folder / "plain.sqlite")
    return folder / "plain.sqlite"


@pytest.fixture
def long_trace(tmp_path: Path) -> Path:
    """A trace of many pages, whose report has over 100 kB."""
    path = tmp_path / "long.sqlite"
    with TraceWriter(path) as w:
        for number in range(1000):
            at = number * 400_000
            w.kernel(at + 100_000, at + 200_000, call=w.api(at, at + 10_000))
    assert path.stat().st_size > 20 * 4096
    return path


@pytest.mark.parametrize("command", READERS)
class TestInput:
    def test_missing(self, command: str, tmp_path: Path) -> None:
        assert_refused(nsyslab(command, tmp_path / "gone.sqlite"), "gone.sqlite", "not exist")

    def test_not_sqlite(self, command: str, tmp_path: Path) -> None:
        path = tmp_path / "notes.sqlite"
        path.write_text("start,end,name\n1,2,kernel\n" * 100)
        assert_refused(nsyslab(command, path), "notes.sqlite", "not an SQLite database")

    def test_no_export_of_nsys(self, command: str, tmp_path: Path) -> None:
        path = tmp_path / "cookies.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE cookies (host TEXT, value TEXT)")
            database.commit()
        assert_refused(nsyslab(command, path), "cookies.sqlite", "not an export", "nsys export")

    def test_sqlite_without_tables(self, command: str, tmp_path: Path) -> None:
        path = tmp_path / "bare.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA user_version = 7")
            database.commit()
        assert_refused(nsyslab(command, path), "bare.sqlite", "not an export")

    def test_empty(self, command: str, tmp_path: Path) -> None:
        path = tmp_path / "empty.sqlite"
        path.touch()
        assert_refused(nsyslab(command, path), "empty.sqlite", "empty")

    @pytest.mark.parametrize("part", [0.001, 0.3, 0.5, 0.95])
    def test_cut_short(self, command: str, part: float, long_trace: Path) -> None:
        whole = long_trace.read_bytes()
        long_trace.write_bytes(whole[: int(len(whole) * part)])
        assert_refused(nsyslab(command, long_trace), "long.sqlite")

    def test_unreadable(self, command: str, trace: Path) -> None:
        trace.chmod(0)
        assert_refused(nsyslab(command, trace), "plain.sqlite", "ermission denied")

    def test_folder_without_reports(self, command: str, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("no report")
        assert_refused(nsyslab(command, tmp_path), str(tmp_path), ".nsys-rep")

    def test_folder_that_cannot_be_listed(self, command: str, trace: Path) -> None:
        trace.parent.chmod(0)
        try:
            assert_refused(nsyslab(command, trace.parent), str(trace.parent), "ermission denied")
        finally:
            trace.parent.chmod(0o755)


@pytest.mark.parametrize("filler", [b"\0", b"\xa5"], ids=["zeros", "noise"])
def test_damaged_in_the_middle(filler: bytes, long_trace: Path) -> None:
    """As long as it should be, with pages of rows overwritten."""
    content = bytearray(long_trace.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 8192] = filler * 8192
    long_trace.write_bytes(content)
    assert_refused(nsyslab("analyze", long_trace), "long.sqlite", "damaged")


def test_columns_of_another_type(tmp_path: Path) -> None:
    """Text where times should be: somebody edited the file."""
    path = tmp_path / "edited.sqlite"
    TRAPS["plain"].write(path)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'yesterday'")
        database.commit()
    assert_refused(nsyslab("analyze", path), "edited.sqlite")


def test_one_damaged_trace_of_two(trace: Path) -> None:
    """The report of the sound one is not taken for that of both."""
    (trace.parent / "broken.sqlite").write_bytes(trace.read_bytes()[:5000])
    done = nsyslab("analyze", trace.parent)
    assert done.returncode == 2, done.stderr
    assert "broken.sqlite" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "name",
    ["with space.sqlite", "a?b#c%41.sqlite", "-v.sqlite", "\u00e9\u4e2d.sqlite", "a'b\"c.sqlite"],
)
def test_awkward_file_names(name: str, trace: Path) -> None:
    """File names that mean something in a URI, to a shell or to an option parser."""
    trace.rename(trace.parent / name)
    done = nsyslab("analyze", "--format", "json", "--", name, cwd=trace.parent)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trace"]["path"].endswith(name)


def test_input_in_a_read_only_folder(trace: Path) -> None:
    """Reading needs no write access: neither a journal nor a cache beside the file."""
    before = listing(trace.parent)
    trace.chmod(0o444)
    trace.parent.chmod(0o555)
    try:
        done = nsyslab("analyze", trace, "--format", "json")
    finally:
        trace.parent.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert listing(trace.parent) == before


class TestOutput:
    """Each time the folder is as it was: nothing overwritten, nothing half-written."""

    def test_exists(self, trace: Path, tmp_path: Path) -> None:
        output = tmp_path / "report.json"
        output.write_text("mine")
        before = listing(tmp_path)
        done = nsyslab("analyze", trace, "--format", "json", "--output", output)
        assert_refused(done, "report.json", "exists", "--force")
        assert listing(tmp_path) == before

    def test_exists_and_force(self, trace: Path, tmp_path: Path) -> None:
        output = tmp_path / "report.json"
        output.write_text("mine")
        done = nsyslab("analyze", trace, "--format", "json", "--output", output, "--force")
        assert done.returncode == 0, done.stderr
        assert json.loads(output.read_text())["schema"] == "nsyslab.report/1"
        assert {path.name for path in tmp_path.iterdir()} == {"traces", "report.json"}

    def test_is_the_input(self, trace: Path) -> None:
        """Not even --force makes a report of the trace it is read from."""
        before = listing(trace.parent)
        done = nsyslab("analyze", trace, "--format", "json", "--output", trace, "--force")
        assert_refused(done, "plain.sqlite")
        assert listing(trace.parent) == before

    def test_folder_missing(self, trace: Path, tmp_path: Path) -> None:
        output = tmp_path / "gone" / "report.json"
        before = listing(tmp_path)
        done = nsyslab("analyze", trace, "--format", "json", "--output", output)
        assert_refused(done, str(output.parent))
        assert listing(tmp_path) == before

    def test_is_a_folder(self, trace: Path, tmp_path: Path) -> None:
        before = listing(tmp_path)
        for force in ((), ("--force",)):
            done = nsyslab("analyze", trace, "--format", "json", "--output", tmp_path, *force)
            assert_refused(done, str(tmp_path))
            assert listing(tmp_path) == before

    def test_read_only_folder(self, trace: Path, tmp_path: Path) -> None:
        folder = tmp_path / "fixed"
        folder.mkdir(mode=0o555)
        done = nsyslab("analyze", trace, "--format", "json", "--output", folder / "report.json")
        assert_refused(done, str(folder), "ermission denied")
        assert listing(folder) == {}

    def test_bad_input_makes_no_output(self, tmp_path: Path) -> None:
        broken = tmp_path / "broken.sqlite"
        broken.write_bytes(b"SQLite format 3\0" + b"\1" * 5000)
        output = tmp_path / "report.json"
        assert_refused(nsyslab("analyze", broken, "--format", "json", "--output", output))
        assert [path.name for path in tmp_path.iterdir()] == ["broken.sqlite"]


FULL_DISK = 64 * 1024


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None] | None, str]]:
    """A folder in which a file cannot grow past 64 kB, what limits it, and the complaint.

    A file system of that size where this process may mount one; else a limit on file sizes.
    """
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={FULL_DISK}", "tmpfs", str(folder)]
    if os.geteuid() == 0 and subprocess.run(mount, check=False).returncode == 0:
        yield folder, None, "disk is full"
        subprocess.run(["umount", str(folder)], check=True)
    else:
        yield folder, _limit_file_size, "File too large"


def _limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_DISK, FULL_DISK))


def test_disk_fills_up(
    long_trace: Path, full_disk: tuple[Path, Callable[[], None] | None, str]
) -> None:
    folder, limit, complaint = full_disk
    done = nsyslab(
        "analyze", long_trace, "--format", "json", "--output", folder / "r.json", preexec_fn=limit
    )
    assert_refused(done, complaint)
    assert listing(folder) == {}


def test_disk_fills_up_under_a_report_that_is_replaced(
    long_trace: Path, full_disk: tuple[Path, Callable[[], None] | None, str]
) -> None:
    """The old report survives a --force that fails."""
    folder, limit, complaint = full_disk
    (folder / "r.json").write_text("old")
    arguments = ("analyze", long_trace, "--format", "json", "--output", folder / "r.json")
    done = nsyslab(*arguments, "--force", preexec_fn=limit)
    assert_refused(done, complaint)
    assert listing(folder) == {"r.json": b"old"}


@pytest.mark.parametrize("form", ["json", "terminal", "markdown", "csv"])
def test_standard_output_on_a_full_disk(form: str, trace: Path) -> None:
    """A redirection cannot be undone, but it can be said that it failed."""
    with Path("/dev/full").open("w") as full:
        done = nsyslab("analyze", trace, "--format", form, stdout=full)
    assert done.returncode == 2
    assert "disk is full" in done.stderr
    assert "Traceback" not in done.stderr


def test_reader_that_goes_away(long_trace: Path) -> None:
    """``nsyslab analyze ... | head -1`` is no failure."""
    process = subprocess.Popen(
        [NSYSLAB, "analyze", long_trace, "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1) == "{"
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert stderr == ""
