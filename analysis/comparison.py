"""The same program before and after: figures per step, and what moved.

Works on reports in the shape of the JSON contract, so that earlier reports can be compared too.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.words import at, cause_text

SCHEMA = "nsyslab.compare/1"


@dataclass(frozen=True, slots=True)
class Figures:
    """What is compared of one recording; times in ns per step, or of the window without steps.

    Attributes:
        per: "step" or "window".
        verdict: Of the report.
        main: Period, compute, exposed copies, idle, overlap (percent), steps per second; None for
            what the recording does not have.
        causes: Idle time by cause.
        transfers: Rate of copies by kind, 10^9 bytes per second.
    """

    per: str
    verdict: str
    main: Mapping[str, float | None]
    causes: Mapping[str, float]
    transfers: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Column:
    """One version of the program: a recording, or several of the same.

    Attributes:
        name: What the user called it.
        verdicts: Of its recordings.
        count: How many recordings.
        per: As in `Figures`.
    """

    name: str
    verdicts: tuple[str, ...]
    count: int
    per: str


@dataclass(frozen=True, slots=True)
class Row:
    """One figure over all columns.

    Attributes:
        section: "main", "causes" or "transfers".
        name: Of the figure.
        unit: "ns", "%", "/s" or "GB/s".
        values: Median per column; None where it has none.
        spreads: Largest less smallest per column; None with fewer than two.
        change: Last column less the first; None where one has none.
        noise: Whether that is within the larger spread; None without any spread.
    """

    section: str
    name: str
    unit: str
    values: tuple[float | None, ...]
    spreads: tuple[float | None, ...]
    change: float | None
    noise: bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Columns and rows; `summary` says in sentences what moved from the first to the last."""

    schema: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    summary: tuple[str, ...]


def figures(report: Mapping[str, Any], *, whole: bool = False) -> Figures:
    """The figures of a report.

    Args:
        report: A nsyslab.report/1 object; values may be dataclasses.
        whole: Take the window even where there are steps.
    """
    steps = None if whole else report["steps"]
    devices = report["devices"]
    if steps is not None:
        device = next((d for d in devices if _get(d, "id") == _get(steps, "device")), None)
    else:
        device = max(devices, key=lambda d: _get(_get(d, "partition"), "compute_ns"), default=None)
    per = "step" if steps is not None else "window"
    if device is None:
        return Figures(per, report["verdict"], {}, {}, {})
    if steps is not None:
        parts, count = _get(steps, "rows"), _get(steps, "count")
        length = _get(steps, "span_ns")
        causes = [*_get(_get(device, "idle"), "by_cause"), *_get(steps, "edge_by_cause")]
    else:
        parts, count = [_get(device, "partition")], 1
        length = _get(_get(device, "window"), "duration_ns")
        causes = _get(_get(device, "idle"), "by_cause")
    exposed: dict[str, float] = {}
    for part in parts:
        for direction, ns in _get(part, "exposed_copy_ns").items():
            exposed[direction] = exposed.get(direction, 0) + ns / count
    main: dict[str, float | None] = {
        "steps per second": _get(steps, "per_second") if steps is not None else None,
        "period": length / count,
        "compute": sum(_get(part, "compute_ns") for part in parts) / count,
        "exposed copies": sum(exposed.values()),
        **{f"exposed {name} copies": ns for name, ns in exposed.items() if ns},
        "exposed memset": sum(_get(part, "exposed_memset_ns") for part in parts) / count,
        "idle": sum(_get(part, "idle_ns") for part in parts) / count,
        "overlap": _get(_get(device, "overlap")["all"], "percent"),
    }
    by_cause: dict[str, float] = {}
    for cause in causes:
        key = _cause(cause)
        by_cause[key] = by_cause.get(key, 0) + _get(cause, "ns") / count
    rates = {
        f"{_get(row, 'direction')} {_get(row, 'memory')}": _get(row, "gb_per_s")
        for row in _get(device, "transfers")
    }
    return Figures(per, report["verdict"], main, by_cause, rates)


def _get(value: Any, name: str) -> Any:
    """A field of a dataclass or of the mapping that JSON made of it."""
    return value[name] if isinstance(value, Mapping) else getattr(value, name)


def _cause(cause: Any) -> str:
    kind, name, nvtx = (_get(cause, key) for key in ("cause", "name", "nvtx"))
    # Queued work is named after the kernels' launches, which is no part of the cause.
    what = cause_text(kind, None if kind == "queued" else name)
    held = _get(cause, "held_by")
    by = f", held up by {_get(held, 'name')}" if held else ""
    return f"{what} {at(nvtx)}{by}"


def compare(columns: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> Comparison:
    """Puts versions of a program beside each other.

    Args:
        columns: Name and reports of each version, the first the one that is compared with.
    """
    whole = any(report["steps"] is None for _, reports in columns for report in reports)
    found = [[figures(report, whole=whole) for report in reports] for _, reports in columns]
    rows = [
        *_rows("main", found, "ns"),
        *sorted(
            _rows("causes", found, "ns"),
            key=lambda row: (-max(value or 0 for value in row.values), row.name),
        ),
        *_rows("transfers", found, "GB/s"),
    ]
    return Comparison(
        SCHEMA,
        tuple(
            Column(name, tuple(f.verdict for f in of_column), len(of_column), of_column[0].per)
            for (name, _), of_column in zip(columns, found, strict=True)
        ),
        tuple(rows),
        tuple(_summary(rows, "window" if whole else "step")),
    )


_UNITS = {"overlap": "%", "steps per second": "/s"}


def _rows(section: str, columns: Sequence[Sequence[Figures]], unit: str) -> list[Row]:
    names = dict.fromkeys(
        name for column in columns for each in column for name in getattr(each, section)
    )
    return [_row(section, name, _UNITS.get(name, unit), columns) for name in names]


def _row(section: str, name: str, unit: str, columns: Sequence[Sequence[Figures]]) -> Row:
    values: list[float | None] = []
    spreads: list[float | None] = []
    for column in columns:
        found = [getattr(each, section).get(name) for each in column]
        known = [value for value in found if value is not None]
        if section == "causes" and known:
            # A cause that a recording of this version does not have cost it nothing.
            known += [0.0] * (len(found) - len(known))
        values.append(statistics.median(known) if known else None)
        spreads.append(max(known) - min(known) if len(known) > 1 else None)
    first, last = values[0], values[-1]
    if section == "causes":
        change: float | None = (last or 0.0) - (first or 0.0)
    else:
        change = None if first is None or last is None else last - first
    spread = max((s for s in (spreads[0], spreads[-1]) if s is not None), default=None)
    noise = None if spread is None or change is None else abs(change) <= spread
    return Row(section, name, unit, tuple(values), tuple(spreads), change, noise)


#: Causes that moved by less than this share of the period are not worth a sentence.
_WORTH_SAYING = 0.01


def _summary(rows: Sequence[Row], per: str) -> list[str]:
    main = {row.name: row for row in rows if row.section == "main"}
    lines = []
    period = main.get("period")
    if period is None or not period.values[0] or not period.values[-1]:
        return ["one of the recordings holds no GPU activity"]
    ratio = period.values[0] / period.values[-1]
    noise = " (noise)" if period.noise else ""
    before, after = (f"{value / 1e6:,.2f}" for value in (period.values[0], period.values[-1]))
    lines.append(f"{ratio:.2f} x as fast: {before} to {after} ms per {per}{noise}")
    for name in ("compute", "exposed copies", "idle"):
        row = main[name]
        if row.change is not None and abs(row.change) >= _WORTH_SAYING * period.values[0]:
            how = "fell" if row.change < 0 else "rose"
            noise = " (noise)" if row.noise else ""
            lines.append(f"{name} {how} by {abs(row.change) / 1e6:,.2f} ms per {per}{noise}")
    moved = [
        row
        for row in rows
        if row.section == "causes"
        and row.change is not None
        and abs(row.change) >= _WORTH_SAYING * period.values[0]
        and not row.noise
    ]
    for row in sorted(moved, key=lambda row: -abs(row.change or 0)):
        if row.values[-1] is None:
            how = "went away"
        elif row.values[0] is None:
            how = "appeared"
        else:
            how = "fell" if (row.change or 0) < 0 else "rose"
        lines.append(
            f"idle cause {how}: {row.name}, {abs(row.change or 0) / 1e6:,.2f} ms per {per}"
        )
    return lines
