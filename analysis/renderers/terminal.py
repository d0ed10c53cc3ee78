"""Reports for a terminal of 80 columns or more."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analysis.metrics.stalls import ALWAYS_REPORTED
from analysis.renderers import Style
from analysis.renderers import _words as words
from analysis.report import DeviceReport, Gap, Report, limiting
from analysis.words import short_names

_BAR_WIDTH = 24
#: Stands for a space at which no line may break; Rich breaks at U+00A0 too.
_HELD = "\ue000"
_COLORS = {"compute": "green", "idle": "red"}
_VERDICT_COLORS = {"compute-bound": "bold green", "not-enough-data": "bold"}


def render(reports: Sequence[Report], style: Style) -> str:
    """Reports one below the other."""
    text = io.StringIO()
    console = Console(
        file=text,
        width=style.width,
        force_terminal=style.color,
        no_color=not style.color,
        color_system="standard" if style.color else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    for i, report in enumerate(reports):
        if i:
            console.print()
        _report(console, report, style)
    if len(reports) > 1:
        _summary(console, reports)
    # Rich pads lines to the full width; nobody wants that in a file.
    lines = text.getvalue().replace(_HELD, " ").splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _unbroken(text: str) -> str:
    """A text for lines that break between words, not between a number and its unit."""
    return words.BEFORE_UNIT.sub(_HELD, text)


def _report(console: Console, report: Report, style: Style) -> None:
    trace = report.trace
    console.print(Text(words.one_line(trace.path), style="bold"))
    version = f"nsys {trace.nsys_version}" if trace.nsys_version else "nsys of unknown version"
    console.print(f"{version}, {words.duration(trace.duration_ns)} recorded", style="dim")
    console.print()
    console.print(
        Text(words.headline(report), style=_VERDICT_COLORS.get(report.verdict, "bold red"))
    )
    _findings(console, report, style)
    for device in report.devices:
        _device(console, report, device, style)
    if not report.devices:
        console.print()
        console.print(f"GPU metrics: not traced ({report.not_available['devices']})")
    _stalls(console, report, style)
    _steps(console, report)
    notes = [*report.quality.warnings, *words.hidden(report)]
    notes += map(words.cannot_tell, report.cannot_tell if report.devices else ())
    if notes:
        _title(console, "Notes")
        for note in notes:
            console.print(Padding(f"- {words.one_line(note)}", (0, 0, 0, 2)))


def _findings(console: Console, report: Report, style: Style) -> None:
    if not report.findings:
        return
    _title(console, "What to change, by what it costs")
    for number, finding in enumerate(report.findings[: style.top], 1):
        where = f" (GPU {finding.device})" if len(report.devices) > 1 else ""
        title = Text(_unbroken(f"{words.one_line(finding.title)}{where}"), style="bold")
        lines = Table.grid(padding=(0, 2, 0, 0))
        lines.add_row("cost", _unbroken(words.gain(finding)))
        for i, seen in enumerate(finding.evidence):
            lines.add_row("" if i else "seen", Text(_unbroken(words.seen(seen)), style="dim"))
        lines.add_row("do", Text(_unbroken(words.remedy(finding))))
        whole = Table.grid(padding=(0, 1, 0, 0))
        whole.add_row(Text(f"{number}.", style="bold"), title)
        whole.add_row("", lines)
        console.print(Padding(whole, (0, 0, 0, 2)))
    _more(console, len(report.findings) - style.top, "findings")


def _summary(console: Console, reports: Sequence[Report]) -> None:
    """One line per report, last, where a terminal shows it."""
    _title(console, f"{len(reports)} recordings; now and at most in steps per second")
    table = _table(
        ("", "fold"), ("verdict", "left"), ("idle", "right"), ("exposed", "right"),
        ("overlap", "right"), ("now", "right"), ("at most", "right"),
    )  # fmt: skip
    names = short_names([report.trace.path for report in reports])
    for report, name in zip(reports, names, strict=True):
        limits, device = report.ceiling, limiting(report.devices)
        rates = (limits.now_per_second, limits.best_per_second) if limits else (None, None)
        shown = ["-" if rate is None else f"{rate:,.{2 if rate < 1000 else 0}f}" for rate in rates]
        figures = ["-"] * 3
        if device is not None:
            copies = sum(device.partition.exposed_copy_ns.values())
            overlap = device.overlap["all"].percent
            figures = [
                words.share(device.partition.idle_ns, device.window.duration_ns),
                words.share(copies, device.window.duration_ns),
                "-" if overlap is None else f"{overlap:.1f} %",
            ]
        table.add_row(words.one_line(name), report.verdict, *figures, *shown)
    _print(console, table)


def _title(console: Console, title: str) -> None:
    console.print()
    console.print(Text(title, style="bold"))


def _table(*columns: tuple[str, str]) -> Table:
    """A borderless table; a column is its heading and "left", "right" or "fold"."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading, kind in columns:
        if kind == "right":
            table.add_column(heading, justify="right", no_wrap=True)
        else:
            table.add_column(heading, overflow="fold", no_wrap=kind == "left")
    return table


def _print(console: Console, table: Table) -> None:
    console.print(Padding(table, (0, 0, 0, 2)))


def _device(console: Console, report: Report, device: DeviceReport, style: Style) -> None:
    name = f"GPU {device.id}" + (f", {device.name}" if device.name else "")
    window = device.window
    if len(report.devices) > 1:
        name += f": {device.verdict}"
    _title(console, f"{name}, window {words.duration(window.duration_ns)}")
    table = _table(("", "left"), ("", "right"), ("", "right"), ("", "left"))
    for label, ns in words.partition_rows(device):
        filled = round(_BAR_WIDTH * ns / window.duration_ns) if window.duration_ns else 0
        bar = Text("█" * filled + "·" * (_BAR_WIDTH - filled), style=_COLORS.get(label, "yellow"))
        table.add_row(label, words.duration(ns), words.share(ns, window.duration_ns), bar)
    _print(console, table)
    _overlap(console, device)
    _causes(console, device, style)
    _gaps(console, device, style)
    _transfers(console, device)


def _overlap(console: Console, device: DeviceReport) -> None:
    overlap = device.overlap["all"]
    if overlap.percent is None:
        return
    line = (
        f"copy/compute overlap {overlap.percent:.1f} % of {words.duration(overlap.copy_ns)}"
        f" (achievable {overlap.achievable_percent:.1f} %)"
    )
    directions = [
        f"{name} {part.percent:.1f} %"
        for name, part in device.overlap.items()
        if name != "all" and part.percent is not None
    ]
    console.print(Padding(_unbroken(f"{line}: {', '.join(directions)}"), (1, 0, 0, 2)))


def _causes(console: Console, device: DeviceReport, style: Style) -> None:
    idle = device.idle
    if not idle.total_ns:
        return
    _title(console, f"Idle by cause: {words.duration(idle.total_ns)} in {idle.gap_count:,} gaps")
    table = _table(("time", "right"), ("of idle", "right"), ("the feeding thread", "fold"))
    for cause in idle.by_cause[: style.top]:
        what = Text(words.cause(cause))
        what.append(f"  {words.place(cause.nvtx)}", style="dim")
        if cause.held_by:
            what.append(f"\n{_unbroken(words.holder(cause.held_by, cause.ns))}", style="italic")
        table.add_row(words.duration(cause.ns), words.share(cause.ns, idle.total_ns), what)
    _print(console, table)
    _more(console, len(idle.by_cause) - style.top, "causes")


def _more(console: Console, count: int, what: str) -> None:
    if count > 0:
        console.print(f"    and {count:,} more {what} (--top)", style="dim")


def _gaps(console: Console, device: DeviceReport, style: Style) -> None:
    if not device.gaps:
        return
    longest = sorted(device.gaps, key=lambda gap: (-gap.duration_ns, gap.start_ns))[: style.top]
    _title(console, f"Longest gaps: {len(device.gaps):,} listed")
    table = _table(("start", "right"), ("length", "right"), ("what the GPU waited for", "fold"))
    for gap in longest:
        table.add_row(f"{gap.start_ns / 1e6:,.3f} ms", words.duration(gap.duration_ns), _parts(gap))
    _print(console, table)
    _more(console, len(device.gaps) - style.top, "gaps")


def _parts(gap: Gap) -> Text:
    text = Text()
    for part in gap.parts[:2]:
        if text:
            text.append("\n")
        text.append(f"{words.share(part.ns, gap.duration_ns)} {words.cause(part)}")
        text.append(f"  {words.place(part.nvtx)}", style="dim")
        if part.held_by:
            text.append(f"\n  {_unbroken(words.holder(part.held_by, part.ns))}", style="italic")
    thread = gap.feeding_thread
    who = "no thread known"
    if thread is not None:
        who = words.fed_by(thread.thread, thread.process, thread.name)
    if gap.inferred:
        who += ", inferred"
    ended = f", then {gap.ended_by.kind} {gap.ended_by.name}" if gap.ended_by else ""
    line = words.one_line(f"\n{who}{ended}".lstrip("\n"))
    text.append("\n" + (line if len(line) <= 60 else line[:57] + "..."), style="dim")
    return text


def _transfers(console: Console, device: DeviceReport) -> None:
    if not device.transfers:
        return
    _title(console, "Transfers")
    table = _table(
        ("", "left"), ("memory", "left"), ("call", "left"), ("count", "right"), ("size", "right"),
        ("time", "right"), ("GB/s", "right"),
    )  # fmt: skip
    for row in device.transfers:
        rate = "-" if row.gb_per_s is None else f"{row.gb_per_s:.1f}"
        table.add_row(
            row.direction, row.memory, words.transfer_call(row), f"{row.count:,}",
            words.size(row.bytes), words.duration(row.ns), rate,
        )  # fmt: skip
    _print(console, table)


def _stalls(console: Console, report: Report, style: Style) -> None:
    _title(console, "OS runtime calls")
    if "stalls" in report.not_available:
        console.print(f"  {ALWAYS_REPORTED}: not traced ({report.not_available['stalls']})")
        return
    table = _table(
        ("function", "fold"), ("calls", "right"), ("total", "right"), ("longest", "right"),
        ("GPU idle", "right"),
    )  # fmt: skip
    shown = words.shown_stalls(report, style.top)
    for stall in shown:
        idle = words.duration(stall.idle_ns) if report.devices else "not traced"
        table.add_row(
            words.one_line(stall.function), f"{stall.calls:,}", words.duration(stall.total_ns),
            words.duration(stall.max_ns), idle,
        )  # fmt: skip
    _print(console, table)
    _more(console, len(report.stalls) - len(shown), "functions")


def _steps(console: Console, report: Report) -> None:
    steps, ceiling = report.steps, report.ceiling
    if steps is None or ceiling is None:
        if report.devices:
            _title(console, "Steps")
            console.print(Padding(f"none: {report.not_available['steps']}", (0, 0, 0, 2)))
        return
    _title(console, f'Steps: {steps.count:,} of "{words.one_line(steps.pattern)}"')
    console.print(
        Padding(
            _unbroken(
                f"{steps.per_second:,.2f} per second; median {words.duration(steps.median_ns)}, "
                f"p95 {words.duration(steps.p95_ns)}, spread {words.duration(steps.spread_ns)}, "
                f"idle at the edges {words.duration(steps.edge_idle_ns)}"
            ),
            (0, 0, 0, 2),
        )
    )
    table = _table(
        ("at most (ceilings do not add up)", "left"), ("per second", "right"), ("", "right")
    )
    for label, rate, ratio in words.ceilings(report):
        table.add_row(label, rate, ratio)
    _print(console, table)
