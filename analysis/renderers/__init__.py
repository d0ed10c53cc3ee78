"""Renderers turn reports into text or bytes; they calculate nothing and write nothing.

A renderer is a module with ``render(reports, style)``; its file name is the format's name. One that
shows events and not only figures has a true ``NEEDS_LANES``, and gets reports that hold lanes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.report import Report

#: Rows of a table for people when `--top` does not say.
TOP = 10


@dataclass(frozen=True, slots=True)
class Style:
    """How a report is laid out.

    Attributes:
        top: Rows per table in formats for people; formats for programs are complete.
        width: Columns of the terminal.
        color: Whether the terminal takes colours.
    """

    top: int = TOP
    width: int = 80
    color: bool = False


Renderer = Callable[["Sequence[Report]", Style], str | bytes]


def formats() -> list[str]:
    """Names of the formats, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def renderer(name: str) -> Renderer:
    """The renderer of a format.

    Args:
        name: One of `formats`.
    """
    found: Renderer = importlib.import_module(f"{__name__}.{name}").render
    return found


def needs_lanes(name: str) -> bool:
    """Whether a format shows the events themselves; see `analysis.report.Options.lanes`.

    Args:
        name: One of `formats`.
    """
    return bool(getattr(importlib.import_module(f"{__name__}.{name}"), "NEEDS_LANES", False))
