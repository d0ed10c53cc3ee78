"""The JSON contract: one object for one report, a list of them for several."""

from __future__ import annotations

import json
from collections.abc import Sequence

from analysis.renderers import Style
from analysis.report import Report


def render(reports: Sequence[Report], _style: Style) -> str:
    """Reports as JSON text, ASCII only, one line each level."""
    plain = [report.to_json() for report in reports]
    return json.dumps(plain[0] if len(plain) == 1 else plain, indent=1) + "\n"
