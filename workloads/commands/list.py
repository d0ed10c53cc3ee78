"""``nsyslab list``: the workloads."""

from __future__ import annotations

import click


@click.command()
@click.option("--ladder", help="Only the rungs of this ladder.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["terminal", "markdown", "json"]),
    default="terminal",
    show_default=True,
)
def command(ladder: str | None, format_: str) -> None:
    """List the workloads: name, ladder, rung, and what the trace of each shows."""
    import json

    from workloads import registry, table

    entries = registry.ladder(ladder) if ladder else registry.entries()
    if format_ == "json":
        click.echo(json.dumps([registry.describe(entry) for entry in entries], indent=1))
        return
    header = ["name", "ladder", "rung", "what it does", "what its trace shows"]
    rows = [
        [e.name, e.workload.ladder, str(e.workload.rung), e.workload.title, e.workload.shows]
        for e in entries
    ]
    render = table.markdown if format_ == "markdown" else table.terminal
    click.echo(render(header, rows, left=len(header)), nl=False)
