"""Strips: what a device did in the first steps, for comparing recordings on one time scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.intervals import IntervalSet, interval, union
from analysis.report import Report

#: A strip is drawn in that many columns, each as high as the part of its time that is covered.
COLUMNS = 600
#: Heights that are told apart.
_LEVELS = 8

#: Rows of a strip from top to bottom, as classes of the style sheet, and the lanes that they show.
_ROWS = {"compute": ("kernels", "graphs"), "d2h": ("d2h",), "h2d": ("h2d",)}


@dataclass(frozen=True, eq=False)
class Strip:
    """The steps of one recording.

    Attributes:
        start: Start of the first step, ns.
        length: Length of all steps, ns.
        rows: Class, and when the device did that or was idle.
        steps: Where steps begin, ns from the start.
    """

    start: int
    length: int
    rows: tuple[tuple[str, IntervalSet], ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of a strip, in percent of it."""

    name: str
    x: str
    y: str
    width: str
    height: str


def strip(report: Report) -> Strip | None:
    """The strip of a report that holds lanes; None if it has no steps.

    Args:
        report: The report.
    """
    steps, lanes = report.steps, report.lanes
    if steps is None or not steps.rows or lanes is None:
        return None
    span = interval(steps.span_start_ns, steps.span_start_ns + steps.span_ns)
    shown = next(d for d in lanes.devices if lanes.trace.devices[d.device].id == steps.device)
    rows = [("idle", span)]
    for name, kinds in _ROWS.items():
        busy = IntervalSet(np.empty(0, np.int64), np.empty(0, np.int64))
        for lane in shown.lanes:
            table = getattr(lanes.trace, lane.table)
            of_lane = union(table.start[lane.rows], table.end[lane.rows])
            rows[0] = "idle", rows[0][1] - of_lane
            if lane.kind in kinds:
                busy = busy | of_lane
        rows.append((name, busy & span))
    begins = tuple(row.start_ns - steps.span_start_ns for row in steps.rows)
    return Strip(steps.span_start_ns, steps.span_ns, tuple(rows), begins)


def boxes(of: Strip, scale: int) -> list[Box]:
    """A strip as rectangles.

    Args:
        of: The strip.
        scale: How much time the whole width stands for, ns.
    """
    edges = of.start + np.linspace(0, scale, COLUMNS + 1).astype(np.int64)
    found = []
    tall = 100 / len(of.rows)
    for row, (name, when) in enumerate(of.rows):
        covered = when.measure(edges[:-1], edges[1:])
        # What is there at all has the least height at least.
        level = np.ceil(_LEVELS * covered / np.maximum(np.diff(edges), 1)).astype(np.int64)
        change = np.flatnonzero(np.diff(level)) + 1
        starts = np.concatenate([[0], change])
        ends = np.concatenate([change, [COLUMNS]])
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
            if level[first]:
                height = 0.92 * tall * int(level[first]) / _LEVELS
                found.append(
                    Box(
                        name,
                        f"{100 * first / COLUMNS:.3f}",
                        f"{tall * (row + 1) - height:.2f}",
                        f"{100 * (last - first) / COLUMNS:.3f}",
                        f"{height:.2f}",
                    )
                )
    return found
