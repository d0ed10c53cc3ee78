"""Makes a report (.nsys-rep) of the raw stream (.qdstrm) that nsys records."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from analysis.errors import InputError, ToolError
from analysis.nsys import process
from analysis.nsys.environment import allowed
from analysis.nsys.files import disk_full
from analysis.nsys.find import INSTALL_HINT, MissingLibrary, Nsys, cure, find_all, parse_version
from analysis.nsys.progress import percent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: The first bytes of a .qdstrm: a marker, then the product and the version that wrote it.
_STREAM = re.compile(rb"NVIDIA Nsight Systems Stream (\d{4}(?:\.\d+)+)(-[0-9A-Za-z]+)?")
_HEADER_BYTES = 256
_NOT_LOADED = re.compile(r"error while loading shared libraries: (\S+?):")


def stream_version(stream: Path) -> str:
    """The nsys version that wrote a .qdstrm, as "2023.4.4.54".

    Raises:
        InputError: It is no .qdstrm.
    """
    with stream.open("rb") as file:
        match = _STREAM.search(file.read(_HEADER_BYTES))
    if match is None:
        raise InputError(
            f"{stream} is not the raw stream of an Nsight Systems recording",
            hint="a .qdstrm is what nsys leaves when it cannot make the report; record again",
        )
    return match[1].decode()


def importer_for(stream: Path) -> Nsys:
    """The installed nsys whose importer can read a .qdstrm: it must be of the very same version.

    Raises:
        InputError: `stream` is no .qdstrm.
        ToolError: There is no such nsys, or its importer is missing or lacks a library.
    """
    wanted = stream_version(stream)
    installed = [nsys for nsys in find_all() if nsys.problem is None]
    same = [nsys for nsys in installed if nsys.version == parse_version(wanted)]
    if not same:
        have = ", ".join(nsys.version_text for nsys in installed) or "none"
        raise ToolError(
            f"{stream} was recorded by nsys {wanted}, and only the importer of that version can "
            f"read it; installed: {have}",
            hint=f"install nsys {wanted} here, or run its QdstrmImporter where it is installed",
        )
    best = max(same, key=lambda nsys: nsys.complete)
    check_importer(best)
    return best


def check_importer(nsys: Nsys) -> None:
    """Stop when an nsys cannot make reports.

    Raises:
        ToolError: Its importer is missing, or lacks a library; the hint says what to install.
    """
    if nsys.importer is None:
        raise ToolError(
            f"nsys {nsys.version_text} ({nsys.path}) has no QdstrmImporter to make reports with",
            hint=f"install the whole of Nsight Systems: {INSTALL_HINT}",
        )
    if nsys.missing_libraries:
        raise _lacks(nsys, nsys.missing_libraries)


def import_stream(
    stream: Path,
    report: Path,
    nsys: Nsys,
    *,
    on_status: Callable[[str], None] | None = None,
) -> None:
    """Make a report of a stream.

    Args:
        stream: The .qdstrm.
        report: Where to write, in a folder that goes away; the caller renames it out of there.
        nsys: Whose importer to use; of the version that recorded.
        on_status: Gets a line of text now and then.

    Raises:
        ToolError: The importer is missing, lacks a library, or failed.
    """
    check_importer(nsys)
    assert nsys.importer is not None  # noqa: S101 - checked just now
    if on_status is not None:
        on_status(f"importing {stream.name}")
    done = process.run(
        [nsys.importer, "-i", stream, "-o", report],
        # The importer leaves copies of the libraries whose symbols it read in the cache folder.
        env={**allowed(os.environ), "XDG_CACHE_HOME": str(report.parent)},
        on_output=percent(on_status, f"importing {stream.name}"),
    )
    if done.exit_code == 0 and report.is_file() and report.stat().st_size > 0:
        return
    missing = _NOT_LOADED.search(done.text)
    if missing:
        raise _lacks(nsys, (MissingLibrary(missing[1], None),))
    if process.says_disk_full(done.text, report.parent):
        raise disk_full(report.parent, report.name)
    raise ToolError(
        f"the importer of nsys {nsys.version_text} failed on {stream}: {done.reason}",
        hint="an incomplete stream cannot be imported; record again",
    )


def _lacks(nsys: Nsys, libraries: tuple[MissingLibrary, ...]) -> ToolError:
    names = ", ".join(library.name for library in libraries)
    return ToolError(
        f"the importer of nsys {nsys.version_text} cannot start: {names} is missing",
        hint=cure(libraries),
    )
