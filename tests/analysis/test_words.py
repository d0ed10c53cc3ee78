"""Causes and places in words."""

from __future__ import annotations

import pytest

from analysis.metrics.attribution import CAUSES
from analysis.renderers._words import fed_by
from analysis.words import OUTSIDE, at, cause_text, short_names


@pytest.mark.parametrize(
    ("cause", "name", "via", "text"),
    [
        ("overhead", "CUPTI Buffer flush", None, "profiler overhead (CUPTI Buffer flush)"),
        ("queued", "cudaLaunchKernel", None, "queued work waits (cudaLaunchKernel)"),
        ("queued", None, None, "queued work waits"),
        ("launch", "cudaLaunchKernel", "ioctl", "launch (cudaLaunchKernel) via ioctl"),
        ("cuda_api", "cudaFree", "ioctl", "cudaFree via ioctl"),
        ("osrt", "munmap", None, "munmap"),
        ("host", "alpha", None, "host code"),
        ("unknown", None, None, "unknown"),
    ],
)
def test_causes(cause: str, name: str | None, via: str | None, text: str) -> None:
    assert cause in CAUSES
    assert cause_text(cause, name, via) == text


def test_places() -> None:
    assert at("Batch # / alpha") == "in Batch # / alpha"
    assert at(OUTSIDE) == "outside any range"


def test_names_beside_each_other() -> None:
    paths = ["reports/a/a.nsys-rep", "reports/b.sqlite", "old/b.sqlite", "v1/"]
    assert short_names(paths) == ["a", "reports/b.sqlite", "old/b.sqlite", "v1"]


@pytest.mark.parametrize(
    ("thread", "name", "text"),
    [
        (17, "pt_autograd_0", "pt_autograd_0 thread 17"),
        (17, "", "thread 17"),
        (17, None, "thread 17"),
        (9, "python3", "thread 9"),  # the first of its process
    ],
)
def test_feeding_threads(thread: int, name: str | None, text: str) -> None:
    assert fed_by(thread, 9, name) == text
