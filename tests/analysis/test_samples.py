"""The recordings of reports/samples: figures to the nanosecond, and what a careful person reads."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import analysis
from analysis.report import DeviceReport, Gap, Options, Part, Report

SAMPLES = Path(__file__).parents[2] / "reports" / "samples"
NAMES = sorted(path.stem for path in SAMPLES.glob("*.sqlite"))
REFERENCE: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("reference.json").read_text()
)
MS = 1_000_000


@cache
def report_of(name: str, options: Options | None = None) -> Report:
    return analysis.analyze(SAMPLES / f"{name}.sqlite", options)


def device_of(name: str) -> DeviceReport:
    (device,) = report_of(name).devices
    return device


def gaps_over(name: str, ns: int) -> list[Gap]:
    return [gap for gap in device_of(name).gaps if gap.duration_ns > ns]


def part(gap: Gap, **wanted: str) -> Part:
    """The only part of a gap with these values."""
    (found,) = [p for p in gap.parts if all(getattr(p, k) == v for k, v in wanted.items())]
    return found


def test_there_are_eleven_samples_and_a_reference_for_each() -> None:
    assert len(NAMES) == 11
    assert sorted(REFERENCE) == [f"{name}.sqlite" for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_agrees_with_the_reference(name: str) -> None:
    device = device_of(name)
    (munmap,) = [s for s in report_of(name).stalls if s.function == "munmap"]
    copies = dict(device.partition.exposed_copy_ns)
    found = {
        "window_ns": device.window.duration_ns,
        "compute_ns": device.partition.compute_ns,
        "exposed_d2h_ns": copies.pop("d2h"),
        "exposed_h2d_ns": copies.pop("h2d"),
        "exposed_other_copy_ns": sum(copies.values()),
        "exposed_memset_ns": device.partition.exposed_memset_ns,
        "idle_ns": device.partition.idle_ns,
        "overlap": {
            direction: {
                "copy_ns": device.overlap[direction].copy_ns,
                "hidden_ns": device.overlap[direction].hidden_ns,
                "percent": device.overlap[direction].percent,
            }
            for direction in REFERENCE[f"{name}.sqlite"]["overlap"]
        },
        "gaps_over_1ms": len(gaps_over(name, MS)),
        "longest_gap_ns": max(
            gap.duration_ns for gap in report_of(name, Options(min_gap_ns=0)).devices[0].gaps
        ),
        "munmap": {
            "calls": munmap.calls,
            "total_ns": munmap.total_ns,
            "max_ns": munmap.max_ns,
        },
    }
    assert found == REFERENCE[f"{name}.sqlite"]


@pytest.mark.parametrize("name", NAMES)
def test_everything_sums_exactly(name: str) -> None:
    report = report_of(name, Options(min_gap_ns=0))
    (device,) = report.devices
    parts = device.partition
    assert (
        parts.compute_ns
        + sum(parts.exposed_copy_ns.values())
        + parts.exposed_memset_ns
        + parts.idle_ns
        == device.window.duration_ns
    )
    for gap in device.gaps:
        assert sum(p.ns for p in gap.parts) == gap.duration_ns
        assert all(p.held_by.ns <= p.ns for p in gap.parts if p.held_by)
    assert len(device.gaps) == device.idle.gap_count
    assert sum(gap.duration_ns for gap in device.gaps) == parts.idle_ns == device.idle.total_ns
    assert sum(cause.ns for cause in device.idle.by_cause) == device.idle.total_ns
    assert report.steps is not None
    assert sum(cause.ns for cause in report.steps.edge_by_cause) == report.steps.edge_idle_ns
    assert sum(row.period_ns for row in report.steps.rows) == report.steps.span_ns
    for row in report.steps.rows:
        filled = row.compute_ns + sum(row.exposed_copy_ns.values()) + row.exposed_memset_ns
        assert filled + row.idle_ns == row.period_ns


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("d2h_baseline", "host-bound"),
        ("d2h_workers", "copy-bound"),
        ("d2h_pool", "copy-bound"),
        ("d2h_async", "copy-bound"),
        ("d2h_streams", "compute-bound"),
        ("h2d_baseline", "host-bound"),
        ("h2d_workers", "copy-bound"),
        ("h2d_async", "copy-bound"),
        ("h2d_streams", "compute-bound"),
        ("h2d_prefetch", "compute-bound"),
        ("pin_thread", "host-bound"),
    ],
)
def test_verdict(name: str, verdict: str) -> None:
    assert report_of(name).verdict == verdict


def test_d2h_baseline_processes_its_output_while_the_gpu_waits() -> None:
    gaps = gaps_over("d2h_baseline", MS)
    host = [part(gap, cause="host", name="process output") for gap in gaps]
    assert [p.ns // MS for p in host] == [1073, 990]
    assert [p.nvtx for p in host] == ["Batch 10 / process output", "Batch 11 / process output"]


def test_d2h_workers_waits_for_the_interpreter_lock() -> None:
    gaps = gaps_over("d2h_workers", MS)
    assert [gap.duration_ns // MS for gap in gaps] == [302, 345]
    munmap = [part(gap, cause="osrt", name="munmap") for gap in gaps]
    assert [round(p.ns / MS) for p in munmap] == [30, 40]
    assert [p.nvtx for p in munmap] == ["Batch 10 / copy to CPU", "Batch 11 / copy to CPU"]
    waits = [
        next(p for p in gap.parts if p.name == "pthread_cond_timedwait" and p.ns > 100 * MS)
        for gap in gaps
    ]
    assert [round(p.ns / MS) for p in waits] == [268, 302]
    assert [p.nvtx for p in waits] == ["Batch 11 / get batch", "Batch 12 / get batch"]
    for wait in waits:
        assert wait.held_by is not None
        assert wait.held_by.name == "posix_fallocate64"
        assert wait.held_by.process == 1095  # another thread of the same process
        assert wait.held_by.ns > 0.99 * wait.ns


def test_h2d_workers_unmaps_on_the_feeding_thread() -> None:
    gaps = gaps_over("h2d_workers", 10 * MS)
    assert len(gaps) == 3
    for batch, gap in zip((10, 11, 12), gaps, strict=True):
        munmap = part(gap, cause="osrt", name="munmap")
        assert munmap.ns >= 0.97 * gap.duration_ns
        assert munmap.nvtx == f"Batch {batch} / copy batch"
        assert gap.feeding_thread is not None
        assert not gap.inferred


def test_pin_thread_is_held_up_twice_by_the_pinning_thread() -> None:
    long = gaps_over("pin_thread", 100 * MS)
    assert len(long) == 4
    for gap in long:
        wait = part(gap, cause="cuda_api", name="cudaLaunchKernelExC")
        assert wait.via == "pthread_rwlock_wrlock"
        assert wait.ns > 0.99 * gap.duration_ns
        assert wait.held_by is not None
        assert (wait.held_by.thread_name, wait.held_by.name) == ("pt_data_pin", "cudaHostAlloc")
        assert wait.held_by.via == "ioctl"
    short = [gap for gap in gaps_over("pin_thread", 20 * MS) if gap not in long]
    assert [gap.duration_ns // MS for gap in short] == [32, 26, 38]
    for gap in short:
        wait = gap.parts[0]
        assert re.fullmatch(r"step \d / work", wait.nvtx)
        assert wait.name == "pthread_cond_timedwait"
        assert wait.held_by is not None
        assert (wait.held_by.thread_name, wait.held_by.name) == ("pt_data_pin", "munmap")
        assert 25 * MS <= wait.held_by.ns <= 38 * MS


def test_the_ceiling_of_each_baseline_is_what_the_last_rung_reaches() -> None:
    slow, fast = report_of("d2h_baseline"), report_of("d2h_streams")
    assert slow.ceiling is not None
    assert slow.ceiling.pinned_per_second is not None
    assert fast.steps is not None
    assert slow.ceiling.pinned_per_second == pytest.approx(fast.steps.per_second, rel=0.1)
    slow, fast = report_of("h2d_baseline"), report_of("h2d_prefetch")
    assert slow.ceiling is not None
    assert fast.steps is not None
    assert slow.ceiling.overlapped_per_second == pytest.approx(fast.steps.per_second, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_a_window_by_range_is_explained_like_the_whole(name: str) -> None:
    """The same instant has the same cause whatever the window."""
    pattern = r"(Batch|step) \d+"
    windowed = report_of(name, Options(min_gap_ns=0, nvtx=pattern))
    (device,) = windowed.devices
    parts = device.partition
    total = parts.compute_ns + sum(parts.exposed_copy_ns.values()) + parts.exposed_memset_ns
    assert total + parts.idle_ns == device.window.duration_ns
    assert sum(cause.ns for cause in device.idle.by_cause) == parts.idle_ns
    whole = {gap.start_ns: gap for gap in report_of(name, Options(min_gap_ns=0)).devices[0].gaps}
    same = 0
    for gap in device.gaps:
        if gap.start_ns in whole and whole[gap.start_ns].duration_ns == gap.duration_ns:
            assert gap == whole[gap.start_ns]
            same += 1
    assert same > 50
