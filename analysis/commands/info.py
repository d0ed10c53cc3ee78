"""``nsyslab info``: what a recording holds, and what it cannot tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from analysis.commands._inputs import Progress, find_recordings, read_recording

if TYPE_CHECKING:
    from analysis.trace import Trace

_TABLES = (
    ("kernels", "kernels"),
    ("graphs", "CUDA graph replays"),
    ("copies", "copies"),
    ("memsets", "memsets"),
    ("api_calls", "CUDA API calls"),
    ("os_calls", "OS runtime calls"),
    ("ranges", "NVTX ranges"),
    ("overheads", "profiler overhead"),
)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False))
@click.option("--format", "format_", type=click.Choice(["terminal", "json"]), default="terminal")
def command(paths: tuple[Path, ...], format_: str) -> None:
    """Say what was recorded, by which version, and what was not traced.

    PATHS are .nsys-rep reports, their SQLite exports, or folders of them.
    """
    found = []
    for path in find_recordings(paths):
        with Progress(f"reading {path.name}") as progress:
            found.append(_describe(read_recording(path, progress)))
    if format_ == "json":
        import json

        click.echo(json.dumps(found[0] if len(found) == 1 else found, indent=2))
        return
    for i, description in enumerate(found):
        if i:
            click.echo()
        _print(description)


def _describe(trace: Trace) -> dict[str, Any]:
    source = trace.provenance
    rows = {name: len(getattr(trace, name)) for name, _ in _TABLES}
    return {
        "path": source.path,
        "nsys_version": source.nsys_version,
        "schema_version": source.schema_version,
        "start_utc_ns": source.start_utc_ns,
        "duration_ns": source.duration_ns,
        "traced": {"cuda": source.cuda, "nvtx": source.nvtx, "osrt": source.osrt},
        "os_call_threshold_ns": source.os_call_threshold_ns,
        "graph_mode": source.graph_mode,
        "command": _command_line(source.capture),
        "gpus": [{"id": gpu.id, "name": gpu.name, "uuid": gpu.uuid} for gpu in trace.gpus],
        "devices": [{"id": device.id, "name": device.name} for device in trace.devices],
        "processes": [
            {
                "pid": process.pid,
                "name": process.name,
                "threads": sum(thread.process == i for thread in trace.threads),
            }
            for i, process in enumerate(trace.processes)
        ],
        "rows": rows,
        "dropped_rows": dict(source.dropped_rows),
        "warnings": list(source.warnings),
    }


def _command_line(capture: Any) -> str | None:
    program = capture.get("PROCESS_0:COMMAND")
    if not program:
        return None
    arguments: list[str] = []
    while (argument := capture.get(f"PROCESS_0:ARGUMENT_{len(arguments)}")) is not None:
        arguments.append(argument)
    import shlex

    return shlex.join([program, *arguments])


def _print(found: dict[str, Any]) -> None:
    from datetime import UTC, datetime

    from rich.console import Console
    from rich.table import Table

    from analysis.renderers._words import HIDDEN, duration, one_line

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
    console.print(one_line(found["path"]), style="bold")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(
        "written by",
        f"nsys {found['nsys_version'] or 'of unknown version'}, "
        f"export schema {found['schema_version'] or 'without a version (2020)'}",
    )
    if found["start_utc_ns"] is not None:
        start = datetime.fromtimestamp(found["start_utc_ns"] / 1e9, UTC)
        table.add_row("session began", start.strftime("%Y-%m-%d %H:%M:%S UTC"))
    table.add_row("recorded", duration(found["duration_ns"]))
    if found["command"]:
        table.add_row("command", one_line(found["command"]))
    active = {device["id"] for device in found["devices"]}
    for gpu in found["gpus"]:
        activity = "" if gpu["id"] in active else " (did nothing)"
        table.add_row("GPU", f"{gpu['id']}: {gpu['name']}{activity}")
    for process in found["processes"]:
        name = one_line(process["name"]) or "unnamed"
        table.add_row("process", f"{process['pid']}: {name}, {process['threads']} threads")
    for key, label in _TABLES:
        if found["rows"][key]:
            table.add_row(label, f"{found['rows'][key]:,}")
    for kind, traced in found["traced"].items():
        if not traced:
            table.add_row("not traced", f"{kind}: {HIDDEN[kind]}")
    threshold = found["os_call_threshold_ns"]
    if threshold and found["traced"]["osrt"]:
        table.add_row("not kept", f"OS runtime calls under {duration(threshold)}")
    for name, count in found["dropped_rows"].items():
        table.add_row("left out", f"{count:,} rows of {name} without usable times")
    for warning in found["warnings"]:
        table.add_row("note", one_line(warning))
    console.print(table)
