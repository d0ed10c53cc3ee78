"""``nsyslab check``: a gate for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from analysis.commands._inputs import Nanoseconds, Progress, find_recordings, read_recording
from analysis.errors import GateError, InputError


class _Percent(click.ParamType[float]):
    """A percentage ("5%" or "5")."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        from analysis.gates import percent

        try:
            return percent(value)
        except InputError as error:
            self.fail(str(error), param, ctx)


class _Stall(click.ParamType[tuple[str, int]]):
    """A function and a time ("munmap=1ms")."""

    name = "function=time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        function, equals, limit = value.partition("=")
        if not function or not equals:
            self.fail(f"{value!r} is not FUNCTION=TIME; write munmap=1ms", param, ctx)
        return function, Nanoseconds().convert(limit, param, ctx)


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False))
@click.option("--max-idle", type=_Percent(), help="Idle share of the window, of each GPU.")
@click.option("--max-exposed", type=_Percent(), help="Share of copies that no kernel hides.")
@click.option("--min-overlap", type=_Percent(), help="Share of the copies' time that is hidden.")
@click.option("--max-gap", type=Nanoseconds(), help="Longest idle gap (5ms).")
@click.option("--max-step", type=Nanoseconds(), help="Median step (200ms).")
@click.option("--min-steps-per-second", type=float, help="Rate of the steps.")
@click.option(
    "--max-stall",
    type=_Stall(),
    multiple=True,
    help="GPU idle time by an OS runtime function per step (munmap=1ms).",
)
@click.option("--verdict", multiple=True, help="A verdict that is accepted (compute-bound).")
@click.option("--forbid", multiple=True, help="A finding that there must not be, by id.")
@click.option("--baseline", type=click.Path(path_type=Path), help="An earlier report, as JSON.")
@click.option(
    "--tolerance",
    type=_Percent(),
    help="How much worse than the baseline is accepted. [default: 10%]",
)
@click.option("--config", type=click.Path(path_type=Path), help="Gates from a TOML file.")
@click.option("--steps", metavar="REGEX", help="The ranges that are the steps, by whole name.")
def command(
    paths: tuple[Path, ...],
    max_stall: tuple[tuple[str, int], ...],
    config: Path | None,
    steps: str | None,
    **limits: Any,
) -> None:
    """Fail, with exit code 1, unless recordings keep the limits.

    PATHS are reports, exports, or folders of them; all have to pass. A metric that cannot be
    computed fails its gate. Options count before those of --config.
    """
    from analysis.build import build
    from analysis.gates import Gates, check_names, evaluate, read_baseline, read_config
    from analysis.report import Options

    given = {name: value for name, value in limits.items() if value is not None}
    gates = check_names(Gates(max_stall=dict(max_stall), **given))
    if config:
        gates = gates.over(read_config(config, _duration))
    if gates.demands_nothing():
        raise InputError(
            "there is nothing to check",
            hint="give a limit, such as --max-idle 5%, or --config FILE",
        )
    baseline = read_baseline(gates.baseline) if gates.baseline else None
    failed: list[str] = []
    count = 0
    for path in find_recordings(paths):
        with Progress(f"reading {path.name}") as progress:
            trace = read_recording(path, progress)
            report = build(trace, Options(min_gap_ns=0, steps=steps))
        for outcome in evaluate(report, gates, baseline):
            count += 1
            word = "ok  " if outcome.passed else "FAIL"
            click.echo(f"{word}  {path}: {outcome.line}")
            if not outcome.passed:
                failed.append(f"{path}: {outcome.line}")
    if failed:
        lines = "".join(f"\n  {line}" for line in failed)
        raise GateError(f"{len(failed)} of {count} gates failed:{lines}")


def _duration(text: str) -> int:
    try:
        return Nanoseconds().convert(text, None, None)
    except click.BadParameter as error:
        raise ValueError(error.message) from error
