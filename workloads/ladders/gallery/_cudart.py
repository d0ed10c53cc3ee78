"""What PyTorch does not offer of the CUDA runtime: unified memory, and functions in a stream."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workloads.ladders.gallery import _common

if TYPE_CHECKING:
    from workloads.session import Session

_ATTACH_GLOBAL = 1
_LOCATION_DEVICE, _LOCATION_HOST = 1, 2
_HOST = -1
#: From this version on cudaMemPrefetchAsync takes a location and flags, not the number of a device.
_LOCATIONS_SINCE = 13_000


class _Location(ctypes.Structure):
    """cudaMemLocation."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _DevicePointer:
    """Memory that PyTorch takes for a CUDA array."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
        }


def managed(session: Session, count: int) -> tuple[np.ndarray[Any, Any], torch.Tensor]:
    """The same float32 as the host and as the device see them; on the CPU plain memory.

    It is released when the process ends.

    Raises:
        RuntimeError: CUDA has no such memory to give.
    """
    if not _common.on_cuda(session):
        tensor = torch.zeros(count)
        return tensor.numpy(), tensor
    address = ctypes.c_void_p()
    size, flags = ctypes.c_size_t(4 * count), ctypes.c_uint(_ATTACH_GLOBAL)
    _check("cudaMallocManaged", _runtime().cudaMallocManaged(ctypes.byref(address), size, flags))
    host = np.ctypeslib.as_array((ctypes.c_float * count).from_address(int(address.value or 0)))
    host[:] = 0
    pointer = _DevicePointer(int(address.value or 0), count)
    return host, torch.as_tensor(pointer, device=session.device.torch)


def prefetch(session: Session, memory: np.ndarray[Any, Any], *, to_device: bool) -> None:
    """Let the current stream move managed memory to the device, or back; on the CPU do nothing.

    Raises:
        RuntimeError: CUDA does not take it.
    """
    if not _common.on_cuda(session):
        return
    runtime, version = _runtime(), ctypes.c_int()
    _check("cudaRuntimeGetVersion", runtime.cudaRuntimeGetVersion(ctypes.byref(version)))
    device = session.device.torch.index if to_device else _HOST
    where: tuple[Any, ...] = (ctypes.c_int(device),)
    if version.value >= _LOCATIONS_SINCE:
        kind = _LOCATION_DEVICE if to_device else _LOCATION_HOST
        where = (_Location(kind, max(device, 0)), ctypes.c_uint(0))
    address, size = ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(memory.nbytes)
    stream = ctypes.c_void_p(session.device.current_stream().cuda_stream)
    error = runtime.cudaMemPrefetchAsync(address, size, *where, stream)
    _check("cudaMemPrefetchAsync", error)


def sleep_in_stream(session: Session, microseconds: int) -> None:
    """Let the current stream call `usleep` on the host; on the CPU sleep at once.

    A function of C: one of Python's would want the interpreter's lock, which a launch keeps while
    the queue is full.

    Raises:
        RuntimeError: CUDA does not take it.
    """
    if not _common.on_cuda(session):
        time.sleep(microseconds / 1e6)
        return
    stream = ctypes.c_void_p(session.device.current_stream().cuda_stream)
    function = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    argument = ctypes.c_void_p(microseconds)
    _check("cudaLaunchHostFunc", _runtime().cudaLaunchHostFunc(stream, function, argument))


def _check(function: str, error: int) -> None:
    if error:
        raise RuntimeError(f"{function} failed with error {error}")


def _runtime() -> ctypes.CDLL:
    """The CUDA runtime that PyTorch has loaded, so that both share one context."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    loaded = {line.split(maxsplit=5)[-1] for line in maps if "libcudart" in line}
    if not loaded:
        raise RuntimeError("PyTorch has loaded no libcudart.so")
    return ctypes.CDLL(min(loaded))
