"""What pages share: their policy, their templates, and the names and patterns of kinds of time."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from analysis.metrics.stalls import ALWAYS_REPORTED
from analysis.metrics.steps import StepRow
from analysis.renderers import _words as words
from analysis.renderers._kinds import CAUSE_KINDS
from analysis.renderers.html._timeline import NAME_LENGTH, PATTERNS
from analysis.report import Cause, DeviceReport, Gap, StepsReport

GENERATOR = "nsyslab"

#: Causes of idle time that are listed however small they are.
LEAST_CAUSES = 5

#: A kind of time as class of the style sheet, label and ns.
Kind = tuple[str, str, int]


@cache
def asset(name: str) -> str:
    """A file of this package."""
    return files(__package__).joinpath(name).read_text("utf-8")


def render(template: str, scripts: Sequence[str] = (), **values: object) -> str:
    """A page from a template, with the style sheet and some files of scripts inside.

    Args:
        template: Its file name.
        scripts: File names.
        values: What it shows.
    """
    css, texts = asset("page.css"), [asset(script) for script in scripts]
    return _environment().get_template(template).render(
        css=Markup(css),  # noqa: S704 # our own files
        scripts=[Markup(text) for text in texts],  # noqa: S704
        csp=_policy(css, texts),
        **values,
    )  # fmt: skip


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
        loader=PackageLoader(__package__, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "amount": words.amount,
        "cause": words.cause,
        "causes": _causes,
        "counted": counted,
        "duration": lambda ns: _units(words.duration(ns)),
        "filename": lambda path: path.rsplit("/", 1)[-1],
        "holder": lambda held_by, of: _units(_line(words.holder(held_by, of))),
        "large_causes": _large_causes,
        "line": _line,
        "longest": _longest,
        "longest_steps": _longest_steps,
        "moment": lambda ns: _units(f"{ns / 1e6:,.3f} ms"),
        "partition": _partition,
        "percent": lambda part, whole: f"{100 * part / whole:.4f}" if whole else "0",
        "place": words.place,
        "share": lambda part, whole: _units(words.share(part, whole)),
        "size": lambda count: _units(words.size(count)),
        "thread": lambda seen: _line(words.fed_by(seen.thread, seen.process, seen.thread_name)),
        "transfer_call": words.transfer_call,
        "units": _units,
    }
    environment.globals |= {
        "always_reported": ALWAYS_REPORTED,
        "generator": GENERATOR,
        "patterns": PATTERNS,
        "verdicts": words.VERDICTS,
    }
    return environment


def mean_step(steps: StepsReport | None) -> dict[str, int]:
    """The mean step's partition, ns by the labels of the device's; empty without steps."""
    if steps is None or not steps.rows:
        return {}
    totals: dict[str, int] = {"compute": 0, "exposed memset": 0, "idle": 0}
    for row in steps.rows:
        totals["compute"] += row.compute_ns
        totals["exposed memset"] += row.exposed_memset_ns
        totals["idle"] += row.idle_ns
        for name, ns in row.exposed_copy_ns.items():
            label = f"exposed {name} copy"
            totals[label] = totals.get(label, 0) + ns
    return {label: ns // len(steps.rows) for label, ns in totals.items()}


def counted(count: int, what: str) -> str:
    """A number of things: "1 gap", "1,234 gaps"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def kind_class(label: str) -> str:
    """What the style sheet calls a part: "d2h" for "exposed d2h copy", "memset", "idle"."""
    parts = label.split()
    return parts[-2] if parts[-1] == "copy" else parts[-1]


def _line(text: str) -> str:
    """Text of a recording on one line of bearable length."""
    text = words.one_line(text)
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 1] + "\u2026"


def _units(text: str) -> str:
    """Text in which no line break parts a number from its unit."""
    return words.BEFORE_UNIT.sub("\u00a0", text)


def _large_causes(device: DeviceReport, count: int) -> Sequence[Cause]:
    """The first causes, without those that share a thousandth of the idle time or less."""
    few = min(count, LEAST_CAUSES)
    return [
        cause
        for place, cause in enumerate(device.idle.by_cause[:count])
        if place < few or 1000 * cause.ns > device.idle.total_ns
    ]


def _longest(gaps: Sequence[Gap], count: int) -> list[Gap]:
    return sorted(gaps, key=lambda gap: (-gap.duration_ns, gap.start_ns))[:count]


def _longest_steps(steps: Sequence[StepRow], count: int) -> list[StepRow]:
    """All in order of time, where they fit, else the longest first."""
    if len(steps) <= count:
        return list(steps)
    return sorted(steps, key=lambda step: (-step.period_ns, step.start_ns))[:count]


def _partition(device: DeviceReport) -> list[Kind]:
    return [(kind_class(label), label, ns) for label, ns in words.partition_rows(device)]


def _causes(device: DeviceReport) -> list[Kind]:
    """Idle time by kind of cause, largest first."""
    totals = dict.fromkeys(CAUSE_KINDS, 0)
    for cause in device.idle.by_cause:
        totals[cause.cause] += cause.ns
    found = [(name, CAUSE_KINDS[name], ns) for name, ns in totals.items() if ns]
    return sorted(found, key=lambda item: -item[2])
