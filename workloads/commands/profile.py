"""``nsyslab profile``: record a workload, or a program of the user's."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workloads.parameters import options

if TYPE_CHECKING:
    from workloads.registry import Entry


class _WithProgram(click.Command):
    """A command whose arguments behind ``--`` are a program's, to be left as they are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta["program"] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command(cls=_WithProgram)
@click.argument("names", nargs=-1, metavar="[NAME | -- PROGRAM ...]")
@options(steps=False)
@click.option(
    "--profile-steps",
    "--steps",
    "profile_steps",
    type=click.IntRange(min=1),
    help="Steps to record. [default: the workload's, mostly 3]",
)
@click.option(
    "--profiler",
    type=click.Choice(["nsys", "torch"]),
    default="nsys",
    show_default=True,
    help="torch: PyTorch Profiler.",
)
@click.option(
    "--capture-range",
    is_flag=True,
    help="PROGRAM: record from its cudaProfilerStart to its cudaProfilerStop.",
)
@click.option("--sample", is_flag=True, help="Sample the CPU too; needs privileges.")
@click.option(
    "--graph-nodes",
    is_flag=True,
    help="Record the kernels of CUDA graphs one by one, not replays as a whole.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Pass this variable of yours too, or set it. It will be in the report.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds after which the program is ended.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the recording; %q{NAME} in it is that variable. [default: reports/NAME]",
)
@click.option("--force", is_flag=True, help="Replace an earlier recording in the folder.")
@click.pass_context
def command(
    context: click.Context,
    /,
    names: tuple[str, ...],
    profile_steps: int | None,
    profiler: str,
    capture_range: bool,
    sample: bool,
    graph_nodes: bool,
    variables: tuple[str, ...],
    timeout: float | None,
    output: Path | None,
    force: bool,
    **given: Any,
) -> None:
    """Record the workload NAME, or the PROGRAM behind "--", with Nsight Systems.

    The folder gets the report for the Nsight GUI (.nsys-rep), its SQLite export, the program's
    output and run.json. Of a workload the steps after the warm-up are recorded, of a program all
    of it, or its capture range. `nsyslab analyze FOLDER` explains the recording.

    "NAME -- PROGRAM ..." calls the program's recording NAME. Behind torchrun, mpirun or srun, it
    is called NAME_rankN.
    """
    import functools

    from analysis.errors import InputError
    from analysis.nsys.environment import rank
    from workloads import parameters, recording, registry
    from workloads.commands._status import Status

    program: list[str] = context.meta.get("program", [])
    if len(names) > 1:
        raise InputError(
            f"one recording at a time, not {' '.join(names)}",
            hint=f"is it a program? nsyslab profile -- {' '.join(names)}",
        )
    name = names[0] if names else None
    environment = _environment(variables)
    output = output and _named(output)
    if program:
        stray = [f"--{parameters.option(key)}" for key, value in given.items() if value is not None]
        if profile_steps is not None:
            stray.append("--profile-steps")
        if profiler == "torch":
            stray.append("--profiler torch")
        if stray:
            raise InputError(
                f"{', '.join(stray)}: for workloads only, not for a program behind --",
                hint="the program's own options go behind its name",
            )
        if name in [entry.name for entry in registry.entries()]:
            raise InputError(
                f"{name} is a workload: record it, or the program behind --",
                hint="another name in front of -- is what the program's recording is called",
            )
        label, number = name or _label(program), rank(os.environ)
        if number is not None:
            label += f"_rank{number}"
        folder = output or Path("reports") / label
        record = functools.partial(
            recording.program, program, label, folder, capture_range=capture_range
        )
    elif name is None:
        raise InputError(
            "nothing to record",
            hint="name a workload (`nsyslab list`), or a program: nsyslab profile -- ./train",
        )
    else:
        if capture_range:
            raise InputError(
                "--capture-range: for programs behind -- only",
                hint="of a workload the steps after the warm-up are recorded anyway",
            )
        if profiler == "torch":
            _refuse_for_torch(sample=sample, graph_nodes=graph_nodes, env=bool(variables))
        entry = _find(name)
        given["steps"] = profile_steps or entry.workload.profile_steps
        chosen = parameters.Parameters.of(entry.workload.defaults, given)
        folder = output or Path("reports") / entry.name
        kind = recording.workload if profiler == "nsys" else recording.workload_with_torch
        record = functools.partial(kind, entry, chosen, folder)
    with Status() as status:
        about = record(
            recording.Settings(
                environment=environment,
                force=force,
                sample=sample,
                graph_nodes=graph_nodes,
                timeout_s=timeout,
                on_status=status,
                on_output=status.pass_on,
            )
        )
    written = about["report"] if about["profiler"] == "nsys" else about["trace"]
    click.echo(f"{folder / written}")
    if about["profiler"] == "nsys":
        click.echo(f"explain it: nsyslab analyze {folder}", err=True)


def _environment(variables: tuple[str, ...]) -> dict[str, str]:
    """Variables given as NAME, with the caller's value, or as NAME=VALUE."""
    from analysis.errors import InputError

    chosen = {}
    for variable in variables:
        name, given, value = variable.partition("=")
        if not name or (not given and name not in os.environ):
            raise InputError(
                f"--env {variable}: there is no such variable", hint="--env NAME=VALUE"
            )
        chosen[name] = value if given else os.environ[name]
    return chosen


def _named(folder: Path) -> Path:
    """The folder with the variables that its name asks for, as nsys writes them: %q{RANK}."""
    from analysis.errors import InputError

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise InputError(f"-o {folder}: there is no variable {found[1]}")
        return os.environ[found[1]]

    return Path(re.sub(r"%q\{(\w+)\}", value, str(folder)))


def _refuse_for_torch(**options: bool) -> None:
    """Refuse what only nsys can do."""
    from analysis.errors import InputError
    from workloads import parameters

    given = [f"--{parameters.option(name)}" for name, chosen in options.items() if chosen]
    if given:
        raise InputError(
            f"{', '.join(given)}: for nsys only, not for PyTorch Profiler",
            hint="leave it out, or leave out --profiler torch",
        )


def _find(name: str) -> Entry:
    """The workload of that name; whoever means a program is told how to record one."""
    from analysis.errors import InputError
    from workloads import registry

    try:
        return registry.find(name)
    except InputError as error:
        if not Path(name).is_file():
            raise
        start = f"python {name}" if name.endswith(".py") else name
        raise InputError(
            str(error), hint=f"to record it as a program: nsyslab profile -- {start}"
        ) from error


def _label(program: list[str]) -> str:
    """A name for a program's files: its script's, or its own."""
    names = [Path(word).stem for word in program if word.endswith((".py", ".sh"))]
    return names[0] if names else Path(program[0]).name
