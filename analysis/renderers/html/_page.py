"""The page of one recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.renderers import TOP, Style
from analysis.renderers import _words as words
from analysis.renderers._kinds import CAUSE_KINDS
from analysis.renderers.html._shared import asset, counted, mean_step, render
from analysis.renderers.html._timeline import payload
from analysis.report import Report, StepsReport, limiting

#: No page is larger, whatever the recording.
MOST_BYTES = 6_000_000
#: Rows per table, where that fits and `--top` does not say.
ROWS = 100
#: Rows of tables whose tail is small.
SHORT_TABLE = 15
#: Bars of the chart of steps; more are joined.
MOST_BARS = 250
#: Fewer bars do not get wider.
LEAST_PLACES = 16

D3_VERSION = "7.9.2"
_SCRIPTS = ("vendor/d3.min.js", "data.js", "words.js", "picture.js", "timeline.js")


@dataclass(frozen=True, slots=True)
class Tile:
    """One of the numbers that matter."""

    label: str
    value: str
    more: str


def page(report: Report, style: Style, index: str | None = None) -> str:
    """The page of one recording.

    Args:
        report: Its report, with lanes.
        style: How many rows tables have.
        index: Address of the page over all recordings, if there is one.
    """
    timeline = _timeline(report)
    rows = style.top if style.top != TOP else ROWS
    while True:
        text = _page(report, rows, timeline, index)
        if len(text.encode("utf-8", errors="backslashreplace")) < MOST_BYTES or rows <= 1:
            return text
        rows //= 2


def _timeline(report: Report) -> str | None:
    lanes = report.lanes
    if lanes is None or not (lanes.devices or lanes.threads):
        return None
    windows = [device.window for device in report.devices]
    low = min((window.start_ns for window in windows), default=0)
    high = max((window.end_ns for window in windows), default=lanes.trace.end)
    return payload(lanes, (low, high))


def _page(report: Report, rows: int, timeline: str | None, index: str | None) -> str:
    lanes = report.lanes
    return render(
        "page.html.j2",
        scripts=_SCRIPTS if timeline else (),
        report=report,
        rows=rows,
        first_rows=min(rows, SHORT_TABLE),
        causes_shown=min(rows, SHORT_TABLE),
        index=index,
        timeline=timeline,
        threads_left_out=lanes.threads_left_out if lanes else 0,
        threads_shown=len(lanes.threads) if lanes else 0,
        processes=len(report.trace.processes),
        tiles=_tiles(report),
        legend=_legend(report),
        chart=_chart(report.steps),
        mean_step=mean_step(report.steps),
        ceilings=list(words.ceilings(report)),
        stalls=words.shown_stalls(report, min(rows, SHORT_TABLE)),
        hidden=words.hidden(report),
        cannot_tell=report.cannot_tell,
        d3_version=D3_VERSION,
        licence=asset("vendor/d3.LICENSE"),
    )


def _tiles(report: Report) -> list[Tile]:
    device = limiting(report.devices)
    if device is None:
        return []
    gpu = f"GPU {device.id}" if len(report.devices) > 1 else "GPU"
    window, parts = device.window.duration_ns, device.partition
    exposed = sum(parts.exposed_copy_ns.values())
    overlap = device.overlap["all"]
    tiles = [
        Tile(
            f"{gpu} idle",
            words.share(parts.idle_ns, window),
            f"{words.duration(parts.idle_ns)} in {counted(device.idle.gap_count, 'gap')}",
        ),
        Tile(
            "exposed copies",
            words.share(exposed, window),
            f"{words.duration(exposed)} of {words.duration(overlap.copy_ns)} of copies",
        ),
    ]
    if overlap.percent is not None:
        tiles.append(
            Tile(
                "copy/compute overlap",
                f"{overlap.percent:.1f} %",
                f"{overlap.achievable_percent:.1f} % is achievable",
            )
        )
    ceiling = report.ceiling
    if report.steps is not None and ceiling is not None:
        best = ceiling.best_per_second
        tiles.append(
            Tile(
                "steps per second",
                f"{report.steps.per_second:,.2f}",
                "" if best is None else f"at most {best:,.2f}",
            )
        )
    return tiles


def _legend(report: Report) -> list[tuple[str, str]]:
    """What the timeline's colours and patterns mean, of what there is."""
    seen = {cause.cause for device in report.devices for cause in device.idle.by_cause}
    copies = {
        transfer.direction for device in report.devices for transfer in device.transfers
    }  # fmt: skip
    return [
        *([("compute", "kernels")] if report.devices else []),
        *((name, f"{name} copies") for name in ("d2h", "h2d", "d2d", "p2p") if name in copies),
        *((name, f"idle: {text}") for name, text in CAUSE_KINDS.items() if name in seen),
    ]


def _chart(steps: StepsReport | None) -> dict[str, Any]:
    """Bars of the steps' periods, in percent of the chart."""
    if steps is None or not steps.rows:
        return {"bars": []}
    joined = -(-len(steps.rows) // MOST_BARS)
    shown = [
        max(steps.rows[i : i + joined], key=lambda row: row.period_ns)
        for i in range(0, len(steps.rows), joined)
    ]
    highest = max(1, *(row.period_ns for row in shown))
    places = max(len(shown), LEAST_PLACES)
    bars = []
    for i, row in enumerate(shown):
        bottom, boxes = 100.0, []
        for name, ns in (
            ("compute", row.compute_ns),
            *row.exposed_copy_ns.items(),
            ("memset", row.exposed_memset_ns),
            ("idle", row.idle_ns),
        ):
            if ns:
                height = 100 * ns / highest
                bottom -= height
                boxes.append((name, f"{bottom:.3f}", f"{height:.3f}"))
        bars.append({"row": row, "x": f"{100 * i / places:.4f}", "boxes": boxes})
    return {
        "bars": bars,
        "width": f"{92 / places:.4f}",
        "ends": f"{100 * len(shown) / places:.4f}",
        "median": f"{100 - 100 * steps.median_ns / highest:.3f}",
        "highest": highest,
        "joined": joined,
    }
