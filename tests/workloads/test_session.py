"""What counts as the time of a run."""

from __future__ import annotations

import time

import pytest

from workloads.parameters import Parameters

pytestmark = pytest.mark.torch

SMALL = Parameters(batch_size=1, image_size=32, steps=3, warmup=1, workers=0, device="cpu")
PAUSE = 0.5


def test_a_profiler_that_starts_and_stops_slowly_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workloads.device import HostDevice
    from workloads.session import Session

    captures = []

    def capture(_self: HostDevice, *, on: bool) -> None:
        captures.append(on)
        time.sleep(PAUSE)

    monkeypatch.setattr(HostDevice, "capture", capture)
    session = Session(SMALL, HostDevice(), capture=True)
    for _ in session.steps():
        time.sleep(0.01)

    assert captures == [True, False]
    assert session.measured_steps == 3
    assert 0.03 <= session.seconds < PAUSE


def test_work_that_is_left_for_others_counts() -> None:
    from workloads.device import HostDevice
    from workloads.session import Session

    session = Session(SMALL, HostDevice())
    for _ in session.steps(finish=lambda: time.sleep(0.2)):
        pass

    assert session.seconds >= 0.2


def test_what_prepares_the_measured_steps_does_not() -> None:
    from workloads.device import HostDevice
    from workloads.session import Session

    begun = []

    def begin() -> None:
        begun.append(True)
        time.sleep(PAUSE)

    session = Session(SMALL, HostDevice())
    for step in session.steps(begin=begin):
        assert begun == ([] if step < SMALL.warmup else [True])

    assert begun == [True]
    assert session.seconds < PAUSE
