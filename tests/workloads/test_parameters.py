from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from analysis.errors import InputError
from workloads.parameters import Parameters, options, sweep


def test_given_wins_over_the_workload_and_that_over_the_general() -> None:
    defaults = {"batch_size": 32, "workers": 12}
    given = {"batch_size": 8, "workers": None, "seed": None}

    assert Parameters.of(defaults, given) == Parameters(batch_size=8, workers=12)
    assert Parameters().total_steps == 110


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "--batch-size must be at least 1, not 0"),
        ({"image_size": 31}, "--image-size must be at least 32, not 31"),
        ({"steps": 0}, "--steps must be at least 1, not 0"),
        ({"warmup": -1}, "--warmup must be at least 0, not -1"),
        ({"workers": -2}, "--workers must be at least 0, not -2"),
        ({"device": "gpu"}, "--device must be cuda, cuda:N or cpu, not 'gpu'"),
        ({"device": "cuda:x"}, "--device must be"),
        ({"device": "cuda:"}, "--device must be"),
        ({"device": "cpu:"}, "--device must be"),
        ({"device": "cpu:0"}, "--device must be"),
        ({"device": "cuda:999"}, "--device must be"),
        ({"seed": 2**32}, "--seed must be at most 4294967295, not 4294967296"),
    ],
)
def test_impossible_parameters(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Parameters.of({}, given)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, [{}]),
        ("batch-size=8,16", [{"batch_size": 8}, {"batch_size": 16}]),
        (
            "batch-size=8,16 image_size=64",
            [{"batch_size": 8, "image_size": 64}, {"batch_size": 16, "image_size": 64}],
        ),
    ],
)
def test_sweep(text: str | None, expected: list[dict[str, int]]) -> None:
    assert list(sweep(text)) == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "batch=8", "device=cpu", "batch-size", "batch-size=", "seed=a", "seed=1 seed=2"],
)
def test_sweep_that_is_not_understood(text: str) -> None:
    with pytest.raises(InputError, match="--sweep"):
        list(sweep(text))


def test_options_and_arguments_are_each_others_inverse() -> None:
    seen: list[Parameters] = []

    @click.command()
    @options()
    def command(**given: Any) -> None:
        seen.append(Parameters.of({}, given))

    parameters = Parameters(3, 96, 7, 2, 5, "cuda:1", 42)
    assert CliRunner().invoke(command, parameters.as_arguments()).exit_code == 0
    assert seen == [parameters]
