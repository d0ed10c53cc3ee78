"""One run of a workload, from inside: its steps, ranges, timing, capture range and outputs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workloads import ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from workloads.device import Device
    from workloads.parameters import Parameters


class Outputs:
    """What a run computed, for comparison with another run of the same seed.

    Values stay where they are until `arrays` is called, so that recording them does not
    synchronise with the device.

    Args:
        kept: False drops every value: small tensors that live on keep the allocator from reusing
            the blocks around them, and it asks the device for more memory every few steps.
    """

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._steps: dict[str, list[Any]] = {}
        self._whole: dict[str, Any] = {}

    def add(self, name: str, value: Any) -> None:
        """Append the value of one step: a detached tensor, an array or a number."""
        if self._kept:
            self._steps.setdefault(name, []).append(value)

    def put(self, name: str, value: Any) -> None:
        """Set a value of the whole run."""
        if self._kept:
            self._whole[name] = value

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything as arrays; the values of steps are stacked along a first axis."""
        stacked = {
            name: np.stack([_array(value) for value in values])
            for name, values in self._steps.items()
        }
        return stacked | {name: _array(value) for name, value in self._whole.items()}


def _array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    return np.asarray(value)


class Session:
    """What a workload's ``run`` is given.

    Args:
        parameters: Of the run.
        device: What it runs on.
        compare: Keep outputs for comparison, and use deterministic algorithms.
        capture: Mark the measured steps as the profiler's capture range.
        torch_trace: Record the measured steps with PyTorch Profiler into this file.
        max_seconds: End the measured steps early, after this time.
        progress: Called with a line of text now and then.
    """

    def __init__(
        self,
        parameters: Parameters,
        device: Device,
        *,
        compare: bool = False,
        capture: bool = False,
        torch_trace: Path | None = None,
        max_seconds: float | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.parameters = parameters
        self.device = device
        self.compare = compare
        self.outputs = Outputs(kept=compare)
        self.seconds = 0.0
        self.measured_steps = 0
        self._max_seconds = max_seconds
        self._capture = capture
        self._torch_trace = torch_trace
        self._torch_profiler: Any = None
        self._progress = progress

    def range(self, message: str, color: str) -> AbstractContextManager[None]:
        """An NVTX range around a part of a step; colours are in `workloads.ranges`."""
        return ranges.annotate(message, color, both=self._torch_profiler is not None)

    def steps(
        self,
        finish: Callable[[], None] = lambda: None,
        begin: Callable[[], None] = lambda: None,
    ) -> Iterator[int]:
        """Count the steps; each runs inside a range "Batch N".

        The measured steps begin when the device has finished the warm-up, and end when it is idle
        again and `finish` has returned, so that a workload cannot leave work behind unmeasured.

        Args:
            finish: Waits for what the workload has handed to others (output processes, say).
            begin: Called before the first measured step, when the profiler, if any, has started:
                for what must be as it is in the steady state. Not called where outputs are
                compared.

        Sets `seconds` and `measured_steps` at the end. The time that a profiler takes to start and
        to stop does not count.
        """
        warmup, total = self.parameters.warmup, self.parameters.total_steps
        started = told = time.perf_counter()
        for step in range(total):
            if step == warmup:
                self._begin()
                if not self.compare:
                    begin()
                started = told = time.perf_counter()
            with self.range(f"Batch {step}", ranges.BATCH):
                yield step
            self.measured_steps = max(0, step + 1 - warmup)
            now = time.perf_counter()
            if self.measured_steps and self._max_seconds and now - started > self._max_seconds:
                break
            if now - told > 2.0:
                told = now
                self._progress(f"step {step + 1} of {total}")
        self.device.synchronize()
        stopping = time.perf_counter()
        self._end()
        started += time.perf_counter() - stopping  # seconds, which are the profiler's
        finish()
        self.seconds = time.perf_counter() - started
        if self._torch_trace is not None:
            self._torch_profiler.export_chrome_trace(str(self._torch_trace))

    def _begin(self) -> None:
        self.device.synchronize()
        if self._torch_trace is not None:
            activities = [torch.profiler.ProfilerActivity.CPU]
            if self.device.torch.type == "cuda":
                activities.append(torch.profiler.ProfilerActivity.CUDA)
            self._torch_profiler = torch.profiler.profile(activities=activities)
            self._torch_profiler.start()
        if self._capture:
            self.device.capture(on=True)

    def _end(self) -> None:
        if self._capture:
            self.device.capture(on=False)
        if self._torch_profiler is not None:
            self._torch_profiler.stop()
