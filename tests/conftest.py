"""Shared by all tests: the command line as a function, without a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from analysis import cli

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Analysis:
    """What ``nsyslab analyze --format json`` gave."""

    exit_code: int
    report: dict[str, Any]
    stderr: str


Analyze = Callable[..., Analysis]


@pytest.fixture
def analyze(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Analyze:
    """Analyses a trace by the command line and reads the JSON it wrote."""

    def run(trace: Path, *options: str) -> Analysis:
        output = tmp_path / "report.json"
        output.unlink(missing_ok=True)
        arguments = ["analyze", str(trace), "--format", "json", "--output", str(output), *options]
        code = cli.run(arguments)
        stderr = capfd.readouterr().err
        assert output.exists(), f"no report, exit code {code}: {stderr}"
        return Analysis(code, json.loads(output.read_bytes()), stderr)

    return run
