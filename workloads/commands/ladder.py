"""``nsyslab ladder``: run and record every rung of a ladder, one table."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workloads.parameters import options

if TYPE_CHECKING:
    from workloads.ladder import Rung
    from workloads.parameters import Parameters
    from workloads.registry import Entry
    from workloads.verify import Verifier


@click.command()
@click.argument("name")
@options()
@click.option(
    "--profile-steps",
    type=click.IntRange(min=1),
    help="Steps to record of each rung. [default: the workload's, mostly 3]",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="Take fewer --steps of a rung that would take longer than this.",
)
@click.option("--verify", is_flag=True, help="Compare each rung's outputs with the baseline's.")
@click.option("--no-run", is_flag=True, help="Do not run the rungs without a profiler.")
@click.option("--no-profile", is_flag=True, help="Do not record the rungs.")
@click.option(
    "--only",
    multiple=True,
    metavar="RUNG",
    help="Measure this rung only; repeat for more. The others are taken from the folder.",
)
@click.option(
    "--from-recordings", is_flag=True, help="Run nothing; make the table of what is in the folder."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds for one run or recording.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reports"),
    show_default=True,
    help="Folder for the rungs' recordings and the table.",
)
@click.option("--force", is_flag=True, help="Replace earlier recordings in the folder.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["terminal", "markdown", "json"]),
    default="terminal",
    show_default=True,
)
def command(name: str, format_: str, **chosen: Any) -> int:
    """Run and record every rung of the ladder NAME, and put them beside each other.

    Each rung is run without a profiler, then recorded into a folder of its own. The table is
    printed, and written into the folder as ladder_NAME.md and ladder_NAME.json. A rung that fails
    is reported and does not stop the others; the exit code is then 4, and 1 where outputs differ.
    Where all fail no table is written.
    """
    import json

    from analysis.errors import GateError, ToolError
    from analysis.output import write_output
    from workloads import ladder, registry

    entries = registry.ladder(name)
    output: Path = chosen["output"]
    tables = [output / f"ladder_{name}.json", output / f"ladder_{name}.md"]
    climb = _Climb(**chosen)
    climb.check(entries, tables)
    rungs = climb.rungs(entries)
    table = ladder.as_json(name, rungs, climb.shared)
    caption = _caption(name, climb.shared)
    texts = {
        "json": json.dumps(table, indent=1, ensure_ascii=False) + "\n",
        "markdown": ladder.render(rungs, "markdown", caption),
    }
    failed = any(rung.failure for rung in rungs)
    if not failed or any(rung.known for rung in rungs):
        output.mkdir(parents=True, exist_ok=True)
        for path, kind in zip(tables, ("json", "markdown"), strict=True):
            write_output(path, texts[kind], force=True)  # they were checked
    text = texts.get(format_) or ladder.render(rungs, "terminal", caption)
    click.echo(text, nl=False)
    if failed:
        return ToolError.exit_code
    return GateError.exit_code if any(rung.verified is False for rung in rungs) else 0


# What all rungs have in common, of the record of a run.
_SHARED = ("parameters", "gpu", "driver", "cuda", "torch", "python", "cpus", "commit")


class _Climb:
    """The options of the command, and what the rungs had in common."""

    def __init__(
        self,
        *,
        profile_steps: int | None,
        max_seconds: float | None,
        verify: bool,
        no_run: bool,
        no_profile: bool,
        only: tuple[str, ...],
        from_recordings: bool,
        timeout: float | None,
        output: Path,
        force: bool,
        **given: Any,
    ) -> None:
        self.shared: dict[str, Any] = {}
        self._started = time.monotonic()
        self._profile_steps = profile_steps
        self._max_seconds = max_seconds
        self._verify = verify
        self._run = not no_run
        self._profile = not no_profile
        self._from_recordings = from_recordings
        self._only = only
        self._timeout = timeout
        self._output = output
        self._force = force
        self._given = given

    def check(self, entries: list[Entry], tables: list[Path]) -> None:
        """Refuse what cannot work, or would overwrite something, before anything is run.

        Raises:
            InputError: Options that are impossible, recordings or tables that are there already,
                or a folder that cannot be written to.
        """
        from analysis.errors import InputError
        from workloads import recording

        names = [entry.name for entry in entries]
        unknown = [name for name in self._only if name not in names]
        if unknown:
            raise InputError(
                f"--only {unknown[0]}: no rung of this ladder", hint=f"there are {', '.join(names)}"
            )
        if self._from_recordings and (
            self._only or self._verify or not (self._run and self._profile)
        ):
            raise InputError(
                "--from-recordings runs nothing, so --only, --verify, --no-run and --no-profile "
                "do not go with it"
            )
        if not (self._run or self._profile or self._verify):
            raise InputError("--no-run and --no-profile leave nothing to do but --verify")
        recording.check_place(self._output)
        for entry in entries:
            if self._measures(entry):
                self._parameters(entry)
                if self._profile:
                    recording.check_folder(self._output / entry.name, force=self._force)
        # A table made of recordings may be made of them again.
        there = [path for path in tables if path.exists()]
        if there and not (self._force or self._from_recordings or self._only):
            raise InputError(
                f"{there[0]} is there already",
                hint="--force replaces it, -o DIR puts the new one elsewhere",
            )

    def rungs(self, entries: list[Entry]) -> list[Rung]:
        """All rungs, one after the other.

        Raises:
            InputError: There is no recording, and nothing was to be recorded.
        """
        from analysis.errors import InputError, LabError
        from workloads.ladder import Rung, predicted, predicted_from_first
        from workloads.verify import Verifier

        names = [entry.name for entry in entries]
        rungs: list[Rung] = []
        report: dict[str, Any] | None = None
        first: dict[str, Any] | None = None
        with Verifier(timeout_s=self._timeout) as verifier:
            for entry in entries:
                about = entry.workload
                values: dict[str, Any] = {}
                before, before_report = (rungs[-1] if rungs else None), report
                report = None
                try:
                    if self._measures(entry):
                        self._measure(entry, values, verifier)
                    if self._is_read(entry):
                        report = self._read(entry, values)
                except LabError as error:
                    self._say(entry, f"failed: {error}")
                    if error.hint:
                        click.echo(f"  {error.hint}", err=True)
                    values["failure"] = str(error)
                if before is not None and before.per_second and before_report is not None:
                    values["predicted"] = predicted(before_report, before.per_second, [entry.name])
                if rungs and rungs[0].per_second and first is not None:
                    values["predicted_from_first"] = predicted_from_first(
                        first, rungs[0].per_second, names, entry.name
                    )
                if not rungs:
                    first = report
                rungs.append(
                    Rung(
                        about.rung,
                        entry.name,
                        about.title,
                        published=about.published,
                        published_speedup=about.published_speedup,
                        published_on=about.published_on,
                        **values,
                    )
                )
        if self._from_recordings and all(rung.failure for rung in rungs):
            raise InputError(
                f"{self._output} holds no recording of this ladder",
                hint="-o DIR says where they are; without --from-recordings they are made",
            )
        return rungs

    def _measures(self, entry: Entry) -> bool:
        """Whether a rung is one of those to be measured."""
        return not self._from_recordings and (not self._only or entry.name in self._only)

    def _is_read(self, entry: Entry) -> bool:
        """Whether the recording of a rung is to be read: what was measured, or should be there."""
        if self._measures(entry):
            return self._profile
        return self._from_recordings or (self._output / entry.name).is_dir()

    def _parameters(self, entry: Entry) -> Parameters:
        """What a rung is run with.

        Raises:
            InputError: Impossible options.
        """
        from workloads.parameters import Parameters

        return Parameters.of(entry.workload.defaults, self._given)

    def _measure(self, entry: Entry, values: dict[str, Any], verifier: Verifier) -> None:
        """Verify, run and record a rung; what is known goes into `values` as it becomes known."""
        from workloads import launch, recording
        from workloads.commands._status import Status

        parameters = self._parameters(entry)
        folder = self._output / entry.name
        comparison = None
        if self._verify:
            self._say(entry, "verifying")
            comparison = verifier.verify(entry, parameters)
            self._say(entry, str(comparison))
            values["verified"] = comparison.passed
        throughput = None
        if self._run:
            self._say(entry, "running without a profiler")
            throughput = launch.run(
                entry, parameters, max_seconds=self._max_seconds, timeout_s=self._timeout
            )
            self._throughput(throughput, values)
            self._say(entry, f"{throughput['steps_per_second']:.2f} steps/s")
        if self._profile:
            self._say(entry, "recording")
            steps = self._profile_steps or entry.workload.profile_steps
            short = dataclasses.replace(parameters, steps=steps)
            with Status("  ") as status:
                settings = recording.Settings(
                    force=self._force, timeout_s=self._timeout, on_status=status
                )
                recording.workload(entry, short, folder, settings)
            recording.update(
                folder,
                throughput=throughput,
                comparison=comparison and comparison.as_json(),
            )

    def _throughput(self, record: dict[str, Any], values: dict[str, Any]) -> None:
        """Take over what a run without a profiler says."""
        values["per_second"] = record["steps_per_second"]
        values["run_steps"] = record["steps"]
        if not self.shared:
            self.shared = {key: record[key] for key in _SHARED}

    def _read(self, entry: Entry, values: dict[str, Any]) -> dict[str, Any]:
        """The report of a rung's recording; what it says goes into `values`."""
        import json

        from analysis.build import build
        from analysis.errors import InputError
        from analysis.nsys.reader import read_trace
        from analysis.renderers import Style, renderer
        from workloads import recording
        from workloads.ladder import numbers

        folder = self._output / entry.name
        about = recording.read(folder)
        if about["profiler"] != "nsys" or about["workload"] != entry.name:
            raise InputError(f"{folder} holds a recording, but not one of {entry.name} with nsys")
        throughput = about.get("throughput")
        if throughput is not None:
            self._throughput(throughput, values)
        elif not self.shared:
            self.shared = {key: about["run"][key] for key in _SHARED}
        if about.get("comparison") is not None:
            values["verified"] = about["comparison"]["passed"]
        built = build(read_trace(folder / about["sqlite"]))
        # The contract that other tools rely on; what is inside may change.
        report: dict[str, Any] = json.loads(renderer("json")([built], Style()))
        values["numbers"] = numbers(report, about["run"]["steps"])
        return report

    def _say(self, entry: Entry, line: str) -> None:
        elapsed = time.monotonic() - self._started
        click.echo(f"[{elapsed:5.0f} s] {entry.name}: {line}", err=True)


def _caption(name: str, shared: dict[str, Any]) -> str:
    """What the table is of, in a line."""
    if not shared:
        return f"Ladder {name}"
    parameters = shared["parameters"]
    where = shared["gpu"] or "CPU"
    times = "times per step" if shared["gpu"] else "no GPU, so no times of kernels and copies"
    return (
        f"Ladder {name}: {where}, torch {shared['torch']}, batch {parameters['batch_size']} of "
        f"{parameters['image_size']} x {parameters['image_size']} images, {times}"
    )
