from __future__ import annotations

import shutil
from typing import Any, NamedTuple

import pytest

from analysis.errors import InputError
from workloads.needs import SHARED_MEMORY, Needs, check, gigabytes
from workloads.parameters import Parameters


class Memory(NamedTuple):
    free: int
    total: int


class Card:
    """A device of which only the memory is asked for."""

    def __init__(self, memory: Memory | None) -> None:
        self._memory = memory

    def memory(self) -> Any:
        return self._memory


T4 = Card(Memory(free=14_000_000_000, total=15_800_000_000))
PARAMETERS = Parameters(batch_size=64, image_size=512)


def test_too_little_gpu_memory() -> None:
    with pytest.raises(InputError) as caught:
        check("d2h_pool", Needs(gpu=20_000_000_000), PARAMETERS, T4)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "d2h_pool needs about 20.0 GB of GPU memory with --batch-size 64 --image-size 512; "
        "14.0 GB of 15.8 GB are free"
    )
    assert "--batch-size 32" in (caught.value.hint or "")


def test_too_little_shared_memory() -> None:
    free = shutil.disk_usage(SHARED_MEMORY).free
    needs = Needs(gpu=1, shared=2 * free + 10**9, why="8 output buffers of 1.4 GB")
    with pytest.raises(InputError) as caught:
        check("d2h_pool", needs, PARAMETERS, T4)  # type: ignore[arg-type]
    assert (
        "of shared memory with --batch-size 64 --image-size 512 (8 output buffers of 1.4 GB)"
        in (str(caught.value))
    )
    assert "--shm-size" in (caught.value.hint or "")


def test_enough() -> None:
    check("d2h_pool", Needs(gpu=13_000_000_000, shared=1000), PARAMETERS, T4)  # type: ignore[arg-type]
    check("d2h_pool", Needs(gpu=10**15), PARAMETERS, Card(None))  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "text"), [(1_409_286_144, "1.4 GB"), (3_145_728, "3.1 MB")])
def test_gigabytes(size: int, text: str) -> None:
    assert gigabytes(size) == text


@pytest.mark.torch
def test_sizes_that_the_decoder_cannot_restore() -> None:
    from workloads.ladders.encdec._common import needs

    needs(Parameters(image_size=224))
    with pytest.raises(InputError, match="--image-size 240 is no multiple of 32"):
        needs(Parameters(image_size=240))
