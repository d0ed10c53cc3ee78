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
    import itertools
    import json

    from workloads import registry, table

    entries = registry.ladder(ladder) if ladder else registry.entries()
    if format_ == "json":
        click.echo(json.dumps([registry.describe(entry) for entry in entries], indent=1))
        return
    if format_ == "markdown":
        header = ["name", "rung", "what it does", "what its trace shows"]
        rows = [[e.name, str(e.workload.rung), e.workload.title, e.workload.shows] for e in entries]
        click.echo(table.markdown(header, rows, left=len(header)), nl=False)
        return
    indent = max(len(entry.name) for entry in entries) + 7
    for name, rungs in itertools.groupby(entries, key=lambda entry: entry.workload.ladder):
        click.echo(click.style(name, bold=True))
        for entry in rungs:
            about = entry.workload
            click.echo(f"  {about.rung:>2}  {entry.name}".ljust(indent) + f" {about.title}")
            click.echo(click.style(" " * indent + f" {about.shows}", dim=True))
