"""The listed gaps as CSV, one row per part of a gap."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from analysis.renderers import Style
from analysis.report import Report

COLUMNS = (
    "trace", "device", "gap_start_ns", "gap_duration_ns", "ended_by", "feeding_process",
    "feeding_thread", "feeding_call", "inferred", "cause", "name", "via", "nvtx", "ns",
    "held_by_process", "held_by_thread", "held_by_name", "held_ns",
)  # fmt: skip


def render(reports: Sequence[Report], _style: Style) -> str:
    """Gaps as RFC 4180 text with a header; empty cells are values that there are not."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for report in reports:
        for device in report.devices:
            for gap in device.gaps:
                thread, ended = gap.feeding_thread, gap.ended_by
                for part in gap.parts:
                    held = part.held_by
                    writer.writerow(
                        (
                            report.trace.path,
                            device.id,
                            gap.start_ns,
                            gap.duration_ns,
                            f"{ended.kind} {ended.name}" if ended else None,
                            thread.process if thread else None,
                            thread.thread if thread else None,
                            gap.feeding_call,
                            str(gap.inferred).lower(),
                            part.cause,
                            part.name,
                            part.via,
                            part.nvtx,
                            part.ns,
                            *(
                                (held.process, held.thread, held.name, held.ns)
                                if held
                                else [None] * 4
                            ),
                        )
                    )
    return text.getvalue()
