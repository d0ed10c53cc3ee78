"""Unified memory, which PyTorch does not allocate: through the CUDA runtime."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workloads.ladders.gallery import _common

if TYPE_CHECKING:
    from workloads.session import Session

_ATTACH_GLOBAL = 1


class _DevicePointer:
    """Memory that PyTorch takes for a CUDA array."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
        }


def memory(session: Session, count: int) -> tuple[np.ndarray[Any, Any], torch.Tensor]:
    """The same float32 as the host and as the device see them; on the CPU plain memory.

    It is released when the process ends.

    Raises:
        RuntimeError: CUDA has no such memory to give.
    """
    if not _common.on_cuda(session):
        tensor = torch.zeros(count)
        return tensor.numpy(), tensor
    address = ctypes.c_void_p()
    error = _runtime().cudaMallocManaged(
        ctypes.byref(address), ctypes.c_size_t(4 * count), ctypes.c_uint(_ATTACH_GLOBAL)
    )
    if error or address.value is None:
        raise RuntimeError(f"cudaMallocManaged failed with error {error}")
    host = np.ctypeslib.as_array((ctypes.c_float * count).from_address(address.value))
    host[:] = 0
    pointer = _DevicePointer(address.value, count)
    return host, torch.as_tensor(pointer, device=session.device.torch)


def _runtime() -> ctypes.CDLL:
    """The CUDA runtime that PyTorch has loaded, so that both share one context."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    loaded = {line.split(maxsplit=5)[-1] for line in maps if "libcudart" in line}
    if not loaded:
        raise RuntimeError("PyTorch has loaded no libcudart.so")
    return ctypes.CDLL(min(loaded))
