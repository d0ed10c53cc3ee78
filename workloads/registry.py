"""Finds the workloads without importing one.

A workload is one Python file under ``workloads/ladders/<ladder>/`` that assigns a literal
``WORKLOAD = Workload(...)`` at its top level and defines ``run(session)``. The assignment is read
from the source, so that listing is instant and needs neither torch nor a GPU; the file itself is
imported in the process that runs it. Files whose name starts with ``_`` hold what a ladder shares.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

LADDERS = Path(__file__).parent / "ladders"


@dataclass(frozen=True)
class Workload:
    """What a workload says of itself.

    Args:
        ladder: The series it belongs to; the lowest rung of a ladder is its baseline.
        rung: Its place in the ladder, from 1.
        title: What it does, or changes against the rung before; a few words.
        shows: What its trace should show; one sentence.
        defaults: Parameters whose defaults differ from those of all workloads
            (see `workloads.parameters.Parameters`).
        profile_steps: Steps of a recording, unless others are asked for. Few, so that the trace
            stays small; more where the first ones are not like the rest.
        published: Steps per second in the article that the rung follows, if it states them.
        published_speedup: The same as a ratio to the baseline, if it states that instead.
        published_on: The GPU of that figure.
        tolerance: How far an output may be from the baseline's, by the output's name: the share of
            elements that differ for integers, the largest difference relative to the largest
            value for floats. None: the output is not comparable. Outputs not named are compared
            bit for bit.
    """

    ladder: str
    rung: int
    title: str
    shows: str
    defaults: Mapping[str, int] = field(default_factory=dict)
    profile_steps: int = 3
    published: float | None = None
    published_speedup: float | None = None
    published_on: str | None = None
    tolerance: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def compared(self) -> bool:
        """Whether anything that it computes is; the programs of the gallery need not be right."""
        return not self.tolerance or any(value is not None for value in self.tolerance.values())


@dataclass(frozen=True)
class Entry:
    """A workload and where it is.

    Args:
        name: The file's name without its suffix; what users type.
        path: The file.
        workload: What it says of itself.
        description: The file's docstring.
    """

    name: str
    path: Path
    workload: Workload
    description: str

    @property
    def builtin(self) -> bool:
        """Whether it is one of the lab's own, not a file of the user's."""
        return self.path.is_relative_to(LADDERS)


def read(path: Path) -> Entry:
    """Read what a workload file says of itself.

    Raises:
        InputError: It cannot be read, is not Python, or has no literal ``WORKLOAD``.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path} is not Python: {error}") from error
    for statement in tree.body:
        if (
            isinstance(statement, ast.Assign)
            and [ast.unparse(target) for target in statement.targets] == ["WORKLOAD"]
            and isinstance(statement.value, ast.Call)
            and not statement.value.args
        ):
            try:
                about = Workload(
                    **{str(k.arg): ast.literal_eval(k.value) for k in statement.value.keywords}
                )
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"WORKLOAD of {path} cannot be read: {error}",
                    hint="its arguments must be literals, and those of workloads.registry.Workload",
                ) from error
            return Entry(path.stem, path, about, ast.get_docstring(tree) or "")
    raise InputError(
        f"{path} is not a workload: it has no WORKLOAD = Workload(...)",
        hint="docs/workloads.md says how to write one",
    )


def entries() -> list[Entry]:
    """All workloads of the lab, by ladder and rung."""
    found = [read(path) for path in LADDERS.glob("*/*.py") if not path.name.startswith("_")]
    return sorted(found, key=lambda entry: (entry.workload.ladder, entry.workload.rung))


def find(name: str) -> Entry:
    """The workload of that name, or the one in that file if `name` ends in ``.py``.

    Raises:
        InputError: There is none; the hint has the nearest names.
    """
    if name.endswith(".py"):
        return read(Path(name).resolve())
    known = {entry.name: entry for entry in entries()}
    if name in known:
        return known[name]
    rungs = [entry.name for entry in known.values() if entry.workload.ladder == name]
    hint = f"it is a ladder (nsyslab ladder {name}) of {', '.join(rungs)}"
    raise InputError(
        f"there is no workload {name!r}", hint=hint if rungs else _nearest(name, list(known))
    )


def ladder(name: str) -> list[Entry]:
    """The rungs of a ladder, the baseline first.

    Raises:
        InputError: There is no such ladder; the hint has the nearest names.
    """
    rungs = [entry for entry in entries() if entry.workload.ladder == name]
    if not rungs:
        known = {entry.name: entry.workload.ladder for entry in entries()}
        hint = _nearest(name, sorted(set(known.values())))
        if name in known:
            hint = f"it is a rung of {known[name]}: nsyslab ladder {known[name]} --only {name}"
        raise InputError(f"there is no ladder {name!r}", hint=hint)
    return rungs


def baseline(entry: Entry) -> Entry:
    """The lowest rung of the ladder of `entry`."""
    return ladder(entry.workload.ladder)[0]


def describe(entry: Entry) -> dict[str, object]:
    """`entry` as JSON-ready values, the file's path and docstring left out."""
    about = dataclasses.asdict(entry.workload)
    return {"name": entry.name, **about}


def _nearest(name: str, names: list[str]) -> str:
    near = [known for known in names if known.startswith(name)]
    near = near or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}? `nsyslab list` shows all"
    return f"there are {', '.join(names)}" if len(names) < 8 else "`nsyslab list` shows all"
