"""Small traces of a loop, in milliseconds, and what a diagnosis must and must not find in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.traces.writer import PID, TraceWriter

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 5
PERIOD = 10.0
#: From a call to the start of what it launches, ms.
LATENCY = 0.01
MB = 1_000_000


def ns(ms: float) -> int:
    """Milliseconds as integer nanoseconds."""
    return round(ms * 1_000_000)


class Scene:
    """Writes events of a step; times are ms from the step's start, thread is the loop's."""

    def __init__(self, writer: TraceWriter) -> None:
        self.writer = writer
        self.now = 10.0

    def at(self, ms: float) -> int:
        return ns(self.now + ms)

    def kernel(
        self, start: float, end: float, *, launched: float | None = None, **options: Any
    ) -> None:
        at = start - LATENCY if launched is None else launched
        tid = options.pop("tid", None)
        pid = options.get("pid", PID)
        call = self.writer.api(self.at(at), self.at(at + 0.005), pid=pid, tid=tid)
        self.writer.kernel(self.at(start), self.at(end), call=call, **options)

    def copy(
        self,
        start: float,
        end: float,
        kind: str,
        *,
        memory: str = "pinned",
        size: int = 10 * MB,
        launched: float | None = None,
        returns: float | None = None,
        api: str = "cudaMemcpyAsync_v3020",
        tid: int | None = None,
        stream: int = 7,
    ) -> None:
        """A copy; `returns` is when its call does."""
        at = start - LATENCY if launched is None else launched
        until = at + 0.005 if returns is None else returns
        call = self.writer.api(self.at(at), self.at(until), api, tid=tid)
        host = "dst" if kind == "d2h" else "src"
        ends: dict[str, Any] = {host: memory}
        self.writer.memcpy(
            self.at(start), self.at(end), kind, size=size, call=call, stream=stream, **ends
        )

    def api(self, start: float, end: float, name: str, **options: Any) -> None:
        self.writer.api(self.at(start), self.at(end), name, **options)

    def osrt(self, start: float, end: float, name: str, **options: Any) -> None:
        self.writer.osrt(self.at(start), self.at(end), name, **options)

    def range(self, start: float, end: float, name: str, **options: Any) -> None:
        self.writer.push_pop(self.at(start), self.at(end), name, **options)


Step = Callable[[Scene, int], None]


@dataclass(frozen=True)
class Case:
    """A step that is repeated, and what is found.

    Attributes:
        step: Writes the events of one step.
        findings: The ids of exactly the findings there must be, the most expensive first.
        verdict: The verdict.
        options: For the writer.
        period: Length of a step, ms.
    """

    step: Step
    findings: tuple[str, ...]
    verdict: str
    options: dict[str, Any]
    period: float

    def write(self, path: Path) -> Path:
        with TraceWriter(path, **self.options) as writer:
            scene = Scene(writer)
            for k in range(STEPS):
                scene.range(0, self.period - 0.001, f"iteration {k}")
                self.step(scene, k)
                scene.now += self.period
        return path


CASES: dict[str, Case] = {}


def case(
    *findings: str, verdict: str, period: float = PERIOD, **options: Any
) -> Callable[[Step], Step]:
    """Registers a step; what it is found to be."""

    def register(step: Step) -> Step:
        assert step.__name__ not in CASES
        CASES[step.__name__] = Case(step, findings, verdict, options, period)
        return step

    return register
