"""Limits that a recording has to keep; the logic of ``nsyslab check``."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from analysis.comparison import Figures, figures
from analysis.errors import InputError
from analysis.report import SCHEMA, DeviceReport, Report

_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%?\s*")
VERDICTS = ("compute-bound", "copy-bound", "sync-bound", "launch-bound", "host-bound")


@dataclass(frozen=True, slots=True)
class Gates:
    """What is demanded; None and empty for what is not.

    Attributes:
        max_idle: Idle share of the window, percent; of every device.
        max_exposed: Share of exposed copies, percent.
        min_overlap: Copies hidden by kernels, percent.
        max_gap: Longest idle gap, ns.
        max_step: Median step, ns.
        min_steps_per_second: Rate of the steps.
        max_stall: GPU idle time that an OS runtime function causes per step (in all, without
            steps), ns by function.
        verdict: Verdicts that are accepted.
        forbid: Findings that there must not be, by id.
        baseline: An earlier report of ``nsyslab analyze --format json``.
        tolerance: How much worse than the baseline is accepted, percent.
    """

    max_idle: float | None = None
    max_exposed: float | None = None
    min_overlap: float | None = None
    max_gap: int | None = None
    max_step: int | None = None
    min_steps_per_second: float | None = None
    max_stall: Mapping[str, int] = field(default_factory=dict)
    verdict: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    baseline: Path | None = None
    tolerance: float = 10.0

    def over(self, other: Gates) -> Gates:
        """These gates, and those of `other` that these leave open."""
        own = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if getattr(self, f.name) != getattr(Gates(), f.name)
        }
        own["max_stall"] = {**other.max_stall, **self.max_stall}
        return replace(other, **own)

    def demands_nothing(self) -> bool:
        """Whether there is no gate at all."""
        return replace(self, tolerance=Gates().tolerance) == Gates()


@dataclass(frozen=True, slots=True)
class Outcome:
    """One gate: whether it holds, and the line that says so."""

    passed: bool
    line: str


def percent(text: str | float) -> float:
    """A percentage, "5%", "5" or 5.

    Raises:
        InputError: It is none.
    """
    match = _PERCENT.fullmatch(str(text))
    if isinstance(text, bool) or match is None:
        raise InputError(f"{text!r} is not a percentage", hint="write 5% or 5")
    return float(match[1])


def read_config(path: Path, duration: Callable[[str], int]) -> Gates:
    """Gates from a TOML file: the options of the command with underscores.

    Args:
        path: The file.
        duration: Reads a time such as "1ms"; raises ValueError.

    Raises:
        InputError: It cannot be read, or holds something unknown.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    known = {f.name for f in fields(Gates)}
    unknown = sorted(set(content) - known)
    if unknown:
        raise InputError(
            f"{path}: there is no gate {unknown[0]!r}", hint="there are " + ", ".join(sorted(known))
        )

    def time(value: object, name: str) -> int:
        try:
            return duration(str(value))
        except ValueError as error:
            raise InputError(f"{path}: {name}: {error}") from error

    def words(value: object, name: str) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        if isinstance(value, str):
            return (value,)
        raise InputError(f"{path}: {name} is not a list of names: {value!r}")

    found: dict[str, Any] = {}
    for name, value in content.items():
        if name in ("max_idle", "max_exposed", "min_overlap", "tolerance"):
            found[name] = percent(value)
        elif name in ("max_gap", "max_step"):
            found[name] = time(value, name)
        elif name == "max_stall":
            if not isinstance(value, dict):
                raise InputError(
                    f"{path}: max_stall is a table", hint='[max_stall]\nmunmap = "1ms"'
                )
            found[name] = {f: time(limit, f"{name}.{f}") for f, limit in value.items()}
        elif name in ("verdict", "forbid"):
            found[name] = words(value, name)
        elif name == "baseline":
            found[name] = path.parent / str(value)
        else:
            try:
                found[name] = float(value)
            except (TypeError, ValueError) as error:
                raise InputError(f"{path}: {name} is not a number: {value!r}") from error
    return check_names(Gates(**found))


def check_names(gates: Gates) -> Gates:
    """The gates, if all verdicts and findings that they name exist.

    Raises:
        InputError: One does not.
    """
    from analysis.diagnosis import rules

    ids = [id_ for id_, _ in rules()]
    for what, names, known in (
        ("verdict", gates.verdict, VERDICTS),
        ("finding", gates.forbid, sorted(ids)),
    ):
        for name in names:
            if name not in known:
                raise InputError(
                    f"there is no {what} {name!r}", hint="there are " + ", ".join(known)
                )
    return gates


def read_baseline(path: Path) -> Figures:
    """The figures of a report that was written by ``nsyslab analyze --format json``.

    Raises:
        InputError: It is no such report.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(report, dict) or report.get("schema") != SCHEMA:
        raise InputError(
            f"{path} is no report",
            hint="write one: nsyslab analyze FILE --format json -o " + str(path),
        )
    return figures(report)


def evaluate(report: Report, gates: Gates, baseline: Figures | None) -> list[Outcome]:
    """Every gate, in the order of `Gates`. What cannot be computed fails.

    Args:
        report: Of the recording; its gaps have to be listed from 0 on for `max_gap`.
        gates: What is demanded.
        baseline: The figures of `Gates.baseline`.
    """
    return [
        *_of_devices(report, gates),
        *_of_steps(report, gates),
        *_of_stalls(report, gates),
        *_of_findings(report, gates),
        *(_against(report, baseline, gates.tolerance) if baseline else ()),
    ]


def _cannot(what: str, reason: str) -> Outcome:
    return Outcome(False, f"{what} cannot be computed: {reason}")


def _limit(what: str, value: float, limit: float, unit: str, *, least: bool = False) -> Outcome:
    passed = value >= limit if least else value <= limit
    relation = (">=" if least else "<=") if passed else ("<" if least else ">")
    return Outcome(passed, f"{what} {value:,.4g}{unit} {relation} {limit:,.4g}{unit}")


def _of_devices(report: Report, gates: Gates) -> Iterator[Outcome]:
    def idle(device: DeviceReport) -> float | None:
        window = device.window.duration_ns
        return 100 * device.partition.idle_ns / window if window else None

    def exposed(device: DeviceReport) -> float | None:
        window = device.window.duration_ns
        copies = sum(device.partition.exposed_copy_ns.values())
        return 100 * copies / window if window else None

    def gap(device: DeviceReport) -> float:
        return max((gap.duration_ns for gap in device.gaps), default=0) / 1e6

    limit_of_gap = None if gates.max_gap is None else gates.max_gap / 1e6
    wanted: list[tuple[str, float | None, str, Callable[[DeviceReport], float | None], bool]] = [
        ("idle", gates.max_idle, " %", idle, False),
        ("exposed copies", gates.max_exposed, " %", exposed, False),
        ("overlap", gates.min_overlap, " %", lambda d: d.overlap["all"].percent, True),
        ("longest gap", limit_of_gap, " ms", gap, False),
    ]
    for what, limit, unit, value_of, least in wanted:
        if limit is None:
            continue
        if not report.devices:
            yield _cannot(what, report.not_available["devices"])
        for device in report.devices:
            name = f"{what} of GPU {device.id}" if len(report.devices) > 1 else what
            value = value_of(device)
            if value is None:
                reason = "there are no copies" if what == "overlap" else "the window is empty"
                yield _cannot(name, reason)
            else:
                yield _limit(name, value, limit, unit, least=least)


def _of_steps(report: Report, gates: Gates) -> Iterator[Outcome]:
    steps = report.steps
    for what, limit, unit, least in (
        ("median step", gates.max_step, " ms", False),
        ("steps per second", gates.min_steps_per_second, "", True),
    ):
        if limit is None:
            continue
        if steps is None:
            yield _cannot(what, report.not_available["steps"])
        elif least:
            yield _limit(what, steps.per_second, limit, unit, least=True)
        else:
            yield _limit(what, steps.median_ns / 1e6, limit / 1e6, unit)


def _of_stalls(report: Report, gates: Gates) -> Iterator[Outcome]:
    idle = {stall.function: stall.idle_ns for stall in report.stalls}
    count = report.steps.count if report.steps else 1
    per = " per step" if report.steps else ""
    for function, limit in sorted(gates.max_stall.items()):
        what = f"GPU idle by {function}{per}"
        if "stalls" in report.not_available:
            yield _cannot(what, report.not_available["stalls"])
        elif not report.devices:
            yield _cannot(what, report.not_available["devices"])
        else:
            yield _limit(what, idle.get(function, 0) / count / 1e6, limit / 1e6, " ms")


def _of_findings(report: Report, gates: Gates) -> Iterator[Outcome]:
    if gates.verdict:
        accepted = " or ".join(gates.verdict)
        passed = report.verdict in gates.verdict
        yield Outcome(passed, f"verdict {report.verdict} is {'' if passed else 'not '}{accepted}")
    unsure = {entry.id: entry for entry in report.cannot_tell}
    for id_ in gates.forbid:
        found = [finding for finding in report.findings if finding.id == id_]
        if id_ in unsure:
            yield _cannot(f"finding {id_}", unsure[id_].reason)
        elif not report.devices:
            yield _cannot(f"finding {id_}", report.not_available["devices"])
        elif found:
            yield Outcome(False, f"finding {id_}: {found[0].title}")
        else:
            yield Outcome(True, f"finding {id_} is absent")


def _against(report: Report, baseline: Figures, tolerance: float) -> Iterator[Outcome]:
    """Times may grow by a share of the baseline's step, rates and overlap fall by one."""
    now = figures(report.contract())
    if baseline.per != now.per:
        yield _cannot(
            "the difference to the baseline", f"one is per {baseline.per}, one per {now.per}"
        )
        return
    whole = baseline.main.get("period")
    for name, unit in (("period", " ms"), ("exposed copies", " ms"), ("idle", " ms")):
        before, after = baseline.main.get(name), now.main.get(name)
        what = f"{name} per {now.per}"
        if before is None or after is None or whole is None:
            yield _cannot(what, "the baseline or the recording has none")
            continue
        limit = (before + tolerance / 100 * whole) / 1e6
        outcome = _limit(what, after / 1e6, limit, unit)
        yield Outcome(outcome.passed, f"{outcome.line} (baseline {before / 1e6:,.4g}{unit})")
    before, after = baseline.main.get("overlap"), now.main.get("overlap")
    if before is not None:
        if after is None:
            yield _cannot("overlap", "there are no copies")
        else:
            outcome = _limit("overlap", after, before - tolerance, " %", least=True)
            yield Outcome(outcome.passed, f"{outcome.line} (baseline {before:,.4g} %)")
