"""The JSON contract: one object for one report, a list of them for several."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from analysis.renderers import Style
from analysis.report import Report


def render(reports: Sequence[Report], _style: Style) -> str:
    """Reports as JSON text, indented."""
    contracts = [report.contract() for report in reports]
    found = contracts[0] if len(contracts) == 1 else contracts
    return orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
