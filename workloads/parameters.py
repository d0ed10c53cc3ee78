"""The parameters that all workloads share, and their one set of defaults."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from analysis.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Parameters:
    """What a run does. Every workload takes all of them.

    Args:
        batch_size: Samples in a batch.
        image_size: Height and width of an image, in pixels.
        steps: Steps that are measured or recorded.
        warmup: Steps before those.
        workers: Processes that load data, or that process output, where the workload has such.
        device: ``cuda``, ``cuda:N`` or ``cpu``.
        seed: Of the data and the weights.
    """

    batch_size: int = 64
    image_size: int = 512
    steps: int = 100
    warmup: int = 10
    workers: int = 8
    device: str = "cuda"
    seed: int = 0

    @property
    def total_steps(self) -> int:
        """Warm-up and measured steps together."""
        return self.warmup + self.steps

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value < least:
                raise InputError(f"--{option(name)} must be at least {least}, not {value}")
            most = MOST.get(name)
            if most is not None and value > most:
                raise InputError(f"--{option(name)} must be at most {most}, not {value}")
        if not _DEVICE.fullmatch(self.device):
            raise InputError(
                f"--device must be cuda, cuda:N or cpu, not {self.device!r}",
            )

    @classmethod
    def of(cls, defaults: Mapping[str, int], given: Mapping[str, Any]) -> Parameters:
        """Those given and not None, else the workload's defaults, else those of all."""
        chosen = {name: value for name, value in given.items() if value is not None}
        return cls(**{**defaults, **chosen})

    def as_arguments(self) -> list[str]:
        """The command-line options that give the same parameters."""
        return [
            text
            for name, value in dataclasses.asdict(self).items()
            for text in (f"--{option(name)}", str(value))
        ]


_DEVICE = re.compile(r"cpu|cuda(:[0-9]{1,2})?")

# The decoders halve the image five times; anything smaller has no pixels left.
LEAST = {"batch_size": 1, "image_size": 32, "steps": 1, "warmup": 0, "workers": 0, "seed": 0}
# What all generators of random numbers take.
MOST = {"seed": 2**32 - 1}

_HELP = {
    "batch_size": "Samples in a batch.",
    "image_size": "Height and width of an image, in pixels.",
    "steps": "Steps that are measured.",
    "warmup": "Steps before those.",
    "workers": "Processes that load data or process output.",
    "device": "cuda, cuda:N or cpu.",
    "seed": "Of the data and the weights.",
}

_SWEEP_HINT = 'write --sweep batch-size=8,16,32, or of two --sweep "batch-size=8,16 workers=2,4"'


def option(name: str) -> str:
    """The option's name of a parameter: ``batch_size`` is ``batch-size``."""
    return name.replace("_", "-")


def options(*, steps: bool = True) -> Callable[[_Command], _Command]:
    """Give a click command one option for each parameter; those not given are None.

    Args:
        steps: Whether there is a ``--steps``; what records has ``--profile-steps`` instead.
    """

    def decorate(command: _Command) -> _Command:
        for parameter in reversed(dataclasses.fields(Parameters)):
            if parameter.name == "steps" and not steps:
                continue
            own = parameter.name in ("batch_size", "image_size", "warmup", "workers")
            default = "the workload's" if own else str(parameter.default)
            command = click.option(
                f"--{option(parameter.name)}",
                type=str if parameter.name == "device" else int,
                help=f"{_HELP[parameter.name]} [default: {default}]",
            )(command)
        return command

    return decorate


def sweep(specification: str | None) -> Iterator[dict[str, int]]:
    """The settings of ``--sweep batch-size=8,16 image-size=256,512`` (all combinations).

    Args:
        specification: Settings separated by spaces; None gives one empty setting.

    Raises:
        InputError: It names no parameter, or one twice, or a value is not a number.
    """
    axes: dict[str, Sequence[tuple[str, int]]] = {}
    if specification is not None and not specification.strip():
        raise InputError("--sweep is empty", hint=_SWEEP_HINT)
    for part in (specification or "").split():
        name, _, values = part.partition("=")
        parameter = name.strip().replace("-", "_")
        if parameter not in LEAST:
            raise InputError(
                f"--sweep cannot vary {name!r}",
                hint=f"it can vary {', '.join(option(known) for known in LEAST)}",
            )
        if parameter in axes:
            raise InputError(f"--sweep names {name} twice", hint=_SWEEP_HINT)
        try:
            axes[parameter] = [(parameter, int(value)) for value in values.split(",")]
        except ValueError as error:
            raise InputError(f"--sweep {part!r} is not understood", hint=_SWEEP_HINT) from error
    for combination in itertools.product(*axes.values()):
        yield dict(combination)
