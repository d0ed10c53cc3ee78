"""``nsyslab run``: a workload without a profiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from workloads.parameters import options


@click.command()
@click.argument("name")
@options()
@click.option(
    "--sweep",
    metavar="OPTION=N,N,...",
    help='Run once for each value: batch-size=8,16,32. Of two: "batch-size=8,16 workers=2,4".',
)
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
) -> int:
    """Run the workload NAME without a profiler, and say how many steps it does in a second.

    NAME is a workload of `nsyslab list`, or a file with one of your own (my_workload.py). A value
    of --sweep with which it fails is reported and does not stop the others.
    """
    import json

    from analysis.errors import GateError, LabError
    from analysis.output import check_output, write_output
    from workloads import launch, parameters, registry, table
    from workloads.commands._status import Status
    from workloads.verify import Verifier

    entry = registry.find(name)
    swept = list(parameters.sweep(sweep))
    settings = [
        parameters.Parameters.of(entry.workload.defaults, {**given, **setting}) for setting in swept
    ]
    if output is not None:
        check_output(output, force=force)

    records = []
    code = 0
    with (
        Status() as status,
        Verifier(timeout_s=timeout, on_output=status.pass_on) as verifier,
    ):
        for varied, setting in zip(swept, settings, strict=True):
            about = ", ".join(f"{parameters.option(key)} {varied[key]}" for key in varied)
            if sweep is not None:
                status(f"{entry.name}: {about}")
            try:
                comparison = verifier.verify(entry, setting) if verify else None
                if comparison is not None:
                    if not comparison.passed:
                        raise GateError(
                            str(comparison),
                            hint="docs/workloads.md says what the comparison covers",
                        )
                    status(str(comparison))
                record = launch.run(
                    entry,
                    setting,
                    max_seconds=max_seconds,
                    timeout_s=timeout,
                    on_output=status.pass_on,
                )
            except LabError as error:
                if sweep is None:
                    raise
                status(f"nsyslab: {about}: {error}")
                if error.hint:
                    status(f"  {error.hint}")
                code = code or error.exit_code
                records.append(launch.record_of(entry, setting) | {"failure": str(error)})
            else:
                records.append(record | {"comparison": comparison and comparison.as_json()})

    if format_ == "json":
        text = json.dumps(records, indent=1) + "\n"
    else:
        columns = ["batch_size", "image_size"]
        columns += [key for key in swept[0] if key not in (*columns, "steps")]
        header = ["workload", *(column.replace("_", " ") for column in columns)]
        header += ["steps", "s", "steps/s", "samples/s"]
        rows = [_row(record, columns) for record in records]
        text = (table.markdown if format_ == "markdown" else table.terminal)(header, rows)
    if output is not None:
        write_output(output, text, force=force)
    else:
        click.echo(text, nl=False)
    return code


def _row(record: dict[str, Any], columns: list[str]) -> list[str]:
    parameters = record["parameters"]
    start = [record["workload"], *(str(parameters[name]) for name in columns)]
    if "failure" in record:
        return [*start, str(parameters["steps"]), "-", "failed", "-"]
    return [
        *start,
        str(record["steps"]),
        *(f"{record[name]:.2f}" for name in ("seconds", "steps_per_second")),
        f"{record['samples_per_second']:.1f}",
    ]
