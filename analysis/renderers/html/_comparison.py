"""A page that compares recordings: what a step takes, side by side and on one scale.

Only what is alike compares: recordings whose names begin alike, such as the rungs of a ladder, make
a group with scales of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from analysis.renderers.html._shared import Kind, kind_class, mean_step, render
from analysis.renderers.html._strips import Box, Strip, boxes
from analysis.report import DeviceReport, Report, limiting
from analysis.words import short_names

#: Lines between the steps of a strip.
MOST_LINES = 100

_ORDER = ("compute", "d2h", "h2d", "d2d", "p2p", "other", "memset", "idle")


@dataclass(frozen=True, slots=True)
class Compared:
    """A recording.

    Attributes:
        name: What it is called beside the others.
        report: Its report.
        strip: What it did in its first steps, if it has any.
        page: Address of its page, if it has one.
        device: The device that its verdict is about.
        step: The mean step's partition; empty without steps.
    """

    name: str
    report: Report
    strip: Strip | None
    page: str | None
    device: DeviceReport | None
    step: tuple[Kind, ...]

    @property
    def per_second(self) -> float | None:
        """Steps per second."""
        return self.report.steps.per_second if self.report.steps else None

    @property
    def at_most(self) -> float | None:
        """The highest ceiling that is stated, steps per second."""
        return self.report.ceiling.best_per_second if self.report.ceiling else None


@dataclass(frozen=True, slots=True)
class Group:
    """Recordings on one scale.

    Attributes:
        name: What their names begin with; empty for a group of all or of the rest.
        rows: The recordings.
        fastest: What the whole width of a bar of throughput stands for, steps per second.
        longest: What that of a mean step stands for, ns.
        scale: What that of a strip stands for, ns.
    """

    name: str
    rows: tuple[Compared, ...]
    fastest: float
    longest: int
    scale: int

    @property
    def first(self) -> Compared | None:
        """What the others are held against: the first that has steps."""
        return next((row for row in self.rows if row.per_second), None)

    def boxes(self, row: Compared) -> list[Box]:
        """The strip of a recording as rectangles."""
        return [] if row.strip is None else boxes(row.strip, self.scale)

    def begins(self, row: Compared) -> list[int]:
        """Where steps begin in its strip, ns."""
        return [] if row.strip is None else [t for t in row.strip.steps if t < self.scale]


def comparison(
    reports: Sequence[Report],
    strips: Sequence[Strip | None],
    pages: Sequence[str] | None = None,
    *,
    slowest_first: bool = False,
) -> str:
    """A page that compares recordings.

    Args:
        reports: Their reports; lanes are not needed.
        strips: What each did in its first steps.
        pages: Addresses of their pages, if there are any.
        slowest_first: Order a group by throughput; else as given.
    """
    addresses: Sequence[str | None] = pages or [None] * len(reports)
    names = short_names([report.trace.path for report in reports])
    rows = [_compared(*found) for found in zip(names, reports, strips, addresses, strict=True)]
    groups = [_group(name, of_name, slowest_first) for name, of_name in grouped(rows)]
    return render(
        "comparison.html.j2",
        rows=[row for group in groups for row in group.rows],
        groups=groups,
        most_lines=MOST_LINES,
        legend=[("compute", "kernels"), ("d2h", "exposed d2h copy"), ("h2d", "exposed h2d copy"),
                ("memset", "exposed memset"), ("idle", "idle")],
        lanes=[("strip-idle", "idle"), ("compute", "kernels"), ("d2h", "d2h copies"),
               ("h2d", "h2d copies")],
    )  # fmt: skip


def _compared(name: str, report: Report, of: Strip | None, address: str | None) -> Compared:
    step = (
        (kind_class(label), label, ns)
        for label, ns in mean_step(report.steps).items()
        if ns or label == "idle"
    )
    ordered = tuple(sorted(step, key=lambda part: _ORDER.index(part[0])))
    return Compared(name, report, of, address, limiting(report.devices), ordered)


def grouped(rows: Iterable[Compared]) -> list[tuple[str, list[Compared]]]:
    """Recordings by what their names begin with, in order; those like no other come last."""
    by_name: dict[str, list[Compared]] = {}
    for row in rows:
        stem = PurePath(row.report.trace.path).name
        by_name.setdefault(re.split(r"[_.-]", stem, maxsplit=1)[0], []).append(row)
    alike = [(name, found) for name, found in by_name.items() if len(found) > 1]
    alone = [row for found in by_name.values() if len(found) == 1 for row in found]
    return alike + ([("", alone)] if alone else [])


def _group(name: str, rows: list[Compared], slowest_first: bool) -> Group:
    if slowest_first:
        rows = sorted(rows, key=lambda row: row.per_second or 0)
    rates = [rate for row in rows for rate in (row.per_second, row.at_most) if rate]
    # The slowest shows two steps, a faster one as many as it makes in that time.
    periods = [row.report.steps.median_ns for row in rows if row.report.steps]
    return Group(
        name=name,
        rows=tuple(rows),
        fastest=max(rates, default=0.0),
        longest=max((sum(ns for *_, ns in row.step) for row in rows), default=0),
        scale=2 * max(periods, default=0),
    )
