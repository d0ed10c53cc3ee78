"""``nsyslab analyze``: where the GPU time went, and what the GPU was waiting for."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from analysis.commands._inputs import Nanoseconds, Progress, find_recordings, read_recording
from analysis.errors import InputError
from analysis.renderers import TOP, formats

# What a report of a trace without GPU activity ends with: readable, but nothing to judge.
_NOT_TRACED = 3


@click.command(context_settings={"show_default": True})
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False))
@click.option("--format", "format_", type=click.Choice(formats()), default="terminal")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write here, not to stdout.")
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Also write a page per recording and an index; pages written before are replaced.",
)
@click.option("--force", is_flag=True, help="Replace --output.")
@click.option(
    "--min-gap",
    type=Nanoseconds(),
    default="100us",
    help="List gaps from this length on; all gaps are attributed.",
)
@click.option(
    "--from", "from_", type=Nanoseconds(negative=True), help="Start of the window (1.5s, 200ms)."
)
@click.option("--to", type=Nanoseconds(negative=True), help="End of the window.")
@click.option("--nvtx", metavar="REGEX", help="Look only inside ranges of this whole name.")
@click.option("--steps", metavar="REGEX", help="The ranges that are the steps, by whole name.")
@click.option("--device", "devices", type=int, multiple=True, help="Only this GPU id.")
@click.option(
    "--pinned-gbps",
    type=click.FloatRange(min=0, min_open=True),
    help="Rate of pinned copies for the ceiling, if the trace has none.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=TOP,
    help="Rows per table in formats for people.",
)
def command(
    paths: tuple[Path, ...],
    format_: str,
    output: Path | None,
    html: Path | None,
    force: bool,
    min_gap: int,
    from_: int | None,
    to: int | None,
    nvtx: str | None,
    steps: str | None,
    devices: tuple[int, ...],
    pinned_gbps: float | None,
    top: int,
) -> int:
    """Say where the GPU time went and what the GPU was waiting for.

    PATHS are .nsys-rep reports, their SQLite exports, or folders of them. Times count from the
    start of the nsys session.

    Exit code 3: the recording is readable, but holds no GPU activity.
    """
    from analysis.build import build
    from analysis.output import check_output, write_output
    from analysis.renderers import Style, needs_lanes, renderer
    from analysis.report import Options

    if output:
        check_output(output, force=force)
    recordings = find_recordings(paths)
    if output and any(output.exists() and path.samefile(output) for path in recordings):
        raise InputError(f"{output} is what is to be read", hint="name another file for --output")
    to_terminal = output is None and sys.stdout.isatty()
    style = Style(top=top, width=_columns() if to_terminal else 80, color=to_terminal)
    pages = None
    if html:
        from analysis.commands._pages import Pages

        pages = Pages(html, recordings)
    shows_lanes = needs_lanes(format_)
    options = Options(
        min_gap, from_, to, nvtx, steps, devices, pinned_gbps, lanes=shows_lanes or bool(pages)
    )
    reports = []
    for number, path in enumerate(recordings):
        with Progress(f"reading {path.name}") as progress:
            trace = read_recording(path, progress)
            progress.note(f"analysing {path.name}")
            report = build(trace, options)
            if pages:
                pages.write(number, report, style)
            # Lanes hold on to the whole trace.
            reports.append(report if shows_lanes else replace(report, lanes=None))

    content = renderer(format_)(reports, style)
    if output:
        write_output(output, content, force=force)
    elif isinstance(content, bytes):
        if to_terminal:
            raise InputError(f"{format_} is binary", hint="name a file with --output")
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.buffer.write(content.encode("utf-8", errors="backslashreplace"))
    sys.stdout.buffer.flush()
    if pages:
        click.echo(f"nsyslab: pages written, start at {pages.finish(reports)}", err=True)
    return 0 if any(report.devices for report in reports) else _NOT_TRACED


def _columns() -> int:
    import shutil

    return max(80, shutil.get_terminal_size().columns)
