"""What the recording commands show while they work, on stderr."""

from __future__ import annotations

import sys
from typing import Self

import click


class Status:
    """Lines of what is being done. A context manager: at its end no line is left half written.

    On a terminal, a line that only counts ("exporting: 42 %") takes the place of the one before;
    elsewhere such lines are left out.

    Args:
        prefix: In front of every line.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._counting = False
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._counting:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._counting = False
        elif self._open:
            click.echo(err=True)
            self._open = False

    def __call__(self, line: str) -> None:
        """Show a line."""
        if self._open:
            click.echo(err=True)
            self._open = False
        counts = line.endswith("%")
        if sys.stderr.isatty():
            start = "\r\x1b[K" if self._counting else ""
            click.echo(f"{start}{self._prefix}{line}", err=True, nl=not counts)
            self._counting = counts
        elif not counts:
            click.echo(f"{self._prefix}{line}", err=True)

    def pass_on(self, piece: bytes) -> None:
        """Show a piece of a program's output as it comes."""
        sys.stderr.buffer.write(piece)
        sys.stderr.buffer.flush()
        self._open = not piece.endswith((b"\n", b"\r"))
