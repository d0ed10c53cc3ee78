"""Judgement: what costs time, what it costs, and what to change.

`diagnose` lets the rules of `analysis.diagnosis.rules` claim the idle time and the exposed copies
of each device, in their order.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

import numpy as np

from analysis.diagnosis import rules as rule_files
from analysis.diagnosis.evidence import Evidence, Shared
from analysis.diagnosis.finding import CannotTell, Diagnosis, Finding, Seen, Waited
from analysis.diagnosis.rule import Left, Rule, finding

__all__ = [
    "CannotTell",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Seen",
    "Shared",
    "Waited",
    "diagnose",
    "rules",
]

_RECORD_WITH = {"osrt": "--trace=osrt"}
_NAMES = {"osrt": "OS runtime calls were not traced"}


@cache
def rules() -> tuple[tuple[str, Rule], ...]:
    """The rules with their ids, in the order in which they claim."""
    names = sorted(m.name for m in pkgutil.iter_modules(rule_files.__path__))
    found = [
        (name, importlib.import_module(f"{rule_files.__name__}.{name}").RULE) for name in names
    ]
    return tuple(sorted(found, key=lambda pair: pair[1].order))


def diagnose(evidence: Sequence[Evidence]) -> Diagnosis:
    """Findings by cost, largest first, and what could not be judged.

    Args:
        evidence: What is known, per device.
    """
    if not evidence:
        return Diagnosis((), ())
    source = evidence[0].trace.provenance
    traced = {"osrt": source.osrt}
    cannot_tell = [
        CannotTell(id_, _NAMES[need], _RECORD_WITH[need])
        for id_, rule in rules()
        for need in rule.needs
        if not traced[need]
    ]
    silent = {entry.id for entry in cannot_tell}
    found: list[Finding] = []
    for of_device in evidence:
        idle = np.ones(len(of_device.idle), bool)
        copies = np.ones(len(of_device.copies), bool)
        small = np.zeros(len(of_device.idle), bool)
        before = len(found)
        for id_, rule in rules():
            if id_ in silent:
                continue
            left = Left(idle.copy(), copies.copy(), small.copy(), len(found) > before)
            for claim in rule.judge(of_device, left):
                idle[claim.idle] = False
                if not claim.keeps_copies:
                    copies[claim.copies] = False
                result = finding(id_, claim, of_device)
                if result is not None:
                    found.append(result)
                small[claim.idle] = result is None
    found.sort(key=lambda f: (-f.cost_ns, f.id, f.device, f.title))
    return Diagnosis(tuple(found), tuple(cannot_tell))
