"""Compares what a workload computes with what the baseline of its ladder computes."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from workloads import launch, registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workloads.parameters import Parameters
    from workloads.registry import Entry

# Enough for every buffer of a pool to be used a second and a third time.
STEPS = 20


@dataclass(frozen=True)
class Difference:
    """How far one output is from the baseline's.

    Args:
        output: Its name.
        value: The share of elements that differ (integers), or the largest difference relative to
            the largest value (floats); infinite where there is nothing to compare with.
        tolerance: What is allowed; 0 means equal bit for bit, None that it is not compared.
        first: Index of the first element that differs, the step first; None if none does.
    """

    output: str
    value: float
    tolerance: float | None
    first: tuple[int, ...] | None

    @property
    def passed(self) -> bool:
        """Whether it is allowed."""
        return self.tolerance is None or self.value <= self.tolerance

    @property
    def words(self) -> str:
        """How it differs, to be read after its name."""
        if self.first is None:
            return "is missing, or of another shape or type"
        if self.tolerance:
            return f"differs by {self.value:.3g}, {self.tolerance:g} is allowed"
        return f"differs in {100 * self.value:.3g} % of its elements, and may in none"


@dataclass(frozen=True)
class Comparison:
    """A workload's outputs beside the baseline's."""

    workload: str
    baseline: str
    steps: int
    differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        """Whether every output is as near as it has to be."""
        return all(difference.passed for difference in self.differences)

    def __str__(self) -> str:
        """What was compared and found, in a sentence."""
        failed = [difference for difference in self.differences if not difference.passed]
        if failed:
            worst = failed[0]
            where = "" if worst.first is None else f", first at step {worst.first[0]}"
            return (
                f"{self.workload} computes something else than {self.baseline}: {worst.output} "
                f"{worst.words}{where}"
            )
        exact = [d.output for d in self.differences if d.tolerance == 0]
        near = [
            f"{d.output} {d.value:.2g} (of {d.tolerance:g})"
            for d in self.differences
            if d.tolerance
        ]
        parts = [f"bit for bit: {', '.join(exact)}"] if exact else []
        parts += [f"within tolerance: {', '.join(near)}"] if near else []
        return f"{self.workload} agrees with {self.baseline} in {self.steps} steps; " + "; ".join(
            parts
        )

    def as_json(self) -> dict[str, Any]:
        """JSON-ready values."""
        about = dataclasses.asdict(self)
        for difference in about["differences"]:
            if not math.isfinite(difference["value"]):  # JSON has no infinity
                difference["value"] = None
        return {"passed": self.passed, **about}


def compare(
    expected: Mapping[str, np.ndarray[Any, Any]],
    found: Mapping[str, np.ndarray[Any, Any]],
    tolerance: Mapping[str, float | None],
) -> tuple[Difference, ...]:
    """Compare outputs by name.

    Args:
        expected: Those of the baseline.
        found: Those of the workload.
        tolerance: By name, as in `workloads.registry.Workload`; 0 where there is none.
    """
    return tuple(
        _compare(name, expected[name], found.get(name), tolerance.get(name, 0.0))
        for name in expected
    )


def _compare(
    name: str,
    expected: np.ndarray[Any, Any],
    found: np.ndarray[Any, Any] | None,
    tolerance: float | None,
) -> Difference:
    if tolerance is None:
        return Difference(name, 0.0, None, None)
    if found is None or found.shape != expected.shape or found.dtype != expected.dtype:
        return Difference(name, np.inf, tolerance, None)
    if expected.dtype.kind == "f" and tolerance:
        apart = np.abs(expected.astype(np.float64) - found)
        # NaN compares with nothing: it is as far as can be unless it is expected.
        apart = np.where(
            np.isnan(apart), np.where(np.isnan(expected) & np.isnan(found), 0, np.inf), apart
        )
        largest = float(np.nanmax(np.abs(expected), initial=0)) or 1.0
        value = float(apart.max(initial=0)) / largest
        wrong = apart > tolerance * largest
    else:
        # Bits, not values: -0.0 and 0.0 differ, a NaN equals itself.
        bits = f"V{expected.dtype.itemsize}"
        wrong = np.ascontiguousarray(expected).view(bits) != np.ascontiguousarray(found).view(bits)
        wrong = wrong.reshape(expected.shape)
        value = float(wrong.mean()) if wrong.size else 0.0
    where = np.unravel_index(int(wrong.argmax()), wrong.shape) if wrong.any() else None
    return Difference(name, value, tolerance, None if where is None else tuple(map(int, where)))


class Verifier:
    """Runs workloads and the baselines of their ladders, and compares.

    A baseline is run once for each set of parameters. Use as a context manager: outputs may be
    large, and are gone at its end.

    Args:
        timeout_s: Seconds after which a run is ended, and has failed.
        on_output: Gets the output of the runs as it comes.
    """

    def __init__(
        self,
        *,
        timeout_s: float | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._on_output = on_output
        self._folder = TemporaryDirectory(prefix="nsyslab-verify-")
        self._baselines: dict[tuple[str, Parameters], Path] = {}

    def __enter__(self) -> Verifier:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def verify(self, entry: Entry, parameters: Parameters) -> Comparison:
        """Compare `entry` with its ladder's baseline, over at most `STEPS` steps.

        Raises:
            LabError: One of the two did not run.
        """
        steps = min(parameters.total_steps, STEPS)
        short = dataclasses.replace(parameters, steps=steps, warmup=0)
        baseline = registry.baseline(entry)
        key = (baseline.name, short)
        if key not in self._baselines:
            self._baselines[key] = self._run(baseline, short, f"{len(self._baselines)}.npz")
        found = self._run(entry, short, "found.npz")
        with np.load(self._baselines[key]) as expected_file, np.load(found) as found_file:
            differences = compare(expected_file, found_file, entry.workload.tolerance)
        found.unlink()
        return Comparison(entry.name, baseline.name, steps, differences)

    def _run(self, entry: Entry, parameters: Parameters, name: str) -> Path:
        path = Path(self._folder.name) / name
        launch.run(
            entry,
            parameters,
            outputs=path,
            timeout_s=self._timeout_s,
            on_output=self._on_output,
        )
        return path
