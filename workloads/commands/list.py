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
    import shutil
    import sys
    import textwrap

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
    indent = " " * (max(len(entry.name) for entry in entries) + 8)
    # In a pipe each is one line, to be searched.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for name, rungs in itertools.groupby(entries, key=lambda entry: entry.workload.ladder):
        click.echo(click.style(name, bold=True))
        for entry in rungs:
            about = entry.workload
            start = f"  {about.rung:>2}  {entry.name}".ljust(len(indent))
            click.echo(textwrap.fill(start + about.title, width, subsequent_indent=indent))
            shows = textwrap.fill(
                about.shows, width, initial_indent=indent, subsequent_indent=indent
            )
            click.echo(click.style(shows, dim=True))
