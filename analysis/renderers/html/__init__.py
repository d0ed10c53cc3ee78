"""Reports as web pages: one self-contained file, which opens from disk and asks for nothing else.

One recording makes a page with a timeline; several make a page that compares them.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.renderers import Style
from analysis.renderers.html._comparison import comparison
from analysis.renderers.html._page import page
from analysis.renderers.html._shared import GENERATOR
from analysis.renderers.html._strips import Strip, strip
from analysis.report import Report

__all__ = ["GENERATOR", "NEEDS_LANES", "Strip", "comparison", "page", "render", "strip"]

#: The report must hold what the timeline shows.
NEEDS_LANES = True


def render(reports: Sequence[Report], style: Style) -> str:
    """A page."""
    return (
        page(reports[0], style)
        if len(reports) == 1
        else comparison(reports, [strip(report) for report in reports])
    )
