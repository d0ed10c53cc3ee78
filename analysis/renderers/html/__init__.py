"""Reports as web pages: one self-contained file, which opens from disk and asks for nothing else.

One recording makes a page with a timeline; several make a page that compares them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from analysis.metrics.stalls import ALWAYS_REPORTED
from analysis.metrics.steps import StepRow
from analysis.renderers import TOP, Style
from analysis.renderers import _words as words
from analysis.renderers.html._strips import Strip, boxes, strip
from analysis.renderers.html._timeline import NAME_LENGTH, payload
from analysis.report import DeviceReport, Gap, Report, StepsReport

#: The report must hold what the timeline shows.
NEEDS_LANES = True

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
#: Lines between the steps of a strip.
MOST_LINES = 100

GENERATOR = "nsyslab"
D3_VERSION = "7.9.2"

#: Colour alone tells nothing apart.
PATTERNS = {
    "d2h": "rising", "h2d": "falling", "memset": "dots", "launch": "vertical",
    "cuda_api": "rising", "osrt": "falling", "queued": "horizontal", "overhead": "cross",
    "unknown": "dots",
}  # fmt: skip

_CAUSES = {
    "host": "host code",
    "osrt": "OS runtime call",
    "cuda_api": "CUDA call",
    "launch": "launch",
    "queued": "queued work waits",
    "overhead": "profiler overhead",
    "unknown": "unknown",
}


@dataclass(frozen=True, slots=True)
class Tile:
    """One of the numbers that matter."""

    label: str
    value: str
    more: str


def render(reports: Sequence[Report], style: Style) -> str:
    """A page."""
    return (
        page(reports[0], style)
        if len(reports) == 1
        else comparison(reports, [strip(report) for report in reports])
    )


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


def comparison(
    reports: Sequence[Report],
    strips: Sequence[Strip | None],
    pages: Sequence[str] | None = None,
) -> str:
    """A page that compares recordings: what a step takes, side by side and on one scale.

    Args:
        reports: Their reports; lanes are not needed.
        strips: What each did in its first steps.
        pages: Addresses of their pages, if there are any.
    """
    css = _asset("page.css")
    rows = [_compared(report) for report in reports]
    # The slowest recording shows two steps, a faster one as many as it makes in that time.
    scale = max((2 * row.report.steps.median_ns for row in rows if row.report.steps), default=1)
    drawn = [None if one is None else boxes(one, scale) for one in strips]
    return _environment().get_template("comparison.html.j2").render(
        rows=rows,
        strips=drawn,
        scale=scale,
        most_lines=MOST_LINES,
        begins=[[] if one is None else [t for t in one.steps if t < scale] for one in strips],
        pages=pages,
        css=Markup(css),  # noqa: S704 # our own file
        csp=_policy(css, []),
        fastest=max((row.per_second for row in rows if row.per_second), default=None),
        longest=max((sum(ns for *_, ns in row.step) for row in rows), default=0),
        legend=[("compute", "kernels"), ("d2h", "exposed d2h copy"), ("h2d", "exposed h2d copy"),
                ("memset", "exposed memset"), ("idle", "idle")],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """A row of the comparison; `step` is the mean step's partition as class, label and ns."""

    report: Report
    device: DeviceReport | None
    per_second: float | None
    at_most: float | None
    step: tuple[tuple[str, str, int], ...]


def _compared(report: Report) -> Compared:
    device = _limiting(report)
    mean = _per_step(report.steps)
    step = [
        (_class(label), label, ns) for label, ns in mean["ns"].items() if ns or label == "idle"
    ] if report.steps and report.steps.rows else []  # fmt: skip
    order = ["compute", "d2h", "h2d", "d2d", "p2p", "other", "memset", "idle"]
    return Compared(
        report,
        device,
        report.steps.per_second if report.steps else None,
        report.ceiling.best_per_second if report.ceiling else None,
        tuple(sorted(step, key=lambda part: order.index(part[0]))),
    )


def _limiting(report: Report) -> DeviceReport | None:
    """The device that the verdict is about."""
    return max(report.devices, key=lambda d: (sum(d.removable_ns.values()), -d.id), default=None)


def _timeline(report: Report) -> str | None:
    lanes = report.lanes
    if lanes is None or not (lanes.devices or lanes.threads):
        return None
    windows = [device.window for device in report.devices]
    low = min((window.start_ns for window in windows), default=0)
    high = max((window.end_ns for window in windows), default=lanes.trace.end)
    return payload(lanes, (low, high))


def _page(report: Report, rows: int, timeline: str | None, index: str | None) -> str:
    css = _asset("page.css")
    scripts = [_asset("vendor/d3.min.js"), _asset("timeline.js")] if timeline else []
    lanes = report.lanes
    return _environment().get_template("page.html.j2").render(
        report=report,
        rows=rows,
        first_rows=min(rows, SHORT_TABLE),
        causes_shown=min(rows, SHORT_TABLE),
        index=index,
        css=Markup(css),  # noqa: S704 # our own file
        scripts=[Markup(script) for script in scripts],  # noqa: S704 # our own files
        csp=_policy(css, scripts),
        timeline=timeline,
        threads_left_out=lanes.threads_left_out if lanes else 0,
        threads_shown=len(lanes.threads) if lanes else 0,
        processes=len(report.trace.processes),
        tiles=_tiles(report),
        legend=_legend(report),
        chart=_chart(report.steps),
        per_step=_per_step(report.steps),
        ceilings=list(words.ceilings(report)),
        stalls=words.shown_stalls(report, min(rows, SHORT_TABLE)),
        hidden=words.hidden(report),
        cannot_tell=report.cannot_tell,
        d3_version=D3_VERSION,
        licence=_asset("vendor/d3.LICENSE"),
    )  # fmt: skip


@cache
def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text("utf-8")


def _policy(css: str, scripts: Sequence[str]) -> str:
    """A Content-Security-Policy that allows what the page holds, by hash, and nothing else."""

    def source(text: str) -> str:
        digest = hashlib.sha256(text.encode("utf-8")).digest()
        return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"

    allowed = " ".join(map(source, scripts)) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {source(css)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__name__, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "cause": words.cause,
        "causes": _causes,
        "duration": words.duration,
        "filename": lambda path: path.rsplit("/", 1)[-1],
        "holder": words.holder,
        "line": _line,
        "longest": _longest,
        "longest_steps": _longest_steps,
        "moment": lambda ns: f"{ns / 1e6:,.3f} ms",
        "partition": _partition,
        "percent": lambda part, whole: f"{100 * part / whole:.4f}" if whole else "0",
        "share": words.share,
        "size": words.size,
        "transfer_call": words.transfer_call,
    }
    environment.globals |= {
        "always_reported": ALWAYS_REPORTED,
        "generator": GENERATOR,
        "patterns": {name: PATTERNS.get(name) for name in _classes()},
        "verdicts": words.VERDICTS,
    }
    return environment


def _classes() -> list[str]:
    return [*_CAUSES, "compute", "d2h", "h2d", "d2d", "p2p", "other", "memset", "idle", "graphs"]


def _line(text: str) -> str:
    """Text of a recording on one line of bearable length."""
    text = words.one_line(text)
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 1] + "\u2026"


def _longest(gaps: Sequence[Gap], count: int) -> list[Gap]:
    return sorted(gaps, key=lambda gap: (-gap.duration_ns, gap.start_ns))[:count]


def _longest_steps(steps: Sequence[StepRow], count: int) -> list[StepRow]:
    """All in order of time, where they fit, else the longest first."""
    if len(steps) <= count:
        return list(steps)
    return sorted(steps, key=lambda step: (-step.period_ns, step.start_ns))[:count]


def _partition(device: DeviceReport) -> list[tuple[str, str, int]]:
    """The partition as class, label and ns."""
    return [(_class(label), label, ns) for label, ns in words.partition_rows(device)]


def _class(label: str) -> str:
    """What the style sheet calls a part: "d2h" for "exposed d2h copy", "memset", "idle"."""
    parts = label.split()
    return parts[-2] if parts[-1] == "copy" else parts[-1]


def _causes(device: DeviceReport) -> list[tuple[str, str, int]]:
    """Idle time by kind of cause, as class, label and ns, largest first."""
    totals = dict.fromkeys(_CAUSES, 0)
    for cause in device.idle.by_cause:
        totals[cause.cause] += cause.ns
    found = [(name, _CAUSES[name], ns) for name, ns in totals.items() if ns]
    return sorted(found, key=lambda item: -item[2])


def _tiles(report: Report) -> list[Tile]:
    device = _limiting(report)
    if device is None:
        return []
    of = f"GPU {device.id}" if len(report.devices) > 1 else "the GPU"
    window, parts = device.window.duration_ns, device.partition
    exposed = sum(parts.exposed_copy_ns.values())
    overlap = device.overlap["all"]
    tiles = [
        Tile(
            f"idle, {of}",
            words.share(parts.idle_ns, window),
            f"{words.duration(parts.idle_ns)} in {device.idle.gap_count:,} gaps",
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
        name
        for device in report.devices
        for name in (transfer.direction for transfer in device.transfers)
    }
    return [
        ("compute", "kernels"),
        *((name, f"{name} copies") for name in ("d2h", "h2d", "d2d", "p2p") if name in copies),
        *((name, f"idle: {text}") for name, text in _CAUSES.items() if name in seen),
    ]


def _per_step(steps: StepsReport | None) -> dict[str, Any]:
    """The mean step's partition, by the labels of the device's."""
    if steps is None or not steps.rows:
        return {"device": None}
    totals: dict[str, int] = {"compute": 0, "exposed memset": 0, "idle": 0}
    for row in steps.rows:
        totals["compute"] += row.compute_ns
        totals["exposed memset"] += row.exposed_memset_ns
        totals["idle"] += row.idle_ns
        for name, ns in row.exposed_copy_ns.items():
            label = f"exposed {name} copy"
            totals[label] = totals.get(label, 0) + ns
    count = len(steps.rows)
    return {"device": steps.device, "ns": {label: ns // count for label, ns in totals.items()}}


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
        "highest": highest,
        "joined": joined,
    }
