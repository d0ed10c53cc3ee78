from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from workloads.verify import Comparison, Difference, compare

NAN, INF = np.nan, np.inf


def f32(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def u8(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.uint8)


@pytest.mark.parametrize(
    ("expected", "found", "tolerance", "value", "first", "passed"),
    [
        # bit for bit
        (f32(1, 2), f32(1, 2), 0.0, 0.0, None, True),
        (f32(1, 2), f32(1, np.nextafter(np.float32(2), np.float32(3))), 0.0, 0.5, (1,), False),
        (f32(NAN), f32(NAN), 0.0, 0.0, None, True),
        (f32(0.0), f32(-0.0), 0.0, 1.0, (0,), False),
        (u8([1, 2], [3, 4]), u8([1, 2], [0, 4]), 0.0, 0.25, (1, 0), False),
        # share of integers that differ
        (u8(1, 2, 3, 4), u8(1, 2, 3, 5), 0.25, 0.25, (3,), True),
        (u8(1, 2, 3, 4), u8(1, 2, 9, 5), 0.25, 0.5, (2,), False),
        # largest difference of floats, relative to the largest value
        (f32(1, -4), f32(1.5, -4), 0.2, 0.125, None, True),
        (f32(1, -4), f32(3, -4), 0.2, 0.5, (0,), False),
        (f32(0, 0), f32(0, 0), 0.1, 0.0, None, True),
        (f32(1, NAN), f32(1, NAN), 0.1, 0.0, None, True),
        (f32(1, 2), f32(1, NAN), 0.1, INF, (1,), False),
        (f32(1, 2), f32(1, INF), 0.1, INF, (1,), False),
        # nothing to compare with
        (f32(1, 2), f32(1), 0.1, INF, None, False),
        (f32(1, 2), np.array([1.0, 2.0]), 0.0, INF, None, False),
        (f32(1, 2), None, 0.0, INF, None, False),
        (f32(1, 2), None, None, 0.0, None, True),
    ],
)
def test_differences(
    expected: np.ndarray[Any, Any],
    found: np.ndarray[Any, Any] | None,
    tolerance: float | None,
    value: float,
    first: tuple[int, ...] | None,
    passed: bool,
) -> None:
    others = {} if found is None else {"loss": found}
    (difference,) = compare({"loss": expected}, others, {"loss": tolerance})
    assert difference == Difference("loss", pytest.approx(value), tolerance, first)
    assert difference.passed is passed


def test_what_has_no_tolerance_is_exact_and_what_is_new_does_not_count() -> None:
    expected, found = {"a": u8(1)}, {"a": u8(2), "b": u8(3)}
    assert [d.passed for d in compare(expected, found, {})] == [False]


def test_sentences() -> None:
    good = Comparison(
        "d2h_argmax",
        "d2h_baseline",
        20,
        (
            Difference("pixels", 0.0, 0.0, None),
            Difference("classes", 0.004, 0.05, (0, 1)),
            Difference("logits", 0.0, None, None),
        ),
    )
    assert good.passed
    assert str(good) == (
        "d2h_argmax agrees with d2h_baseline in 20 steps; bit for bit: pixels; "
        "within tolerance: classes 0.004 (of 0.05)"
    )
    bad = Comparison("mine", "d2h_baseline", 20, (Difference("checksum", 0.5, 0.0, (8, 1)),))
    assert not bad.passed
    assert str(bad) == (
        "mine computes something else than d2h_baseline: checksum differs in 50 % of its elements, "
        "and may in none, first at step 8"
    )
    assert Difference("loss", 0.5, 0.1, (3,)).words == "differs by 0.5, 0.1 is allowed"
    assert Difference("loss", INF, 0.0, None).words == "is missing, or of another shape or type"


def test_json_has_no_infinity() -> None:
    missing = Comparison("a", "b", 2, compare({"loss": f32(1)}, {}, {}))
    (difference,) = json.loads(json.dumps(missing.as_json(), allow_nan=False))["differences"]
    assert difference == {"output": "loss", "value": None, "tolerance": 0.0, "first": None}
