"""The device that a workload runs on: a CUDA GPU, or the CPU in its place.

Workloads copy, wait and record events through a `Device`. On CUDA that is a thin layer over
`torch.cuda`. On the CPU, kernels run when they are called, and asynchronous copies run **as late as
CUDA would allow**: when somebody waits for them. A program that reads a buffer before its event, or
computes on a batch without waiting for the copying stream, therefore gives wrong results on the CPU
every time, not only in an unlucky run on a GPU. Kernels that nobody has ordered are found by
`workloads.order`, where outputs are to be compared.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from analysis.errors import InputError
from workloads.order import Clock, Order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Memory(NamedTuple):
    """Device memory, in bytes."""

    free: int
    total: int


class Device(ABC):
    """Streams, events, copies and memory of one device."""

    torch: torch.device

    @abstractmethod
    def stream(self) -> Any:
        """A new stream: `torch.cuda.Stream`, or its stand-in."""

    @abstractmethod
    def event(self) -> Any:
        """A new event whose ``synchronize`` sleeps rather than spins."""

    @abstractmethod
    def current_stream(self) -> Any:
        """The stream that work goes to now."""

    @abstractmethod
    def use(self, stream: Any) -> AbstractContextManager[Any]:
        """Send work to `stream` inside the ``with`` block."""

    @abstractmethod
    def upload(self, tensor: torch.Tensor, *, non_blocking: bool = False) -> torch.Tensor:
        """A new tensor on the device with the content of the host's `tensor`."""

    @abstractmethod
    def upload_into(self, target: torch.Tensor, tensor: torch.Tensor) -> None:
        """Copy the host's `tensor` into a device tensor, asynchronously where it is pinned."""

    @abstractmethod
    def download_into(
        self, target: torch.Tensor, tensor: torch.Tensor, *, non_blocking: bool = False
    ) -> None:
        """Copy a device tensor into the host's `target`.

        Asynchronous only with `non_blocking` and where `target` is pinned; `target` may be read
        after an event that is recorded behind the copy.
        """

    @abstractmethod
    def keep_alive(self, tensor: torch.Tensor, stream: Any) -> None:
        """Keep the memory of `tensor` from reuse until the work now in `stream` is done."""

    @abstractmethod
    def pin(self, tensor: torch.Tensor) -> None:
        """Pin the pages of a host tensor that exists already (shared memory, say).

        `torch.Tensor.share_memory_` of a pinned tensor gives one that is not, so shared buffers are
        registered afterwards. Undone by `unpin`.
        """

    @abstractmethod
    def unpin(self, tensor: torch.Tensor) -> None:
        """Undo `pin`."""

    @abstractmethod
    def pinned_copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """A pinned copy of a host tensor."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for everything."""

    @abstractmethod
    def memory(self) -> Memory | None:
        """Free and total memory, or None on the CPU."""

    def checked(self) -> AbstractContextManager[Any]:
        """Raise GateError, inside, where work of two streams is not ordered; only on the CPU."""
        return contextlib.nullcontext()

    @abstractmethod
    def capture(self, *, on: bool) -> None:
        """Begin or end the profiler's capture range (cudaProfilerStart and -Stop)."""


class CudaDevice(Device):
    """A CUDA GPU."""

    def __init__(self, device: torch.device) -> None:
        index = torch.cuda.current_device() if device.index is None else device.index
        self.torch = torch.device("cuda", index)
        torch.cuda.set_device(self.torch)

    def stream(self) -> Any:
        return torch.cuda.Stream(self.torch)

    def event(self) -> Any:
        return torch.cuda.Event(blocking=True)

    def current_stream(self) -> Any:
        return torch.cuda.current_stream(self.torch)

    def use(self, stream: Any) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = torch.cuda.stream(stream)
        return context

    def upload(self, tensor: torch.Tensor, *, non_blocking: bool = False) -> torch.Tensor:
        if non_blocking:
            _require_pinned(tensor)
        return tensor.to(self.torch, non_blocking=non_blocking)

    def upload_into(self, target: torch.Tensor, tensor: torch.Tensor) -> None:
        _require_pinned(tensor)
        target.copy_(tensor, non_blocking=True)

    def download_into(
        self, target: torch.Tensor, tensor: torch.Tensor, *, non_blocking: bool = False
    ) -> None:
        if non_blocking:
            _require_pinned(target)
        target.copy_(tensor, non_blocking=non_blocking)

    def keep_alive(self, tensor: torch.Tensor, stream: Any) -> None:
        tensor.record_stream(stream)

    def pin(self, tensor: torch.Tensor) -> None:
        size = tensor.numel() * tensor.element_size()
        try:
            torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(tensor.data_ptr(), size, 0))
        except RuntimeError as error:
            raise InputError(
                f"cudaHostRegister could not pin {size} bytes: {error}",
                hint="the limit on locked memory may be too low (ulimit -l), or memory too small",
            ) from error
        _require_pinned(tensor)

    def unpin(self, tensor: torch.Tensor) -> None:
        torch.cuda.check_error(torch.cuda.cudart().cudaHostUnregister(tensor.data_ptr()))

    def pinned_copy(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.pin_memory()

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.torch)

    def memory(self) -> Memory | None:
        return Memory(*torch.cuda.mem_get_info(self.torch))

    def capture(self, *, on: bool) -> None:
        runtime = torch.cuda.cudart()
        torch.cuda.check_error(runtime.cudaProfilerStart() if on else runtime.cudaProfilerStop())


def _require_pinned(tensor: torch.Tensor) -> None:
    # From pageable memory a "non_blocking" copy is synchronous, silently.
    if not tensor.is_pinned():
        raise RuntimeError("an asynchronous copy needs pinned memory, and this tensor is pageable")


class HostStream:
    """Stands in for a CUDA stream: copies wait in a queue until somebody waits for them.

    Args:
        device: Its device.
    """

    def __init__(self, device: HostDevice) -> None:
        self._device = device
        self.clock = Clock(device.clock)
        self._lock = threading.RLock()
        self._pending: list[Callable[[], object]] = []
        self._done = 0

    def enqueue(self, copy: Callable[[], object]) -> None:
        """Put a copy at the end of the queue."""
        with self._lock:
            self._pending.append(copy)

    @property
    def position(self) -> int:
        """How many copies were ever put in."""
        with self._lock:
            return self._done + len(self._pending)

    def run_until(self, position: int) -> None:
        """Do the first `position` copies that were ever put in, those not done yet, in order."""
        with self._lock, self._device.order.paused():
            while self._done < position:
                self._pending.pop(0)()
                self._done += 1

    def synchronize(self) -> None:
        """Do all copies, for the program waits for them."""
        self.run_until(self.position)
        self._device.clock.wait(self.clock.now())

    def wait_stream(self, other: HostStream) -> None:
        """Order this stream behind what is in `other` now: it is done at once."""
        if other is not self:
            other.run_until(other.position)
            self.clock.wait(other.clock.now())

    def wait_event(self, event: HostEvent) -> None:
        """Order this stream behind `event`: what it stands for is done at once."""
        event.run()
        self.clock.wait(event.moment)

    def record_event(self, event: HostEvent) -> HostEvent:
        """Record `event` behind the copies that are in the queue now."""
        event.record(self)
        return event


class HostEvent:
    """Stands in for a CUDA event.

    Args:
        host: The clock of the program that may wait for it.
    """

    def __init__(self, host: Clock) -> None:
        self._host = host
        self._stream: HostStream | None = None
        self._position = 0
        self.moment: dict[Clock, int] = {}

    def record(self, stream: HostStream) -> None:
        """Stand for the copies that are in `stream` now."""
        self._stream, self._position = stream, stream.position
        self.moment = stream.clock.now()

    def run(self) -> None:
        """Do the copies that the event stands for; none if it was never recorded, as in CUDA."""
        if self._stream is not None:
            self._stream.run_until(self._position)

    def synchronize(self) -> None:
        """The same, for the program waits for them."""
        self.run()
        self._host.wait(self.moment)


class HostDevice(Device):
    """The CPU in place of a GPU."""

    def __init__(self) -> None:
        self.torch = torch.device("cpu")
        self.clock = Clock()
        self.order = Order(lambda: self._current.clock)
        self._default = HostStream(self)
        self._streams = [self._default]
        self._current = self._default

    def stream(self) -> Any:
        stream = HostStream(self)
        self._streams.append(stream)
        return stream

    def event(self) -> Any:
        return HostEvent(self.clock)

    def current_stream(self) -> Any:
        return self._current

    @contextlib.contextmanager
    def use(self, stream: Any) -> Iterator[None]:
        before, self._current = self._current, stream
        try:
            yield
        finally:
            self._current = before

    def upload(self, tensor: torch.Tensor, *, non_blocking: bool = False) -> torch.Tensor:
        target = torch.empty_like(tensor)
        if not non_blocking:
            target.copy_(tensor)
            self.clock.wait(self._current.clock.now())
            return target
        # Until the copy is done the memory holds garbage; NaN makes sure that it shows.
        target.fill_(torch.nan if tensor.is_floating_point() else 0)
        self.upload_into(target, tensor)
        return target

    def upload_into(self, target: torch.Tensor, tensor: torch.Tensor) -> None:
        # Kernels run in the default stream, behind the copies in it: those are done at once.
        if self._current is self._default:
            target.copy_(tensor)
        else:
            self.order.writes(target)
            self._current.enqueue(functools.partial(target.copy_, tensor))

    def download_into(
        self, target: torch.Tensor, tensor: torch.Tensor, *, non_blocking: bool = False
    ) -> None:
        if not non_blocking:
            target.copy_(tensor)
            self.clock.wait(self._current.clock.now())
            return
        # Kernels that come later in the stream may overwrite the tensor; the copy comes before.
        now = tensor.clone()
        self._current.enqueue(functools.partial(target.copy_, now))

    def keep_alive(self, tensor: torch.Tensor, stream: Any) -> None:
        pass  # Python's references keep it

    def pin(self, tensor: torch.Tensor) -> None:
        pass  # there is no device that would care

    def unpin(self, tensor: torch.Tensor) -> None:
        pass

    def pinned_copy(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone()

    def synchronize(self) -> None:
        for stream in self._streams:
            stream.synchronize()

    def memory(self) -> Memory | None:
        return None

    def checked(self) -> AbstractContextManager[Any]:
        return self.order

    def capture(self, *, on: bool) -> None:
        pass  # without CUDA there is no capture range; the whole program is recorded


def open_device(name: str) -> Device:
    """The device of a ``--device`` option.

    Raises:
        InputError: There is no such GPU; the hint says what can be done without one.
    """
    device = torch.device(name)
    if device.type == "cpu":
        return HostDevice()
    if not torch.cuda.is_available():
        build = "has no CUDA" if torch.version.cuda is None else f"is for CUDA {torch.version.cuda}"
        raise InputError(
            f"no CUDA GPU can be used (torch {torch.__version__} {build})",
            hint="without a GPU, --device cpu runs every workload (try --batch-size 2 "
            "--image-size 64 --workers 1); recordings then hold OS runtime calls and NVTX ranges",
        )
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise InputError(
            f"there is no {name}: this machine has {torch.cuda.device_count()} CUDA GPU(s)",
            hint="count from cuda:0; CUDA_VISIBLE_DEVICES hides GPUs",
        )
    return CudaDevice(device)
