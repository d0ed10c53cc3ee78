"""The `trap` decorator and the registry that it fills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.traces.expect import Expected
from tests.traces.writer import TraceWriter

if TYPE_CHECKING:
    from pathlib import Path

Build = Callable[[TraceWriter], Expected]


@dataclass(frozen=True)
class Trap:
    """A small trace and what an analysis must say of it."""

    name: str
    build: Build
    writer_options: dict[str, Any]

    def write(self, path: Path) -> Expected:
        """Write the trace to `path`; returns what its report must say."""
        with TraceWriter(path, **self.writer_options) as writer:
            return self.build(writer)


TRAPS: dict[str, Trap] = {}


def trap(**writer_options: Any) -> Callable[[Build], Build]:
    """Register a fixture under the function's name; the options go to `TraceWriter`."""

    def register(build: Build) -> Build:
        assert build.__name__ not in TRAPS, f"two traps are called {build.__name__}"
        TRAPS[build.__name__] = Trap(build.__name__, build, writer_options)
        return build

    return register
