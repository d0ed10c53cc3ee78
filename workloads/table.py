"""Small tables for the terminal and for Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A Markdown table.

    Args:
        header: Of the columns.
        rows: Of cells.
        left: How many columns at the start hold text; the others are aligned to the right.
    """
    lines = [header, ["---" if column < left else "---:" for column in range(len(header))]]
    cells = [*lines, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def terminal(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, width: int | None = None
) -> str:
    """A table for the terminal.

    Args:
        header: Of the columns.
        rows: Of cells.
        left: How many columns at the start hold text; the others are aligned to the right.
        width: Of the terminal, where it is not to be asked.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(header):
        table.add_column(name, justify="left" if number < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()
