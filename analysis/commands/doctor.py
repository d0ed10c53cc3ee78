"""``nsyslab doctor``: which nsys, what it lacks, what this machine can record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from analysis.nsys.find import Nsys
    from analysis.nsys.machine import Machine

_WIDTH = 80
_LABEL = 14


@click.command()
@click.option("--format", "format_", type=click.Choice(["terminal", "json"]), default="terminal")
def command(format_: str) -> int:
    """Say which nsys is used, what it lacks, and what can be recorded here.

    Exit code 0 if something can be recorded, 4 if nsys is missing or incomplete.
    """
    from analysis.errors import ToolError
    from analysis.nsys.machine import look

    machine = look()
    if format_ == "json":
        click.echo(_json(machine))
    else:
        for line in _lines(machine):
            click.echo(line)
    return 0 if machine.can_record else ToolError.exit_code


def _json(machine: Machine) -> str:
    import dataclasses
    import json

    about = {**dataclasses.asdict(machine), "can_record": machine.can_record}
    return json.dumps(about, indent=2, default=str)


def _lines(machine: Machine) -> list[str]:
    lines: list[str] = []
    for i, nsys in enumerate(machine.nsys):
        lines += _entry("nsys" if i == 0 else "", _about_nsys(nsys))
        lines += _entry("", f"{nsys.path} ({_why(nsys)})")
        lines += _entry("", _about_importer(nsys))
        if i == 0:
            lines += _entry("", "records" + (" and exports" if nsys == machine.reads else ""))
        elif nsys == machine.reads:
            lines += _entry("", "exports: the newest reads the most reports")
    if not machine.nsys:
        lines += _entry("nsys", "none found on PATH or where it gets installed")
    for i, gpu in enumerate(machine.gpus):
        lines += _entry("GPU" if i == 0 else "", f"{gpu.name}, {gpu.memory}, driver {gpu.driver}")
    if machine.gpu_problem:
        lines += _entry("GPU", machine.gpu_problem)
    paranoid = machine.perf_event_paranoid
    lines += _entry("kernel", f"perf_event_paranoid {'-' if paranoid is None else paranoid}")
    lines += _entry("nvtx (Python)", machine.nvtx or "not installed in this environment")
    if machine.shm_bytes is not None and machine.shm_free_bytes is not None:
        size, free = machine.shm_bytes / 1e9, machine.shm_free_bytes / 1e9
        lines += _entry("/dev/shm", f"{size:.1f} GB, {free:.1f} GB free")  # noqa: S108 - a label
    lines += _entry("container", f"in {machine.container}" if machine.container else "not in one")
    for name, state in machine.engines:
        lines += _entry("", f"{name} {state}")
    environments = (
        "a recording sees its own processes only"
        if machine.alone
        else "a report will hold the environment of every process nsys may read"
    )
    lines += _entry("privacy", environments)
    lines += _entry("cache", str(machine.cache))
    lines.append("")
    for i, ability in enumerate(machine.abilities):
        mark = "yes" if ability.possible else "no"
        text = f"{ability.what}: {mark} ({ability.detail})"
        lines += _entry("can record" if i == 0 else "", text)
    for i, advice in enumerate(machine.advice):
        lines += _entry("next" if i == 0 else "", advice)
    return lines


def _about_nsys(nsys: Nsys) -> str:
    return f"does not run: {nsys.problem}" if nsys.problem else nsys.version_text


def _why(nsys: Nsys) -> str:
    return {"NSYS": "named by NSYS", "PATH": "on PATH"}.get(nsys.found_in, "where it is installed")


def _about_importer(nsys: Nsys) -> str:
    from analysis.nsys.find import cure

    if nsys.importer is None:
        return "importer: none; it can export reports, but not make them"
    if nsys.missing_libraries:
        names = ", ".join(library.name for library in nsys.missing_libraries)
        return f"importer: {nsys.importer} lacks {names}; cure: {cure(nsys.missing_libraries)}"
    return f"importer: {nsys.importer}"


def _entry(label: str, text: str) -> list[str]:
    import textwrap

    wrapped = textwrap.wrap(
        text, _WIDTH - _LABEL - 1, break_long_words=False, break_on_hyphens=False
    )
    return [
        f"{label if i == 0 else '':<{_LABEL}} {line}".rstrip()
        for i, line in enumerate(wrapped or [""])
    ]
