"""Reports as Markdown, for issues and pull requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analysis.metrics.stalls import ALWAYS_REPORTED
from analysis.renderers import Style
from analysis.renderers import _words as words
from analysis.report import DeviceReport, Gap, Report

#: Characters that would end a table cell, or be markup, in a name from a recording.
_ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|~"})


def render(reports: Sequence[Report], style: Style) -> str:
    """Reports one below the other."""
    return "\n".join("\n".join(_report(report, style)) + "\n" for report in reports)


def escaped(name: str) -> str:
    """A name from a recording as Markdown that shows it as it is, on one line."""
    return words.one_line(name).translate(_ESCAPES)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; headings that end in ":" make right-aligned columns."""
    rule = ["---:" if heading.endswith(":") else "---" for heading in headings]
    lines = [[heading.rstrip(":") for heading in headings], rule, *rows]
    return ["", *("| " + " | ".join(line) + " |" for line in lines), ""]


def _report(report: Report, style: Style) -> list[str]:
    trace = report.trace
    lines = [
        f"## {escaped(trace.path)}",
        "",
        f"**{words.headline(report)}**",
        "",
        f"nsys {trace.nsys_version or 'of unknown version'}, "
        f"{words.duration(trace.duration_ns)} recorded",
    ]
    lines += _findings(report, style)
    for device in report.devices:
        lines += _device(device, style)
    if not report.devices:
        lines += ["", f"GPU metrics: not traced ({report.not_available['devices']})"]
    lines += _stalls(report, style)
    lines += _steps(report)
    notes = [*report.quality.warnings, *words.hidden(report)]
    notes += map(words.cannot_tell, report.cannot_tell if report.devices else ())
    if notes:
        lines += ["", "### Notes", "", *(f"- {escaped(note)}" for note in notes)]
    return lines


def _findings(report: Report, style: Style) -> list[str]:
    if not report.findings:
        return []
    lines = ["", "### What to change, by what it costs", ""]
    for number, finding in enumerate(report.findings[: style.top], 1):
        lines += [
            f"{number}. **{escaped(finding.title)}**",
            f"   {words.gain(finding)}.",
            *(f"   - {escaped(words.seen(seen))}" for seen in finding.evidence),
            f"   - {escaped(words.remedy(finding))}",
        ]
    return lines


def _device(device: DeviceReport, style: Style) -> list[str]:
    window = device.window.duration_ns
    name = f"GPU {device.id}" + (f", {escaped(device.name)}" if device.name else "")
    lines = ["", f"### {name}: {words.duration(window)}"]
    lines += _table(
        ("", "time:", "of window:"),
        (
            (label, words.duration(ns), words.share(ns, window))
            for label, ns in words.partition_rows(device)
        ),
    )
    overlap = device.overlap["all"]
    if overlap.percent is not None:
        lines.append(
            f"Copy/compute overlap {overlap.percent:.1f} % of "
            f"{words.duration(overlap.copy_ns)}, achievable {overlap.achievable_percent:.1f} %."
        )
    idle = device.idle
    if idle.total_ns:
        title = f"Idle by cause: {words.duration(idle.total_ns)} in {idle.gap_count:,} gaps"
        lines += ["", f"#### {title}"]
        lines += _table(
            ("time:", "of idle:", "the feeding thread", "in", "held up"),
            (
                (
                    words.duration(cause.ns),
                    words.share(cause.ns, idle.total_ns),
                    escaped(words.cause(cause)),
                    escaped(cause.nvtx),
                    escaped(words.holder(cause.held_by, cause.ns)) if cause.held_by else "",
                )
                for cause in idle.by_cause[: style.top]
            ),
        )
    if device.gaps:
        longest = sorted(device.gaps, key=lambda gap: (-gap.duration_ns, gap.start_ns))
        lines += [f"#### Longest gaps: {len(device.gaps):,} listed"]
        lines += _table(
            ("start:", "length:", "what the GPU waited for"),
            (
                (
                    f"{gap.start_ns / 1e6:,.3f} ms",
                    words.duration(gap.duration_ns),
                    _parts(gap),
                )
                for gap in longest[: style.top]
            ),
        )
    if device.transfers:
        lines += ["#### Transfers"]
        lines += _table(
            ("", "memory", "call", "count:", "size:", "time:", "GB/s:"),
            (
                (
                    row.direction,
                    row.memory,
                    words.transfer_call(row),
                    f"{row.count:,}",
                    words.size(row.bytes),
                    words.duration(row.ns),
                    "-" if row.gb_per_s is None else f"{row.gb_per_s:.1f}",
                )
                for row in device.transfers
            ),
        )
    return lines


def _parts(gap: Gap) -> str:
    return "<br>".join(
        f"{escaped(words.share(part.ns, gap.duration_ns))} {escaped(words.cause(part))} "
        f"{escaped(words.place(part.nvtx))}"
        + (f", {escaped(words.holder(part.held_by, part.ns))}" if part.held_by else "")
        for part in gap.parts[:2]
    )


def _stalls(report: Report, style: Style) -> list[str]:
    lines = ["", "### OS runtime calls"]
    if "stalls" in report.not_available:
        return [
            *lines,
            "",
            f"{ALWAYS_REPORTED}: not traced ({report.not_available['stalls']})",
        ]
    return lines + _table(
        ("function", "calls:", "total:", "longest:", "GPU idle:"),
        (
            (
                escaped(stall.function),
                f"{stall.calls:,}",
                words.duration(stall.total_ns),
                words.duration(stall.max_ns),
                words.duration(stall.idle_ns) if report.devices else "not traced",
            )
            for stall in words.shown_stalls(report, style.top)
        ),
    )


def _steps(report: Report) -> list[str]:
    steps = report.steps
    if steps is None:
        reason = report.not_available["steps"]
        return ["", "### Steps", "", f"none: {escaped(reason)}"] if report.devices else []
    lines = [
        "",
        f"### Steps: {steps.count:,} of {escaped(steps.pattern)}",
        "",
        f"{steps.per_second:,.2f} per second; median {words.duration(steps.median_ns)}, "
        f"p95 {words.duration(steps.p95_ns)}, spread {words.duration(steps.spread_ns)}, "
        f"idle at the edges {words.duration(steps.edge_idle_ns)}",
    ]
    return lines + _table(
        ("at most (ceilings do not add up)", "per second:", "against now:"), words.ceilings(report)
    )
