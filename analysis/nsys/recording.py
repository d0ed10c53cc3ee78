"""From a file that a user names to a `Trace`, whether it is a report or an export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from analysis.nsys.reader import read_trace
from analysis.nsys.suffixes import REPORT_SUFFIXES, STREAM_SUFFIX
from analysis.trace import Trace


def open_recording(
    path: Path,
    *,
    on_status: Callable[[str], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[Trace, tuple[str, ...]]:
    """Export a report where necessary, and read it.

    Args:
        path: A report or an export.
        on_status: Called with what is being done before something slow.
        on_progress: Called with rows read so far and rows in all.

    Returns:
        The trace, and notes on which export was used and why.

    Raises:
        InputError: The file cannot be read.
        ToolError: nsys is needed, and missing or failing.
    """
    # Anything else is taken for an export, which is out of date only where its report is at hand.
    reports = (path.with_suffix(suffix) for suffix in REPORT_SUFFIXES)
    if path.suffix not in (*REPORT_SUFFIXES, STREAM_SUFFIX) and not any(map(Path.is_file, reports)):
        return read_trace(path, shown_as=str(path), on_progress=on_progress), ()
    from analysis.nsys.export import sqlite_for

    use = sqlite_for(path, on_status=on_status)
    trace = read_trace(use.sqlite, shown_as=str(path), on_progress=on_progress)
    return trace, tuple(use.notes)
