"""The analysis says what the slow, obvious one of tests/oracle.py says, field by field."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from analysis import cli
from analysis.metrics import calls
from tests import oracle
from tests.strategies import Api, Range, Recipe, Thread, Work, recipes, windows
from tests.traces.traps import TRAPS

SAMPLES = Path(__file__).parents[2] / "reports" / "samples"
#: The contract gives these no order.
UNORDERED = ("parts", "by_cause", "edge_by_cause", "transfers", "stalls", "nvtx")


def report_of(trace: Path, output: Path, *options: str) -> dict[str, Any]:
    """What ``nsyslab analyze --format json`` writes, all gaps listed."""
    arguments = ["analyze", str(trace), "--format", "json", "--output", str(output), "--force"]
    code = cli.run([*arguments, "--min-gap", "0", *options])
    assert code in (0, 3), f"exit code {code}"
    report: dict[str, Any] = json.loads(output.read_bytes())
    report["dropped_rows"] = report["quality"]["dropped_rows"]
    return report


def differences(expected: Any, found: Any, where: str = "") -> list[str]:
    """Where a report differs from what the oracle says, in the fields that the oracle has."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            line
            for key, value in expected.items()
            for line in (
                differences(value, found[key], f"{where}.{key}")
                if key in found
                else [f"{where} has no {key}"]
            )
        ]
    if isinstance(expected, list) and isinstance(found, list):
        if where.rsplit(".", 1)[-1].split("[")[0] in UNORDERED:
            left = list(found)
            missing = []
            for one in expected:
                match = next((other for other in left if not differences(one, other)), None)
                left.remove(match) if match is not None else missing.append(one)
            return [f"{where} lacks {one}" for one in missing] + [
                f"{where} has {other}" for other in left
            ]
        if len(expected) == len(found):
            return [
                line
                for i, pair in enumerate(zip(expected, found, strict=True))
                for line in differences(*pair, f"{where}[{i}]")
            ]
    return [] if expected == found else [f"{where}: {found!r}, the oracle says {expected!r}"]


def check(trace: Path, output: Path, *options: str, **oracle_options: Any) -> None:
    report = report_of(trace, output, *options)
    expected = oracle.analyse(trace, min_gap_ns=0, **oracle_options)
    assert differences(expected, report) == []


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("*.sqlite")))
def test_samples(name: str, tmp_path: Path) -> None:
    check(SAMPLES / f"{name}.sqlite", tmp_path / "report.json")


@pytest.mark.parametrize("name", TRAPS)
def test_traps(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "trap.sqlite"
    options = list(TRAPS[name].write(trace).options)
    given = dict(zip(options[::2], options[1::2], strict=True))
    times = {
        name: int(given.pop(option).removesuffix("ns"))
        for name, option in (("start", "--from"), ("end", "--to"), ("min_gap_ns", "--min-gap"))
        if option in given
    }
    min_gap = times.pop("min_gap_ns", 0)
    pattern = given.pop("--nvtx", None)
    steps = given.pop("--steps", None)
    assert not given, "an option that this test does not know"
    window = oracle.chosen_window(trace, pattern=pattern, **times)
    report = report_of(trace, tmp_path / "report.json", *options)
    expected = oracle.analyse(trace, window=window, min_gap_ns=min_gap, steps_pattern=steps)
    assert differences(expected, report) == []


#: Writing and analysing a file takes long for Hypothesis, and longer on a busy machine.
relaxed = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


#: Ids that collide make work seem to end before the step that launched it began.
WORK_BEFORE_ITS_STEP = Recipe(
    unit=1,
    rows=tuple(
        row
        for number, begins in enumerate((1, 23, 33))
        for row in (
            Range(Thread(100, 0), 10 + 10 * number, 19 + 10 * number, f"step {number}"),
            Api(Thread(100, 0), 11 + 10 * number, 12 + 10 * number, "cudaLaunchKernel", number + 1),
            Work(100, 0, begins, begins + 4, "kernel", number + 1),
        )
    ),
)
#: The first has more device time, the second has longer steps.
TWO_RANKS = Recipe(
    unit=1,
    rows=tuple(
        row
        for rank, (length, kernel) in enumerate(((1, 20), (10, 19)))
        for number in range(3)
        for begin in (100 * number + 50 * rank,)
        for row in (
            Range(Thread(100, rank), begin, begin + length, f"step {number}"),
            Api(Thread(100, rank), begin, begin + 1, "cudaLaunchKernel", 10 * rank + number + 1),
            Work(100, 0, begin + 20, begin + 20 + kernel, "kernel", 10 * rank + number + 1),
        )
    ),
)


@relaxed
@given(recipe=recipes())
@example(recipe=WORK_BEFORE_ITS_STEP)
@example(recipe=TWO_RANKS)
def test_random_traces(recipe: Recipe, tmp_path: Path) -> None:
    recipe.write(tmp_path / "random.sqlite")
    check(tmp_path / "random.sqlite", tmp_path / "report.json")


@relaxed
@given(recipe=recipes(), window=windows())
def test_random_traces_in_a_window(recipe: Recipe, window: tuple[int, int], tmp_path: Path) -> None:
    trace = tmp_path / "random.sqlite"
    recipe.write(trace)
    start, end = (moment * recipe.unit for moment in window)
    check(
        trace,
        tmp_path / "report.json",
        *("--from", f"{start}ns", "--to", f"{end}ns"),
        window=[(start, end)],
    )


@relaxed
@given(recipe=recipes())
def test_random_traces_inside_ranges(recipe: Recipe, tmp_path: Path) -> None:
    trace = tmp_path / "random.sqlite"
    recipe.write(trace)
    window = oracle.chosen_window(trace, pattern="(step|work).*")
    assume(window)
    check(trace, tmp_path / "report.json", "--nvtx", "(step|work).*", window=window)


@relaxed
@given(recipe=recipes(), pinned=st.sampled_from([None, 0.5, 20.0]))
def test_random_traces_with_steps_by_pattern(
    recipe: Recipe, pinned: float | None, tmp_path: Path
) -> None:
    trace = tmp_path / "random.sqlite"
    recipe.write(trace)
    options = ["--steps", "(step 1|load|work|epoch.*)"]
    if pinned:
        options += ["--pinned-gbps", str(pinned)]
    check(
        trace,
        tmp_path / "report.json",
        *options,
        steps_pattern=options[1],
        pinned_gbps=pinned,
    )


def test_the_oracle_shares_nothing_with_the_analysis() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text())
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names


def test_the_oracle_and_the_analysis_mean_the_same_calls() -> None:
    assert calls.WAITS == oracle.WAITS
    assert calls.READS == oracle.READS
    assert calls.SLEEPS == oracle.SLEEPS
    copies = {"cudaMemcpy", "cudaMemcpyAsync", "cudaMemcpy2D", "cuMemcpyHtoD", "cuMemcpyDtoHAsync"}
    others = {"cudaLaunchKernel", "cudaFree", "cudaMemset", "cudaDeviceSynchronizeX", "munmap"}
    for name in oracle.SYNCHRONISES | copies | others:
        assert calls.synchronises(name) == oracle.synchronises(name), name
