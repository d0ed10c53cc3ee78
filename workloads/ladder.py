"""The table of a ladder: what each rung gained, beside what its recording says of it.

`numbers` takes them from a report (nsyslab.report/1), `table` puts the rungs beside each other.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workloads import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA = "nsyslab.ladder/1"

_DASH = "-"
# On a quiet H200, recordings of rungs that are fed evenly kept within 9 % of their runs.
_ALIKE = 0.1


@dataclass(frozen=True)
class Numbers:
    """What a recording says of a rung, per step; times in ns.

    Args:
        steps: Steps recorded.
        per_second: Those steps per second; None if the recording has no steps.
        window_ns: From the device's first to its last activity, all steps together.
        compute_percent: Compute's share of that window.
        compute_ns: Kernels, per step.
        exposed_copy_ns: Copies that no kernel hides, per step.
        idle_ns: Neither, per step; what the loop adds before and after the window counts.
        overlap_percent: Of the copies' time, hidden by kernels; None without copies.
        longest_gap_ns: The longest idle gap; None if none is long enough to be listed.
        longest_gap_cause: What the feeding thread did for most of it.
        verdict: Of the report.
    """

    steps: int
    per_second: float | None
    window_ns: int
    compute_percent: float
    compute_ns: int
    exposed_copy_ns: int
    idle_ns: int
    overlap_percent: float | None
    longest_gap_ns: int | None
    longest_gap_cause: str | None
    verdict: str


@dataclass(frozen=True)
class Rung:
    """A row of the table. What was not measured, or failed, is None.

    Args:
        rung: Its number.
        name: Of the workload.
        title: What it changes.
        per_second: Steps per second, without a profiler.
        run_steps: Steps that this was measured over.
        verified: Whether the outputs agree with the baseline's, where that was checked.
        numbers: Of its recording.
        predicted: Steps per second that the rung before was predicted to reach with this change.
        predicted_from_first: The same from the first rung, with all changes up to this one.
        published: Steps per second in the article.
        published_speedup: The same as a ratio to the baseline.
        published_on: The article's GPU.
        failure: What went wrong.
    """

    rung: int
    name: str
    title: str
    per_second: float | None = None
    run_steps: int | None = None
    verified: bool | None = None
    numbers: Numbers | None = None
    predicted: float | None = None
    predicted_from_first: float | None = None
    published: float | None = None
    published_speedup: float | None = None
    published_on: str | None = None
    failure: str | None = None

    @property
    def recorded(self) -> float | None:
        """Steps per second in its recording."""
        return None if self.numbers is None else self.numbers.per_second

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return (self.per_second, self.verified, self.numbers) != (None, None, None)


def numbers(report: Mapping[str, Any], steps: int) -> Numbers | None:
    """The numbers of a recording.

    Args:
        report: A nsyslab.report/1 object.
        steps: That were recorded, for a report that has found none itself.

    Returns:
        None if the recording holds no GPU activity.
    """
    if not report["devices"]:
        return None
    device = max(report["devices"], key=lambda each: each["partition"]["compute_ns"])
    window, partition = device["window"]["duration_ns"], device["partition"]
    parts, count = [partition], steps
    loop = report["steps"]
    if loop is not None and loop.get("device", device["id"]) == device["id"]:
        parts, count = loop["rows"], loop["count"]
    longest = max(device["gaps"], key=lambda gap: gap["duration_ns"], default=None)
    return Numbers(
        steps=count,
        per_second=None if loop is None else loop["per_second"],
        window_ns=window,
        compute_percent=100 * partition["compute_ns"] / window if window else 0.0,
        compute_ns=sum(part["compute_ns"] for part in parts) // count,
        exposed_copy_ns=sum(sum(part["exposed_copy_ns"].values()) for part in parts) // count,
        idle_ns=sum(part["idle_ns"] for part in parts) // count,
        overlap_percent=device["overlap"]["all"]["percent"],
        longest_gap_ns=None if longest is None else longest["duration_ns"],
        longest_gap_cause=None if longest is None else _cause(longest),
        verdict=report["verdict"],
    )


def predicted(
    report: Mapping[str, Any], per_second: float, workloads: Sequence[str]
) -> float | None:
    """Steps per second that a report promises to whoever does what some workloads do.

    No time is charged to two findings, so the costs of several add up.

    Args:
        report: Of the rung that is to be changed.
        per_second: What that rung was measured at.
        workloads: The rungs whose remedies are applied.

    Returns:
        None if no finding of the report names one of them.
    """
    found = [f for f in report["findings"] if f["demonstrated_by"] in workloads]
    if not found or report["steps"] is None:
        return None
    span = report["steps"]["span_ns"]
    left = span - sum(finding["cost_ns"] for finding in found)
    return per_second * span / left if left > 0 else None


def predicted_from_first(
    report: Mapping[str, Any], per_second: float, rungs: Sequence[str], rung: str
) -> float | None:
    """Steps per second that the report of the first rung promises at a later one.

    That is without all that the rungs up to there remove; behind the last rung that a finding
    names, it is the ceiling with every copy hidden, at the pinned rate where that is known.

    Args:
        report: Of the first rung.
        per_second: What that one was measured at.
        rungs: Names of the ladder's rungs, the first one first.
        rung: The later one.

    Returns:
        None if the report promises nothing.
    """
    at = rungs.index(rung)
    named = {finding["demonstrated_by"] for finding in report["findings"]}
    if named & set(rungs[at:]):
        return predicted(report, per_second, rungs[1 : at + 1])
    limits = report["ceiling"]
    if limits is None:
        return None
    ratio = limits.get("pinned_ratio") or limits.get("overlapped_ratio")
    return per_second * ratio if ratio else None


def as_json(ladder: str, rungs: Sequence[Rung], run: Mapping[str, Any]) -> dict[str, Any]:
    """The ladder as JSON-ready values.

    Args:
        ladder: Its name.
        rungs: Its rows.
        run: What all rows share: parameters, GPU, versions.
    """
    rows = [
        dataclasses.asdict(rung)
        | {
            "against_baseline": _ratio(rung, rungs[0]),
            "against_previous": _ratio(rung, before),
        }
        for rung, before in _pairs(rungs)
    ]
    return {"schema": SCHEMA, "ladder": ladder, **run, "rungs": rows}


def rows(rungs: Sequence[Rung]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the table; columns that no row fills are left out."""
    header = [
        "rung", "steps/s", "recorded", "vs baseline", "vs before", "compute ms",
        "exposed copy ms", "idle ms", "overlap", "compute share", "longest gap", "verdict",
        "predicted", "from the first", "article", "outputs",
    ]  # fmt: skip
    cells = [
        [
            rung.name,
            _text(rung.per_second, "{:.2f}") if rung.failure is None else "failed",
            _text(rung.recorded, "{:.2f}"),
            _text(_ratio(rung, rungs[0]), "{:.2f}x"),
            _text(_ratio(rung, before), "{:.2f}x"),
            *_numbers(rung.numbers),
            _text(rung.predicted, "{:.2f}"),
            _text(rung.predicted_from_first, "{:.2f}"),
            _published(rung),
            {None: _DASH, True: "verified", False: "WRONG"}[rung.verified],
        ]
        for rung, before in _pairs(rungs)
    ]
    kept = [
        column
        for column in range(len(header))
        if column < 2 or any(row[column] != _DASH for row in cells)
    ]
    return [header[column] for column in kept], [[row[column] for column in kept] for row in cells]


def render(rungs: Sequence[Rung], format_: str, caption: str) -> str:
    """The table as text: ``terminal`` or ``markdown``, failures and doubts below it."""
    header, cells = rows(rungs)
    layout = table.markdown if format_ == "markdown" else table.terminal
    failures = [f"{rung.name} failed: {rung.failure}" for rung in rungs if rung.failure]
    doubts = [doubt for rung in rungs if (doubt := _doubt(rung)) is not None]
    below = "".join(f"\n{line}\n" for line in failures + doubts)
    return f"{caption}\n\n{layout(header, cells)}{below}"


def _doubt(rung: Rung) -> str | None:
    """Says of a recording that it is not like the run without a profiler."""
    if not rung.recorded or not rung.per_second:
        return None
    if abs(rung.recorded / rung.per_second - 1) <= _ALIKE:
        return None
    return (
        f"{rung.name}: {rung.recorded:.2f} steps/s when recorded, {rung.per_second:.2f} without a "
        "profiler: what the recording says may not hold for the run. Record it again, or more "
        "steps (--profile-steps)."
    )


def _pairs(rungs: Sequence[Rung]) -> list[tuple[Rung, Rung | None]]:
    """Each rung with the one before it."""
    return list(zip(rungs, [None, *rungs[:-1]], strict=True))


def _ratio(rung: Rung, other: Rung | None) -> float | None:
    if other is None or rung.per_second is None or not other.per_second:
        return None
    return rung.per_second / other.per_second


def _numbers(found: Numbers | None) -> list[str]:
    if found is None:
        return [_DASH] * 7
    gap = _DASH
    if found.longest_gap_ns is not None:
        gap = f"{_milliseconds(found.longest_gap_ns)} ms, {found.longest_gap_cause}"
    return [
        _milliseconds(found.compute_ns),
        _milliseconds(found.exposed_copy_ns),
        _milliseconds(found.idle_ns),
        _text(found.overlap_percent, "{:.0f} %"),
        f"{found.compute_percent:.1f} %",
        gap,
        found.verdict,
    ]


def _cause(gap: Mapping[str, Any]) -> str:
    """What most of a gap is: parts that differ only in their range are one."""
    totals: dict[str, int] = {}
    for part in gap["parts"]:
        where = part["nvtx"].rpartition(" / ")[2]
        if part["cause"] == "host":
            words = f"host code in {where}"
        elif part["held_by"] is not None:
            words = f"{part['name']} in {where}, held up by {part['held_by']['name']}"
        elif part["cause"] in ("osrt", "cuda_api"):
            words = f"{part['name']} in {where}"
        else:
            words = part["cause"]
        totals[words] = totals.get(words, 0) + part["ns"]
    return max(totals, key=lambda words: totals[words])


def _published(rung: Rung) -> str:
    if rung.published is not None:
        return f"{rung.published:g} ({rung.published_on})"
    if rung.published_speedup is not None:
        return f"{rung.published_speedup:g}x ({rung.published_on})"
    return _DASH


def _milliseconds(ns: int) -> str:
    return f"{ns / 1e6:.1f}"


def _text(value: float | None, form: str) -> str:
    return _DASH if value is None else form.format(value)
