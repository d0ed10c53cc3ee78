"""Reports, streams and their exports: what is used, what is made, what is left alone."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.commands._inputs import find_recordings
from analysis.errors import InputError, ToolError
from analysis.nsys import export, process
from analysis.nsys.export import ExportUse, make_export, report_version, sqlite_for
from analysis.nsys.find import find
from analysis.nsys.importer import stream_version
from analysis.nsys.recording import open_recording

from .conftest import CPU, MUNMAP_STALL, read_only, small_disk

if TYPE_CHECKING:
    from analysis.nsys.record import Recording

pytestmark = pytest.mark.nsys

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def by_hand(report: Path, output: Path) -> Path:
    """An export as a user makes it."""
    nsys = find().path
    subprocess.run(
        [nsys, "export", "--type=sqlite", "--quiet=true", f"--output={output}", report], check=True
    )
    return output


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM OSRT_API").fetchone()[0])


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def change(report: Path, recording: Recording) -> None:
    """Another recording of the same size under the same name."""
    content = bytearray(recording.report.read_bytes())
    place = content.index(b"munmap_stall.py")
    content[place : place + 6] = b"MUNMAP"
    report.write_bytes(content)


def test_an_export_is_made_once(report: Path, cache: Path, recording: Recording) -> None:
    said: list[str] = []
    use = sqlite_for(report, cache_dir=cache, on_status=said.append)
    assert use == ExportUse(report.with_suffix(".sqlite"), report)
    assert rows(use.sqlite) == rows(recording.sqlite) > 0
    assert said[0] == "exporting stall.nsys-rep"
    made = use.sqlite.stat()
    assert sqlite_for(report, cache_dir=cache) == use
    assert (use.sqlite.stat().st_ino, use.sqlite.stat().st_mtime_ns) == (
        made.st_ino,
        made.st_mtime_ns,
    )
    assert leftovers(report.parent) == []
    assert not cache.exists()


def test_force_exports_again(report: Path, cache: Path) -> None:
    first = sqlite_for(report, cache_dir=cache).sqlite.stat().st_ino
    assert sqlite_for(report, cache_dir=cache, force=True).sqlite.stat().st_ino != first


def test_a_copied_or_touched_report_keeps_its_export(report: Path, cache: Path) -> None:
    made = sqlite_for(report, cache_dir=cache).sqlite.stat().st_ino
    os.utime(report, (1, 1))
    assert sqlite_for(report, cache_dir=cache).sqlite.stat().st_ino == made
    os.utime(report, (4e9, 4e9))
    assert sqlite_for(report, cache_dir=cache).sqlite.stat().st_ino == made


def test_a_changed_report_is_exported_again(
    report: Path, cache: Path, recording: Recording
) -> None:
    made = sqlite_for(report, cache_dir=cache).sqlite.stat().st_ino
    change(report, recording)
    use = sqlite_for(report, cache_dir=cache)
    assert use.sqlite.stat().st_ino != made
    assert use.notes == (
        f"stall.nsys-rep has changed since {use.sqlite} was made of it; made a new one",
    )


def test_a_changed_report_of_the_same_size_and_time_is_exported_again(
    report: Path, cache: Path, recording: Recording
) -> None:
    before = report.stat()
    made = sqlite_for(report, cache_dir=cache).sqlite.stat().st_ino
    change(report, recording)
    os.utime(report, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert report.stat().st_size == before.st_size
    assert sqlite_for(report, cache_dir=cache).sqlite.stat().st_ino != made


def test_an_export_of_the_users_that_fits_is_used_and_said(report: Path, cache: Path) -> None:
    own = by_hand(report, report.with_suffix(".sqlite"))
    content = own.read_bytes()
    use = sqlite_for(report, cache_dir=cache)
    assert use.sqlite == own
    assert use.notes == (f"used {own}, which is newer than stall.nsys-rep",)
    assert own.read_bytes() == content


@pytest.mark.parametrize("force", [False, True])
def test_an_old_export_of_the_users_is_neither_used_nor_touched(
    report: Path, cache: Path, force: bool
) -> None:
    own = by_hand(report, report.with_suffix(".sqlite"))
    os.utime(own, (1, 1))
    content = own.read_bytes()
    use = sqlite_for(report, cache_dir=cache, force=force)
    assert use.sqlite.is_relative_to(cache)
    assert rows(use.sqlite) == rows(own)
    assert any(f"{own} stays as it is" in note for note in use.notes)
    assert own.read_bytes() == content
    # The one in the cache is used the next time.
    again = sqlite_for(report, cache_dir=cache)
    assert again.sqlite == use.sqlite
    assert again.notes == (
        f"{own} is older than stall.nsys-rep and was not used",
        f"used the export in the cache: {use.sqlite}",
    )


def test_an_export_of_another_report_is_not_used(report: Path, cache: Path) -> None:
    other = report.with_name("other.nsys-rep")
    shutil.copy(report, other)
    own = by_hand(other, report.with_suffix(".sqlite"))
    use = sqlite_for(report, cache_dir=cache)
    assert use.sqlite.is_relative_to(cache)
    assert f"{own} was exported from other.nsys-rep, not from stall.nsys-rep" in use.notes[0]


@pytest.mark.parametrize("content", [b"", b"not SQLite", b"SQLite format 3\0" + b"x" * 2000])
def test_what_is_no_export_stays(report: Path, cache: Path, content: bytes) -> None:
    own = report.with_suffix(".sqlite")
    own.write_bytes(content)
    use = sqlite_for(report, cache_dir=cache)
    assert use.sqlite.is_relative_to(cache)
    assert use.notes[0] == f"{own} is not an nsys export and was not used"
    assert own.read_bytes() == content


def test_an_export_that_is_named_is_used(report: Path, cache: Path, recording: Recording) -> None:
    use = sqlite_for(report, cache_dir=cache)
    assert sqlite_for(use.sqlite) == ExportUse(use.sqlite, use.sqlite)
    change(report, recording)
    (note,) = sqlite_for(use.sqlite).notes
    assert note == (
        f"{report} has changed since {use.sqlite} was made of it; name the report to read it"
    )
    # So say all commands that read it.
    assert open_recording(use.sqlite)[1] == (note,)


def test_reports_under_their_old_name(report: Path, cache: Path) -> None:
    old = report.rename(report.with_suffix(".qdrep"))
    assert find_recordings([old.parent]) == [old]
    trace, notes = open_recording(old)
    assert (trace.provenance.path, notes) == (str(old), ())
    assert old.with_suffix(".sqlite").is_file()


def test_a_folder_that_cannot_be_written_to(
    report: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sealed")
    sealed = folder / report.name
    shutil.copy(report, sealed)
    with read_only(folder):
        use = sqlite_for(sealed, cache_dir=cache)
        assert use.sqlite.is_relative_to(cache)
        assert use.notes[0].startswith(f"{folder} cannot be written to; the export is in the cache")
        assert sqlite_for(sealed, cache_dir=cache).sqlite == use.sqlite
    assert [path.name for path in folder.iterdir()] == [report.name]


def test_nowhere_to_write(
    report: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sealed")
    shutil.copy(report, folder)
    with read_only(folder), pytest.raises(InputError, match="neither the report's folder nor"):
        sqlite_for(folder / report.name, cache_dir=folder / "cache")


@pytest.mark.parametrize("size", ["64k", "256k", "320k", "448k"])
def test_full_disk(report: Path, tmp_path: Path, size: str) -> None:
    """nsys itself ends with 0 on a full disk and leaves an empty file."""
    with small_disk(tmp_path / "disk", size) as disk:
        if report.stat().st_size < int(size[:-1]) * 1024:
            shutil.copy(report, disk)
        with pytest.raises(InputError, match=rf"the disk of {disk} is full: stall.sqlite was not"):
            make_export(report, disk / "stall.sqlite")
        assert [path.name for path in disk.iterdir() if path.suffix != ".nsys-rep"] == []


def test_output_that_exists(report: Path, tmp_path: Path) -> None:
    output = tmp_path / "mine.sqlite"
    output.write_text("mine")
    with pytest.raises(InputError, match="exists already") as error:
        make_export(report, output)
    assert "--force" in str(error.value.hint)
    assert output.read_text() == "mine"
    make_export(report, output, replace=True)
    assert rows(output) > 0


def test_output_in_no_folder(report: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        make_export(report, tmp_path / "no" / "out.sqlite")


def test_names_that_a_shell_would_misread(report: Path, tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "a b'; $(touch x) %h \"ü"
    folder.mkdir()
    strange = folder / "-r %p{x}.nsys-rep"
    shutil.copy(report, strange)
    use = sqlite_for(strange, cache_dir=cache)
    assert use.sqlite == folder / "-r %p{x}.sqlite"
    assert rows(use.sqlite) > 0


@pytest.mark.parametrize("at", [1, 2])
def test_interrupted_export_leaves_nothing(report: Path, cache: Path, at: int) -> None:
    """Before nsys is started, and when it has shown its first progress."""
    seen: list[str] = []

    def interrupt(text: str) -> None:
        seen.append(text)
        if len(seen) == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sqlite_for(report, cache_dir=cache, on_status=interrupt)
    assert [path.name for path in report.parent.iterdir()] == [report.name]


def test_two_at_once(report: Path, cache: Path) -> None:
    uses: list[ExportUse] = []
    threads = [
        threading.Thread(target=lambda: uses.append(sqlite_for(report, cache_dir=cache)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [use.sqlite for use in uses] == [report.with_suffix(".sqlite")] * 3
    assert rows(uses[0].sqlite) > 0
    assert leftovers(report.parent) == []


# Reports and streams that cannot be read.


def bad(report: Path, content: bytes) -> None:
    report.write_bytes(content)


def test_an_empty_report(report: Path, cache: Path) -> None:
    bad(report, b"")
    with pytest.raises(InputError, match=r"stall\.nsys-rep is empty"):
        sqlite_for(report, cache_dir=cache)


def test_no_report_at_all(report: Path, cache: Path) -> None:
    bad(report, b"PK\3\4" + b"x" * 10_000)
    with pytest.raises(InputError, match="is not an Nsight Systems report"):
        sqlite_for(report, cache_dir=cache)


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_a_truncated_report(report: Path, cache: Path, part: float) -> None:
    content = report.read_bytes()
    bad(report, content[: int(len(content) * part)])
    with pytest.raises(InputError, match="cannot be exported; nsys") as error:
        sqlite_for(report, cache_dir=cache)
    assert "damaged or incomplete" in str(error.value.hint)
    assert [path.name for path in report.parent.iterdir()] == [report.name]


def test_a_report_whose_header_has_no_version(tmp_path: Path, cache: Path) -> None:
    """The nsys that comes with Nsight Compute 2025.3 writes a number there."""
    shipped = ROOT / "reports" / "h200" / "vector_add_numba" / "vector_add_numba.nsys-rep"
    report = Path(shutil.copy(shipped, tmp_path))
    assert report_version(report) is None
    nsys = find()
    if nsys.version >= (2025, 3):
        assert sqlite_for(report, cache_dir=cache).sqlite == report.with_suffix(".sqlite")
        return
    with pytest.raises(ToolError) as error:
        sqlite_for(report, cache_dir=cache)
    assert str(error.value) == (
        f"{report} is in a format (36398880) that nsys {nsys.version_text} ({nsys.path}) does not "
        "know"
    )
    assert not report.with_suffix(".sqlite").exists()


def test_a_report_of_a_newer_nsys(report: Path, cache: Path) -> None:
    header = re.compile(rb"(NVIDIA Tegra Profiler Report )[^.\n]+\.")
    content = report.read_bytes()
    bad(report, header.sub(rb"\g<1>2031@2@1@77-310123456789v0.", content, count=1))
    assert report_version(report) == "2031.2.1.77"
    with pytest.raises(ToolError) as error:
        sqlite_for(report, cache_dir=cache)
    nsys = find()
    assert str(error.value) == (
        f"{report} was written by nsys 2031.2.1.77; nsys {nsys.version_text} ({nsys.path}) is "
        "older and cannot read it"
    )
    assert error.value.hint == "install nsys 2031.2 or newer, or name it: NSYS=/path/to/nsys"


def test_the_version_in_a_report(report: Path) -> None:
    assert report_version(report) == ".".join(str(part) for part in find().version)


@pytest.mark.parametrize("name", ["missing.nsys-rep", "missing.sqlite", "missing.qdstrm"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="does not exist"):
        sqlite_for(tmp_path / name)


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        sqlite_for(tmp_path)


# Streams.


@pytest.fixture(scope="module")
def original_stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stream of a recording; nsys deletes it, so a second name for the file is made in time."""
    folder = tmp_path_factory.mktemp("stream")
    (folder / "tmp").mkdir()
    kept = folder / "kept.qdstrm"
    command: list[str | Path] = [
        find().path,
        "profile",
        f"--trace={','.join(CPU)}",
        "--sample=none",
    ]
    command += ["--cpuctxsw=none", f"--output={folder / 'stall'}", *MUNMAP_STALL]
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    # Its state apart from that of other recordings, as `record` has it.
    thread = threading.Thread(
        target=lambda: process.run(command, env=environment, alone=True, own_shm=True)
    )
    thread.start()
    while thread.is_alive() and not kept.exists():
        for path in (folder / "tmp").glob("*.qdstrm"):
            kept.hardlink_to(path)
        time.sleep(0.01)
    thread.join()
    return kept


@pytest.fixture
def stream(original_stream: Path, tmp_path: Path) -> Path:
    return shutil.copy(original_stream, tmp_path / "stall.qdstrm")


def test_a_stream_without_report_is_imported(stream: Path, cache: Path) -> None:
    use = sqlite_for(stream, cache_dir=cache)
    report = stream.with_suffix(".nsys-rep")
    assert use == ExportUse(
        report.with_suffix(".sqlite"), stream, (f"stall.qdstrm had no report; made {report}",)
    )
    assert rows(use.sqlite) > 0
    assert leftovers(stream.parent) == []
    made = report.stat().st_ino
    use = sqlite_for(stream, cache_dir=cache)
    assert use.notes == ("stall.nsys-rep is the report of stall.qdstrm and was used",)
    assert report.stat().st_ino == made


def test_a_stream_where_nothing_can_be_written(
    stream: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sealed")
    shutil.copy(stream, folder)
    with read_only(folder):
        use = sqlite_for(folder / stream.name, cache_dir=cache)
        assert use.sqlite.is_relative_to(cache)
        again = sqlite_for(folder / stream.name, cache_dir=cache)
        assert again.sqlite == use.sqlite
        assert "was used" in again.notes[0]


def test_a_stream_of_another_version(stream: Path, cache: Path) -> None:
    version = stream_version(stream).encode()
    content = stream.read_bytes()
    stream.write_bytes(content.replace(b"Stream " + version, b"Stream 2031.2.1.77", 1))
    with pytest.raises(ToolError) as error:
        sqlite_for(stream, cache_dir=cache)
    assert f"{stream} was recorded by nsys 2031.2.1.77" in str(error.value)
    assert f"installed: {find().version_text}" in str(error.value)
    assert str(error.value.hint).startswith("install nsys 2031.2.1.77 here")


def test_no_stream_at_all(stream: Path, cache: Path) -> None:
    stream.write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="is not the raw stream of an Nsight Systems recording"):
        sqlite_for(stream, cache_dir=cache)


def test_a_truncated_stream(stream: Path, cache: Path) -> None:
    content = stream.read_bytes()
    stream.write_bytes(content[: len(content) // 3])
    with pytest.raises(ToolError, match=r"the importer of nsys .* failed on"):
        sqlite_for(stream, cache_dir=cache)
    assert [path.name for path in stream.parent.iterdir()] == [stream.name]


@pytest.fixture
def lame_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real nsys with its real importer, less the link to libssh: what lacks libssh-4 sees."""
    real = find()
    assert real.importer is not None
    home = tmp_path / "nsight"
    (home / "target-linux-x64").mkdir(parents=True)
    (home / "host-linux-x64").mkdir()
    nsys = home / "target-linux-x64" / "nsys"
    nsys.write_text(f'#!/bin/sh\nexec {real.path} "$@"\n')
    nsys.chmod(0o755)
    for path in real.importer.parent.iterdir():
        if path == real.importer:
            shutil.copy2(path, home / "host-linux-x64")
        elif path.name.startswith("lib") and not path.name.startswith("libssh"):
            (home / "host-linux-x64" / path.name).symlink_to(path)
    monkeypatch.setenv("NSYS", str(nsys))
    monkeypatch.setattr("analysis.nsys.find.PLACES", ())
    monkeypatch.setenv("PATH", "/nowhere:" + str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ldd").symlink_to("/usr/bin/ldd")
    return nsys


def test_an_importer_that_lacks_a_library(stream: Path, cache: Path, lame_nsys: Path) -> None:
    with pytest.raises(ToolError) as error:
        sqlite_for(stream, cache_dir=cache)
    assert re.fullmatch(
        r"the importer of nsys \S+ cannot start: libssh\.so(\.4)? is missing", str(error.value)
    )
    assert error.value.hint == "apt-get install libssh-4"
    assert error.value.exit_code == 4
    # Reports are exported without an importer.
    assert find().missing_libraries


def test_an_nsys_without_importer(stream: Path, cache: Path, lame_nsys: Path) -> None:
    shutil.rmtree(lame_nsys.parent.parent / "host-linux-x64")
    with pytest.raises(ToolError, match="has no QdstrmImporter") as error:
        sqlite_for(stream, cache_dir=cache)
    assert "install the whole of Nsight Systems" in str(error.value.hint)


def test_the_mark_names_the_report(report: Path, cache: Path) -> None:
    use = sqlite_for(report, cache_dir=cache)
    with closing(sqlite3.connect(use.sqlite)) as connection:
        mark = dict(connection.execute(f"SELECT name, value FROM {export.MARK}"))
    assert mark["report"] == "stall.nsys-rep"
    assert int(mark["size"]) == report.stat().st_size
    assert int(mark["mtime_ns"]) == report.stat().st_mtime_ns
    assert mark["nsys"] == find().version_text
