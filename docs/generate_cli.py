"""Writes docs/cli.md from the commands' own help; `make docs` runs it, a test compares."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.cli import cli

TARGET = Path(__file__).with_name("cli.md")
WIDTH = 88


def reference() -> str:
    """The text of docs/cli.md."""
    # With the settings of a real call: click remembers the first help option that it makes.
    settings = {**cli.context_settings, "max_content_width": WIDTH}
    root = click.Context(cli, info_name="nsyslab", terminal_width=WIDTH, **settings)
    sections = [
        "# Command reference\n",
        "Made from `nsyslab --help` by `make docs`; change the help, not this page.\n",
    ]
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        if command is None:
            raise LookupError(name)
        context = click.Context(
            command, info_name=name, parent=root, max_content_width=WIDTH, terminal_width=WIDTH
        )
        sections.append(f"## nsyslab {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(sections)


if __name__ == "__main__":
    TARGET.write_text(reference())
