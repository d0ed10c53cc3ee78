"""``nsyslab run``: a workload without a profiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from workloads.parameters import options


@click.command()
@click.argument("name")
@options()
@click.option("--sweep", help='Run once for each value: "batch-size=8,16,32".')
@click.option(
    "--verify", is_flag=True, help="Compare the outputs with the ladder's baseline first."
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="End the measured steps early, after this time.",
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds for a run.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["terminal", "markdown", "json"]),
    default="terminal",
    show_default=True,
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the result here.")
@click.option("--force", is_flag=True, help="Replace --output.")
def command(
    name: str,
    sweep: str | None,
    verify: bool,
    max_seconds: float | None,
    timeout: float | None,
    format_: str,
    output: Path | None,
    force: bool,
    **given: Any,
) -> None:
    """Run the workload NAME without a profiler, and say how many steps it does in a second.

    NAME is a workload of `nsyslab list`, or a file with one of your own (my_workload.py).
    """
    import json

    from analysis.errors import GateError
    from analysis.output import check_output, write_output
    from workloads import launch, parameters, registry, table
    from workloads.commands._status import pass_on
    from workloads.verify import Verifier

    entry = registry.find(name)
    settings = [
        parameters.Parameters.of(entry.workload.defaults, {**given, **setting})
        for setting in parameters.sweep(sweep)
    ]
    if output is not None:
        check_output(output, force=force)

    records = []
    with Verifier(pass_on) as verifier:
        for setting in settings:
            comparison = verifier.verify(entry, setting) if verify else None
            if comparison is not None:
                if not comparison.passed:
                    raise GateError(
                        str(comparison), hint="docs/workloads.md says what the comparison covers"
                    )
                click.echo(str(comparison), err=True)
            record = launch.run(
                entry, setting, max_seconds=max_seconds, timeout_s=timeout, on_output=pass_on
            )
            records.append(record | {"comparison": comparison and comparison.as_json()})

    if format_ == "json":
        text = json.dumps(records, indent=1) + "\n"
    else:
        header = ["workload", "batch size", "image size", "steps", "s", "steps/s", "samples/s"]
        rows = [_row(record) for record in records]
        text = (table.markdown if format_ == "markdown" else table.terminal)(header, rows)
    if output is not None:
        write_output(output, text, force=force)
    else:
        click.echo(text, nl=False)


def _row(record: dict[str, Any]) -> list[str]:
    parameters = record["parameters"]
    return [
        record["workload"],
        *(str(parameters[name]) for name in ("batch_size", "image_size")),
        str(record["steps"]),
        *(f"{record[name]:.2f}" for name in ("seconds", "steps_per_second")),
        f"{record['samples_per_second']:.1f}",
    ]
