"""Finds work of two streams that nobody has ordered, on the CPU, where it happens in order anyway.

Every operation belongs to the stream that is current when it is called. A stream counts what it is
given, and knows up to which count of the others it has waited (a vector clock). An operation that
reads a tensor has to be behind the one that wrote it; one that writes has to be behind those that
read it, too. On a GPU the result is wrong now and then where that is not so; here it is an error,
every time.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from analysis.errors import GateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EMPTY = ("empty", "new_empty")
# What reads of a tensor how large it is, and no more.
_LIKE = ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")
_HINT = "its stream has to wait for that one, or for an event of it"

# Tensors that are gone are forgotten when there are so many.
_MANY = 10_000


class Clock:
    """What a stream has been given, and what of the others it is behind.

    Args:
        host: The clock of the program itself: work is behind all that it has waited for.
    """

    def __init__(self, host: Clock | None = None) -> None:
        self._host = host
        self._count = 0
        self._behind: dict[Clock, int] = {}

    def now(self) -> dict[Clock, int]:
        """What is behind or in it now, by stream."""
        return {**self._behind, self: self._count}

    def wait(self, moment: dict[Clock, int]) -> None:
        """What comes next is behind `moment`, see `now`."""
        for clock, count in moment.items():
            if clock is not self:
                self._behind[clock] = max(count, self._behind.get(clock, 0))

    def tick(self) -> int:
        """The number of the next operation."""
        if self._host is not None:
            self.wait(self._host.now())
        self._count += 1
        return self._count

    def is_behind(self, clock: Clock, count: int) -> bool:
        """Whether the operation called last is behind operation `count` of another stream."""
        return clock is self or self._behind.get(clock, 0) >= count


class _Uses:
    """Who wrote a tensor's memory last, and who has read it since."""

    def __init__(self, memory: StorageWeakRef) -> None:
        self.memory = memory  # as long as it is held, no other memory has the same address
        self.written: tuple[Clock, int] | None = None
        self.read: dict[Clock, int] = {}


class Order(TorchDispatchMode):  # type: ignore[misc]  # torch is not there when types are checked
    """Checks the operations of the thread that enters it.

    Args:
        current: The clock of the stream that work goes to now.

    Raises:
        GateError: An operation is not behind another that it has to be behind.
    """

    def __init__(self, current: Callable[[], Clock]) -> None:
        super().__init__()
        self._current = current
        self._uses: dict[int, _Uses] = {}
        self._elsewhere = threading.local()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Check nothing: what is done here was called before, and was checked then."""
        before, self._elsewhere.paused = getattr(self._elsewhere, "paused", False), True
        try:
            yield
        finally:
            self._elsewhere.paused = before

    def writes(self, tensor: Tensor) -> None:
        """Check an operation that writes `tensor` and is not called now."""
        self._write(tensor, self._current(), self._current().tick(), "a copy")

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(self._elsewhere, "paused", False):
            return func(*args, **kwargs)
        clock = self._current()
        count = clock.tick()
        schema = func._schema
        name = func.overloadpacket.__name__
        views = any(of.alias_info and not of.alias_info.is_write for of in schema.returns)
        if not views and not name.startswith(_EMPTY + _LIKE):
            named = {argument.name: argument for argument in schema.arguments}
            given = [*zip(schema.arguments, args, strict=False)]
            given += [(named[key], value) for key, value in kwargs.items() if key in named]
            for argument, value in given:
                written = argument.alias_info is not None and argument.alias_info.is_write
                for tensor in tree_leaves(value):
                    if isinstance(tensor, Tensor):
                        (self._write if written else self._read)(tensor, clock, count, name)
        result = func(*args, **kwargs)
        inputs = {
            tensor.untyped_storage()._cdata
            for tensor in tree_leaves((args, kwargs))
            if isinstance(tensor, Tensor)
        }
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                uses = self._of(tensor)
                if tensor.untyped_storage()._cdata not in inputs:
                    # Memory without content is no work.
                    uses.written = None if name.startswith(_EMPTY) else (clock, count)
                    uses.read = {}
        return result

    def _read(self, tensor: Tensor, clock: Clock, count: int, name: str) -> None:
        uses = self._of(tensor)
        if uses.written is not None and not clock.is_behind(*uses.written):
            raise GateError(
                f"{name} reads a tensor that another stream may still be writing", hint=_HINT
            )
        uses.read[clock] = count

    def _write(self, tensor: Tensor, clock: Clock, count: int, name: str) -> None:
        uses = self._of(tensor)
        others = [*uses.read.items(), *([uses.written] if uses.written is not None else [])]
        if not all(clock.is_behind(*use) for use in others):
            raise GateError(
                f"{name} overwrites a tensor that another stream may still be using", hint=_HINT
            )
        uses.written, uses.read = (clock, count), {}

    def _of(self, tensor: Tensor) -> _Uses:
        storage = tensor.untyped_storage()
        key: int = storage._cdata
        if key not in self._uses:
            if len(self._uses) >= _MANY:
                self._uses = {k: u for k, u in self._uses.items() if not u.memory.expired()}
            self._uses[key] = _Uses(StorageWeakRef(storage))
        return self._uses[key]
