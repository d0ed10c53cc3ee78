"""What the programs of the gallery are expected to show, and whether recordings of them do.

``python -m workloads.gallery FOLDER`` checks the recordings that ``benchmarks/gallery.sh`` made.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from analysis.errors import GateError, InputError, LabError
from workloads import registry

if TYPE_CHECKING:
    from analysis.report import Report
    from workloads.registry import Entry

LADDER = "gallery"


@dataclass(frozen=True)
class Expectation:
    """What the diagnosis has to say of a program.

    Args:
        verdict: Verdicts that are right; more than one where the machine decides.
        findings: Ids of findings that there must be.
        forbidden: Ids of findings that there must not be.
    """

    verdict: tuple[str, ...]
    findings: tuple[str, ...]
    forbidden: tuple[str, ...]


def expectation(entry: Entry) -> Expectation:
    """The literal `EXPECT` of a program, read without importing it.

    Raises:
        InputError: It has none.
    """
    for statement in ast.parse(entry.path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and [
            ast.unparse(target) for target in statement.targets
        ] == ["EXPECT"]:
            found = ast.literal_eval(statement.value)
            return Expectation(**{name: tuple(ids) for name, ids in found.items()})
    raise InputError(f"{entry.path} does not say what it expects")


def differences(report: Report, wanted: Expectation) -> list[str]:
    """Where a report does not say what is expected."""
    found = [finding.id for finding in report.findings]
    lines = []
    if report.verdict not in wanted.verdict:
        lines.append(f"verdict {report.verdict}, not {' or '.join(wanted.verdict)}")
    lines += [f"no {id_}; there are {found}" for id_ in wanted.findings if id_ not in found]
    lines += [
        f"{finding.id} though it is innocent: {finding.title}"
        for finding in report.findings
        if finding.id in wanted.forbidden
    ]
    lines += [f"cannot tell about {entry.id}: {entry.reason}" for entry in report.cannot_tell]
    return lines


def check(folder: Path) -> list[str]:
    """Differences of all recordings under a folder, each with the program's name.

    Raises:
        InputError: A program has no recording there.
    """
    import analysis

    lines = []
    for entry in registry.ladder(LADDER):
        recordings = sorted(folder.rglob(f"{entry.name}.sqlite"))
        if not recordings:
            raise InputError(
                f"{folder} has no recording of {entry.name}",
                hint=f"benchmarks/gallery.sh {folder} makes them all",
            )
        for recording in recordings:
            report = analysis.analyze(recording)
            found = differences(report, expectation(entry))
            ids = ", ".join(finding.id for finding in report.findings)
            click.echo(f"{'FAIL' if found else 'ok  '}  {entry.name}: {report.verdict}: {ids}")
            lines += [f"{entry.name}: {line}" for line in found]
    return lines


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(folder: Path) -> None:
    """Check the recordings of the gallery in FOLDER."""
    try:
        failed = check(folder)
        if failed:
            raise GateError("\n  ".join([f"{len(failed)} differences:", *failed]))
    except LabError as error:
        click.echo(f"gallery: {error}", err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
