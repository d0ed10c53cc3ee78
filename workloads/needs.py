"""How much memory a workload needs, checked before it starts."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import InputError

if TYPE_CHECKING:
    from workloads.device import Device
    from workloads.parameters import Parameters

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (the kernel's, not a file of ours)


@dataclass(frozen=True)
class Needs:
    """Estimates, in bytes.

    Args:
        gpu: Device memory, the CUDA context left out.
        shared: Shared memory, in /dev/shm.
        why: What most of it is, for the message.
    """

    gpu: int
    shared: int = 0
    why: str = ""


def check(name: str, needs: Needs, parameters: Parameters, device: Device) -> None:
    """Refuse a run that would not fit.

    Raises:
        InputError: There is too little memory; the message says how much is needed and free.
    """
    at = f"--batch-size {parameters.batch_size} --image-size {parameters.image_size}"
    why = f" ({needs.why})" if needs.why else ""
    memory = device.memory()
    if memory is not None and needs.gpu > memory.free:
        raise InputError(
            f"{name} needs about {gigabytes(needs.gpu)} of GPU memory with {at}{why}; "
            f"{gigabytes(memory.free)} of {gigabytes(memory.total)} are free",
            hint=f"try --batch-size {_fitting(parameters.batch_size, memory.free, needs.gpu)}, "
            "or free the GPU (nvidia-smi shows who holds it)",
        )
    if needs.shared and SHARED_MEMORY.is_dir():
        free = shutil.disk_usage(SHARED_MEMORY).free
        if needs.shared > free:
            raise InputError(
                f"{name} needs about {gigabytes(needs.shared)} of shared memory with {at}{why}; "
                f"{gigabytes(free)} are free in {SHARED_MEMORY}",
                hint="give the container more (docker run --shm-size=32g, or shm_size in "
                f"compose.yaml), or try --batch-size "
                f"{_fitting(parameters.batch_size, free, needs.shared)}",
            )


def _fitting(batch_size: int, free: int, needed: int) -> int:
    """The largest power of two that needs about as much as is free, and is less than now."""
    largest = max(1, batch_size * free // needed)
    return min(1 << (largest.bit_length() - 1), max(1, batch_size - 1))


def gigabytes(size: int) -> str:
    """`size` bytes as text, to a tenth of 10^9 bytes."""
    return f"{size / 1e9:.1f} GB" if size >= 50_000_000 else f"{size / 1e6:.1f} MB"
