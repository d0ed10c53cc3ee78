"""From a report to its SQLite export, without ever using a stale one.

An export made here carries a table of its own, `MARK`, that says of which report it was made: size,
time, and digests. Whatever lacks that table is the user's and is never written to.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import sqlite3
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import InputError, ToolError
from analysis.nsys import process
from analysis.nsys.environment import allowed
from analysis.nsys.files import disk_full, refuse_existing, staging
from analysis.nsys.find import Nsys, find_newest, parse_version
from analysis.nsys.importer import import_stream, importer_for
from analysis.nsys.progress import percent
from analysis.nsys.suffixes import EXPORT_SUFFIX, REPORT_SUFFIXES, STREAM_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The table that marks an export as made here.
MARK = "NSYSLAB_EXPORT"
#: Where nsys says how an export was made: since 2023, and before.
_ABOUT = (
    ("META_DATA_EXPORT", "EXPORT_PARAM_INPUT_FILE"),
    ("EXPORT_META_DATA", "EXPORT_INPUT_FILE"),
)
_SAMPLE_BYTES = 1 << 20
# "NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0."; "1." up to 2022.
_HEADER = re.compile(rb"NVIDIA Tegra Profiler Report ([^.\n]{1,80})\.")
_HEADER_BYTES = 256
# The older ones have the version only in a section near the end.
_VERSION_INSIDE = re.compile(rb"(20[12]\d\.\d+\.\d+\.\d+)-[0-9a-zA-Z]+")
_FOOTER_BYTES = 1 << 16
# Said of reports whose header has a number instead (of the nsys in Nsight Compute 2025.3).
_UNSUPPORTED = re.compile(r"Version not supported: (\S+)")


@dataclass(frozen=True)
class ExportUse:
    """The export to read.

    Attributes:
        sqlite: The SQLite file.
        source: The file that the user named.
        notes: What was used or made and why, where that is not plain; sentences for the user.
    """

    sqlite: Path
    source: Path
    notes: tuple[str, ...] = ()


def sqlite_for(
    path: Path,
    *,
    force: bool = False,
    cache_dir: Path | None = None,
    on_status: Callable[[str], None] | None = None,
) -> ExportUse:
    """The SQLite export of a recording, made if there is none that fits.

    An export is looked for, and made, beside the report; where that folder can't be written to, or
    an export of the user's own that does not fit is in the way, in the cache.

    Args:
        path: An export (given back as it is), a report, or the .qdstrm of a recording.
        force: Make a new export although there is one that fits.
        cache_dir: The cache; ``$XDG_CACHE_HOME/nsys-lab`` if None.
        on_status: Gets a line of text now and then.

    Returns:
        The export, and what there is to say about it.

    Raises:
        InputError: `path` is missing, unreadable, damaged or no recording, or the disk is full.
        ToolError: nsys is missing, too old for the report, or failed.
    """
    path = Path(path)
    _check_readable(path)
    cache = cache_dir if cache_dir is not None else default_cache()
    if path.suffix == STREAM_SUFFIX:
        report, told = _report_of_stream(path, cache, on_status)
        use = sqlite_for(report, force=force, cache_dir=cache_dir, on_status=on_status)
        return ExportUse(use.sqlite, path, (*told, *use.notes))
    if path.suffix not in REPORT_SUFFIXES:
        return ExportUse(path, path, _about_named_export(path))

    beside = path.with_suffix(EXPORT_SUFFIX)
    cached = cache / "exports" / _place_in_cache(path) / beside.name
    notes: list[str] = []
    for candidate in () if force else (beside, cached):
        fits, why = _fits(candidate, path)
        notes += [why] if why else []
        if fits:
            if candidate == cached:
                notes.append(f"used the export in the cache: {cached}")
            return ExportUse(candidate, path, tuple(notes))
    own = not beside.exists() or _mark(beside) is not None
    if own and _writable(path.parent):
        target = beside
    else:
        target = cached
        reason = f"{path.parent} cannot be written to" if own else f"{beside} stays as it is"
        notes.append(f"{reason}; the export is in the cache: {cached}")
        _make_cache(cached.parent)
    make_export(path, target, replace=True, on_status=on_status)
    return ExportUse(target, path, tuple(notes))


def make_export(
    report: Path,
    output: Path,
    *,
    replace: bool = False,
    on_status: Callable[[str], None] | None = None,
) -> Nsys:
    """Export a report with the newest nsys.

    Args:
        report: A .nsys-rep.
        output: Where the SQLite file goes; appears whole or not at all.
        replace: Whether `output` may exist.
        on_status: Gets a line of text now and then.

    Returns:
        The nsys that did it.

    Raises:
        InputError: The report is damaged or none, `output` exists, or the disk is full.
        ToolError: nsys is missing, too old for the report, or failed.
    """
    refuse_existing([output], force=replace)
    _check_report(report)
    nsys = find_newest()
    label = f"exporting {report.name}"
    if on_status is not None:
        on_status(label)
    before = fingerprint(report)
    try:
        with staging(output.parent, output.name) as folder:
            made = folder / output.name
            done = process.run(
                [nsys.path, "export", "--type=sqlite", f"--output={made}", report],
                env=allowed(os.environ),
                on_output=percent(on_status, label),
            )
            _check_export(done, made, report, nsys)
            if fingerprint(report) != before:
                raise InputError(
                    f"{report} was changed while it was being exported",
                    hint="wait until its recording is complete",
                )
            _write_mark(made, report, before, nsys)
            made.replace(output)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(output.parent, output.name) from error
        raise InputError(f"{output} cannot be written: {error.strerror}") from error
    return nsys


def report_version(report: Path) -> str | None:
    """The nsys version that wrote a report, as "2023.4.4.54"; None if it does not say.

    Raises:
        InputError: It is no report.
    """
    with report.open("rb") as file:
        match = _HEADER.search(file.read(_HEADER_BYTES))
        file.seek(max(0, report.stat().st_size - _FOOTER_BYTES))
        footer = file.read()
    if match is None:
        raise InputError(
            f"{report} is not an Nsight Systems report",
            hint="a report begins with the words NVIDIA Tegra Profiler Report",
        )
    version = parse_version(match[1].decode(errors="replace"))
    if version:
        return ".".join(map(str, version))
    inside = _VERSION_INSIDE.findall(footer)
    return inside[-1].decode() if inside else None


@dataclass(frozen=True)
class Fingerprint:
    """What identifies the content of a report.

    Attributes:
        size: Bytes.
        mtime_ns: When it was written.
        sample: Digest of its beginning and end.
    """

    size: int
    mtime_ns: int
    sample: str


def fingerprint(report: Path) -> Fingerprint:
    """The fingerprint of a report as it is now."""
    with report.open("rb") as file:
        stat = os.fstat(file.fileno())
        digest = hashlib.blake2b(file.read(_SAMPLE_BYTES), digest_size=16)
        if stat.st_size > 2 * _SAMPLE_BYTES:
            file.seek(-_SAMPLE_BYTES, os.SEEK_END)
        digest.update(file.read(_SAMPLE_BYTES))
    return Fingerprint(stat.st_size, stat.st_mtime_ns, digest.hexdigest())


def default_cache() -> Path:
    """Where exports go that can't be beside their report."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "nsys-lab"


def _digest(report: Path) -> str:
    with report.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _check_readable(path: Path) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder", hint="name a report or an export in it")
    try:
        with path.open("rb"):
            pass
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _check_report(report: Path) -> None:
    _check_readable(report)
    if report.stat().st_size == 0:
        raise InputError(
            f"{report} is empty", hint="the recording did not finish, or the disk was full; redo it"
        )
    report_version(report)


def _report_of_stream(
    stream: Path, cache: Path, on_status: Callable[[str], None] | None
) -> tuple[Path, tuple[str, ...]]:
    beside = stream.with_suffix(REPORT_SUFFIXES[0])
    if beside.exists():
        return beside, (f"{beside.name} is the report of {stream.name} and was used",)
    report = beside
    if not _writable(stream.parent):
        state = fingerprint(stream)
        version = f"{state.size}-{state.mtime_ns}-{state.sample}"
        report = cache / "reports" / _place_in_cache(stream) / version / beside.name
        if report.exists():
            return report, (f"{report} is the report of {stream.name} and was used",)
    nsys = importer_for(stream)
    _make_cache(report.parent)
    try:
        with staging(report.parent, report.name) as folder:
            made = folder / report.name
            import_stream(stream, made, nsys, on_status=on_status)
            made.replace(report)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(report.parent, report.name) from error
        raise InputError(f"{report} cannot be written: {error.strerror}") from error
    return report, (f"{stream.name} had no report; made {report}",)


def _check_export(done: process.Finished, made: Path, report: Path, nsys: Nsys) -> None:
    """Whether nsys did export: it ends with 0 on a full disk, too, and leaves an empty file."""
    if done.exit_code == 0 and made.is_file() and _about(made) is not None:
        return
    if process.says_disk_full(done.text, made.parent):
        raise disk_full(made.parents[1], made.name)
    wrote = report_version(report)
    if wrote is not None and parse_version(wrote) > nsys.version:
        needed = ".".join(wrote.split(".")[:2])
        raise ToolError(
            f"{report} was written by nsys {wrote}; nsys {nsys.version_text} ({nsys.path}) is "
            "older and cannot read it",
            hint=f"install nsys {needed} or newer, or name it: NSYS=/path/to/nsys",
        )
    unsupported = _UNSUPPORTED.search(done.text)
    if unsupported:
        raise ToolError(
            f"{report} is in a format ({unsupported[1]}) that nsys {nsys.version_text} "
            f"({nsys.path}) does not know",
            hint="a newer nsys wrote it: install that or the newest, or name it: "
            "NSYS=/path/to/nsys",
        )
    if done.exit_code == 0 or done.exit_code > 128:
        raise ToolError(
            f"nsys {nsys.version_text} did not export {report}: {done.reason}",
            hint="try another version of nsys: NSYS=/path/to/nsys",
        )
    raise InputError(
        f"{report} cannot be exported; nsys {nsys.version_text} says: {done.reason}",
        hint="the report is damaged or incomplete: copy or record it again",
    )


def _fits(candidate: Path, report: Path) -> tuple[bool, str]:
    """Whether an export belongs to a report as it is now, and what to tell the user."""
    if not candidate.exists():
        return False, ""
    mark = _mark(candidate)
    if mark is not None:
        if _mark_matches(mark, report):
            return True, ""
        return False, f"{report.name} has changed since {candidate} was made of it; made a new one"
    source = _about(candidate)
    if source is None:
        return False, f"{candidate} is not an nsys export and was not used"
    if source and source != report.name:
        return False, f"{candidate} was exported from {source}, not from {report.name}; not used"
    if candidate.stat().st_mtime_ns < report.stat().st_mtime_ns:
        return False, f"{candidate} is older than {report.name} and was not used"
    return True, f"used {candidate}, which is newer than {report.name}"


def _mark_matches(mark: dict[str, str], report: Path) -> bool:
    now = fingerprint(report)
    if mark.get("size") != str(now.size):
        return False
    if mark.get("mtime_ns") == str(now.mtime_ns) and mark.get("sample") == now.sample:
        return True
    # Copied, cloned or touched: the same content at another time is the same report.
    return mark.get("digest") == _digest(report)


def _about_named_export(export: Path) -> tuple[str, ...]:
    mark = _mark(export)
    for suffix in REPORT_SUFFIXES:
        report = export.with_suffix(suffix)
        if mark is not None and report.is_file() and not _mark_matches(mark, report):
            return (
                f"{report} has changed since {export} was made of it; name the report to read it",
            )
    return ()


def _write_mark(export: Path, report: Path, state: Fingerprint, nsys: Nsys) -> None:
    values = {
        "report": report.name,
        "size": str(state.size),
        "mtime_ns": str(state.mtime_ns),
        "sample": state.sample,
        "digest": _digest(report),
        "nsys": nsys.version_text,
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        with contextlib.closing(sqlite3.connect(export)) as connection, connection:
            connection.execute(f"CREATE TABLE {MARK} (name TEXT NOT NULL, value TEXT)")
            connection.executemany(f"INSERT INTO {MARK} VALUES (?, ?)", list(values.items()))  # noqa: S608
    except sqlite3.Error as error:
        if process.says_disk_full(str(error), export.parent):
            raise disk_full(export.parents[1], export.name) from error
        raise ToolError(f"nsys {nsys.version_text} made a bad export: {error}") from error


def _mark(export: Path) -> dict[str, str] | None:
    """What an export made here says of its report; None if it was not made here."""
    with contextlib.suppress(sqlite3.Error), _opened(export) as connection:
        return dict(connection.execute(f"SELECT name, value FROM {MARK}").fetchall())  # noqa: S608
    return None


def _about(export: Path) -> str | None:
    """The name of the report an export was made of, "" if it does not say; None if it is none."""
    with contextlib.suppress(sqlite3.Error), _opened(export) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if "StringIds" not in tables:
            return None
        for table, key in _ABOUT:
            if table in tables:
                row = connection.execute(
                    f"SELECT value FROM {table} WHERE name = ?",  # noqa: S608
                    (key,),
                ).fetchone()
                return str(row[0]) if row else ""
        return ""
    return None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        yield connection
    finally:
        connection.close()


def _writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as error:
        # A full disk is an error of its own, with its own message; the cache would hide it.
        return error.errno == errno.ENOSPC


def _make_cache(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"neither the report's folder nor the cache {folder} can be written to: "
            f"{error.strerror}",
            hint="set XDG_CACHE_HOME, or choose a place: nsyslab export REPORT -o FILE.sqlite",
        ) from error


def _place_in_cache(path: Path) -> str:
    return hashlib.blake2b(os.fsencode(path.resolve()), digest_size=12).hexdigest()
