"""What several commands share: finding recordings, parsing times, showing progress."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from analysis.errors import InputError
from analysis.nsys.suffixes import EXPORT_SUFFIX, REPORT_SUFFIXES

if TYPE_CHECKING:
    from analysis.trace import Trace

#: Nobody wants a progress bar for less.
_PROGRESS_AFTER_S = 2.0

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TIME = re.compile(r"\s*(-?)(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)?\s*")


class Nanoseconds(click.ParamType[int]):
    """A time with a unit ("1.5s", "200ms", "100us"); without one, nanoseconds.

    Args:
        negative: Whether it may be before zero, as the start of a recording may.
    """

    name = "time"

    def __init__(self, *, negative: bool = False) -> None:
        self._negative = negative

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _TIME.fullmatch(value)
        if match is None:
            self.fail(f"{value!r} is not a time; write 1.5s, 200ms, 100us or 5000ns", param, ctx)
        sign, number, unit = match.groups()
        if unit is None and "." in number:
            self.fail(f"{value!r} has no unit; write {value}s or {value}ms", param, ctx)
        whole, _, fraction = number.partition(".")
        scale = _UNITS[unit or "ns"]
        # In integers: 0.1 s is not a float's idea of it.
        time = int(whole) * scale
        if fraction:
            time += int(fraction) * scale // 10 ** len(fraction)
        if sign and not self._negative:
            self.fail(f"{value!r} is negative", param, ctx)
        return -time if sign else time


def find_recordings(paths: Sequence[Path]) -> list[Path]:
    """Reports and exports under some paths, each recording once, sorted within a folder.

    A report counts for its export, which stands beside it under the same name.

    Raises:
        InputError: A path does not exist, or a folder holds no recording.
    """
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist", hint=_similar(path))
        if not path.is_dir():
            found.append(path)
            continue
        if not os.access(path, os.R_OK | os.X_OK):
            raise InputError(f"{path} cannot be listed: permission denied")
        inside = _in_folder(path)
        if not inside:
            raise InputError(
                f"{path} holds no {REPORT_SUFFIXES[0]} report and no {EXPORT_SUFFIX} export",
                hint="record one: nsyslab profile NAME, or nsyslab profile -- COMMAND",
            )
        found.extend(inside)
    return list(dict.fromkeys(found))


def _in_folder(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    reports = [path for path in files if path.suffix in REPORT_SUFFIXES]
    stems = {path.with_suffix("") for path in reports}
    exports = [p for p in files if p.suffix == EXPORT_SUFFIX and p.with_suffix("") not in stems]
    return sorted(reports + exports)


def _similar(path: Path) -> str | None:
    import difflib

    if not path.parent.is_dir():
        return None
    suffixes = (*REPORT_SUFFIXES, EXPORT_SUFFIX)
    names = [p.name for p in path.parent.iterdir() if p.suffix in suffixes or p.is_dir()]
    close = difflib.get_close_matches(path.name, names, n=3)
    return "did you mean " + ", ".join(str(path.parent / name) for name in close) if close else None


def read_recording(path: Path, progress: Progress) -> Trace:
    """Export a report where necessary and read it.

    Args:
        path: A report or an export.
        progress: What shows how far it is.

    Raises:
        InputError: The file cannot be read.
        ToolError: nsys is needed, and missing or failing.
    """
    from analysis.nsys.recording import open_recording

    trace, notes = open_recording(path, on_status=progress.note, on_progress=progress.update)
    for note in notes:
        click.echo(f"nsyslab: {note}", err=True)
    return trace


class Progress:
    """A bar on stderr for what takes longer than about two seconds; none unless a terminal.

    Args:
        label: What is being done.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None
        self._on = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def note(self, text: str) -> None:
        """Say what is going on; shown at once, for it precedes something slow."""
        if self._on:
            self._label = text
            self._show(None)

    def update(self, done: int, total: int) -> None:
        """Say how far it is."""
        if self._on and (self._bar or time.monotonic() - self._started > _PROGRESS_AFTER_S):
            self._show((done, total))

    def _show(self, state: tuple[int, int] | None) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task(self._label, total=None)
            self._bar.start()
        self._bar.update(self._task, description=self._label)
        if state is not None:
            self._bar.update(self._task, completed=state[0], total=state[1])
