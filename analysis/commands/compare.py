"""``nsyslab compare``: the same program before and after."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.commands._inputs import Progress, find_recordings, read_recording
from analysis.errors import InputError

if TYPE_CHECKING:
    from analysis.comparison import Comparison, Row


@click.command(context_settings={"show_default": True})
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False))
@click.option(
    "--format",
    "format_",
    type=click.Choice(["terminal", "markdown", "json"]),
    default="terminal",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write here, not to stdout.")
@click.option("--force", is_flag=True, help="Replace --output.")
@click.option("--steps", metavar="REGEX", help="The ranges that are the steps, by whole name.")
@click.option("--top", type=click.IntRange(min=0), default=12, help="Causes in formats for people.")
def command(
    paths: tuple[Path, ...],
    format_: str,
    output: Path | None,
    force: bool,
    steps: str | None,
    top: int,
) -> None:
    """Compare recordings of one program, per step: what moved, and why.

    Each of PATHS is a version of the program: a recording, or a folder of several recordings of
    that version. Differences within the spread of those are called noise.
    """
    from analysis.build import build
    from analysis.comparison import compare
    from analysis.output import check_output, write_output
    from analysis.report import Options
    from analysis.words import short_names

    if len(paths) < 2:
        raise InputError("compare what with what?", hint="nsyslab compare BEFORE AFTER")
    if output:
        check_output(output, force=force)
    names = dict(zip(paths, short_names([str(path) for path in paths]), strict=True))
    columns = []
    for path in paths:
        reports = []
        for recording in find_recordings([path]):
            with Progress(f"reading {recording.name}") as progress:
                trace = read_recording(recording, progress)
                reports.append(build(trace, Options(steps=steps)).contract())
        columns.append((names[path], reports))
    found = compare(columns)
    if format_ == "json":
        import orjson

        text = orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    elif format_ == "markdown":
        text = _markdown(found, top)
    else:
        text = _terminal(found, top)
    if output:
        write_output(output, text, force=force)
    else:
        sys.stdout.buffer.write(text.encode("utf-8", errors="backslashreplace"))
        sys.stdout.buffer.flush()


def _cells(found: Comparison, top: int) -> tuple[list[str], list[list[str]]]:
    per = found.columns[0].per
    header = [f"per {per}", *(_heading(c.name, c.count) for c in found.columns), "change"]
    rows = []
    causes = 0
    for row in found.rows:
        if row.section == "causes":
            causes += 1
            if causes > top:
                continue
        name = f"idle: {row.name}" if row.section == "causes" else row.name
        rows.append([name, *(_value(v, row.unit) for v in row.values), _change(row)])
    verdicts = [", ".join(dict.fromkeys(column.verdicts)) for column in found.columns]
    return header, [["verdict", *verdicts, ""], *rows]


def _heading(name: str, count: int) -> str:
    return name if count == 1 else f"{name} (median of {count})"


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "ns":
        return f"{value / 1e6:,.3f} ms"
    return f"{value:,.2f} {unit}"


def _change(row: Row) -> str:
    if row.change is None:
        return "-"
    if row.noise:
        return "noise"
    sign = "+" if row.change > 0 else "-" if row.change < 0 else ""
    return sign + _value(abs(row.change), row.unit)


def _terminal(found: Comparison, top: int) -> str:
    from analysis.renderers._words import one_line

    header, rows = _cells(found, top)
    numbers = [max(len(row[i]) for row in [header, *rows]) for i in range(1, len(header))]
    lines = [*map(one_line, found.summary), ""]
    name_width = max(24, 80 - sum(numbers) - 2 * len(numbers))
    for row in [header, *rows]:
        first, *rest = _wrapped(one_line(row[0]), name_width)
        cells = "".join(
            f"  {one_line(cell):>{width}}" for cell, width in zip(row[1:], numbers, strict=True)
        )
        lines.append(f"{first:<{name_width}}{cells}".rstrip())
        lines += rest
    hidden = sum(row.section == "causes" for row in found.rows) - top
    if hidden > 0:
        lines.append(f"and {hidden} more causes (--top)")
    return "\n".join(lines) + "\n"


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, subsequent_indent="    ") or [""]


def _markdown(found: Comparison, top: int) -> str:
    from analysis.renderers.markdown import escaped

    header, rows = _cells(found, top)
    table = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    lines = [f"- {escaped(line)}" for line in found.summary]
    lines += ["", *("| " + " | ".join(map(escaped, row)) + " |" for row in table)]
    return "\n".join(lines) + "\n"
