"""Lanes of the timeline: every event once, none over another, the right threads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.build import build
from analysis.metrics.lanes import stack
from analysis.nsys.recording import open_recording
from analysis.report import Options
from tests.traces.writer import TraceWriter

if TYPE_CHECKING:
    from analysis.metrics.lanes import Lanes

SAMPLES = Path(__file__).parents[2] / "reports/samples"


def lanes_of(path: Path, **options: object) -> Lanes:
    trace, _ = open_recording(path)
    lanes = build(trace, Options(lanes=True, **options)).lanes  # type: ignore[arg-type]
    assert lanes is not None
    return lanes


@pytest.mark.parametrize(
    ("events", "rows"),
    [
        ([], []),
        ([(0, 10), (10, 20)], [0, 0]),
        ([(0, 10), (2, 5), (3, 4), (6, 8), (20, 30), (21, 22)], [0, 1, 2, 1, 0, 1]),
        # Two streams that take turns need two rows, however long they go on.
        ([(0, 10), (5, 15), (10, 20), (15, 25)], [0, 1, 0, 1]),
        ([(3, 3), (3, 3)], [0, 0]),
    ],
)
def test_stack(events: list[tuple[int, int]], rows: list[int]) -> None:
    start, end = np.array(events, np.int64).reshape(-1, 2).T
    assert stack(start, end).tolist() == rows


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30))))
def test_events_of_a_row_do_not_overlap(drawn: list[tuple[int, int]]) -> None:
    events = sorted((start, start + length) for start, length in drawn)
    start, end = np.array(events, np.int64).reshape(-1, 2).T
    depth = stack(start, end)
    for row in range(int(depth.max(initial=-1)) + 1):
        of_row = np.flatnonzero(depth == row)
        assert (start[of_row][1:] >= end[of_row][:-1]).all()
    # No row more than there are events at one time (an empty one is at its instant).
    most = max((sum(s <= t < max(e, s + 1) for s, e in events) for t, _ in events), default=0)
    assert depth.max(initial=-1) + 1 <= most


def test_every_event_of_a_sample_is_in_a_lane() -> None:
    lanes = lanes_of(SAMPLES / "d2h_workers.sqlite")
    trace = lanes.trace
    (device,) = lanes.devices
    shown = {lane.kind: len(lane.rows) for lane in device.lanes}
    assert shown["kernels"] == len(trace.kernels)
    assert shown["memsets"] == len(trace.memsets)
    assert shown["d2h"] + shown["h2d"] == len(trace.copies)
    assert [trace.threads[thread.thread].name for thread in lanes.threads] == ["python3"] * 2
    kernels = device.lanes[0]
    assert kernels.calls is not None
    api, rows = trace.api_calls, kernels.calls
    assert (rows >= 0).all()
    assert (api.correlation[rows] == trace.kernels.correlation[kernels.rows]).all()


def test_the_holder_has_lanes_and_a_bystander_has_none(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with TraceWriter(path) as w:
        w.kernel(100, 200, call=w.api(10, 20))
        w.osrt(200, 800, "pthread_cond_wait")
        w.osrt(210, 790, "posix_fallocate64", tid=101)
        w.osrt(0, 2000, "poll", tid=102)
        w.kernel(1000, 1100, call=w.api(900, 910))
    lanes = lanes_of(path)
    assert [lanes.trace.threads[thread.thread].tid for thread in lanes.threads] == [100, 101]
    assert [thread.idle_ns for thread in lanes.threads] == [800, 580]


def test_a_recording_without_a_gpu_shows_its_threads(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with TraceWriter(path) as w:
        w.osrt(0, 10, "read", tid=101)
        w.osrt(20, 30, "read", tid=101)
        w.push_pop(0, 10, "work")
    lanes = lanes_of(path)
    assert lanes.devices == ()
    assert [lanes.trace.threads[thread.thread].tid for thread in lanes.threads] == [101, 100]
    assert lanes.threads_left_out == 0


def test_a_device_that_is_never_idle_shows_who_launches(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with TraceWriter(path) as w:
        w.kernel(100, 200, call=w.api(10, 20))
        w.kernel(200, 300, call=w.api(30, 40, tid=101))
        w.kernel(300, 400, call=w.api(50, 60, tid=101))
    lanes = lanes_of(path)
    assert [lanes.trace.threads[thread.thread].tid for thread in lanes.threads] == [101, 100]
