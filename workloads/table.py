"""Small tables for the terminal and for Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

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

    What is wider than the terminal is cut into tables below each other, each with the first column.

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

    console = Console(width=width, highlight=False)
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    parts = []
    for columns in _blocks(widths, console.width):
        with console.capture() as capture:
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
            for column in columns:
                justify: Literal["left", "right"] = "left" if column < left else "right"
                table.add_column(header[column], justify=justify, overflow="fold")
            for row in rows:
                table.add_row(*(Text(row[column]) for column in columns))
            console.print(table)
        parts.append(capture.get())
    return "\n".join(parts)


# Between two columns.
_GAP = 3


def _blocks(widths: Sequence[int], available: int) -> list[list[int]]:
    """The columns of each part of a table of which no part is too wide."""
    blocks: list[list[int]] = []
    free = 0
    for column, width in enumerate(widths[1:], start=1):
        if not blocks or (free < _GAP + width and len(blocks[-1]) > 1):
            blocks.append([0])
            free = available - widths[0]
        blocks[-1].append(column)
        free -= _GAP + width
    return blocks or [[0]]
