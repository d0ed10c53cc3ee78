"""``nsyslab export``: reports to SQLite, without ever using or leaving a stale export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.commands._inputs import Progress, find_recordings
from analysis.errors import InputError

if TYPE_CHECKING:
    from analysis.nsys.export import ExportUse


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Where to; of one report only."
)
@click.option("--force", is_flag=True, help="Export again, and replace --output.")
def command(paths: tuple[Path, ...], output: Path | None, force: bool) -> None:
    """Export reports to SQLite and print where the exports are.

    PATHS are .nsys-rep reports, .qdstrm streams, or folders of them. The export goes beside the
    report; where that cannot be written to, into the cache. One that fits the report is kept.
    """
    found = find_recordings(paths)
    if output is not None and len(found) != 1:
        raise InputError(
            f"--output names one file, and there are {len(found)} reports",
            hint="leave it out: each export goes beside its report",
        )
    for path in found:
        with Progress(f"exporting {path.name}") as progress:
            use = _export(path, output, force=force, progress=progress)
        for note in use.notes:
            click.echo(f"nsyslab: {note}", err=True)
        click.echo(use.sqlite)


def _export(path: Path, output: Path | None, *, force: bool, progress: Progress) -> ExportUse:
    from analysis.nsys.export import ExportUse, make_export, sqlite_for
    from analysis.nsys.suffixes import REPORT_SUFFIXES

    if output is None:
        return sqlite_for(path, force=force, on_status=progress.note)
    if path.suffix not in REPORT_SUFFIXES:
        raise InputError(
            f"{path} is no report", hint=f"--output takes a report ({' or '.join(REPORT_SUFFIXES)})"
        )
    make_export(path, output, replace=force, on_status=progress.note)
    return ExportUse(output, path)
