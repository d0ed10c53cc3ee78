"""Starts workloads, each run in a process of its own, and brings their records back."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from analysis.errors import GateError, InputError, LabError, NotTracedError, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from workloads.parameters import Parameters
    from workloads.registry import Entry

SCHEMA = "nsyslab.run/1"

# The end of a program's output that an error message quotes.
_QUOTED_LINES = 15


def command(
    entry: Entry,
    parameters: Parameters,
    *,
    record: Path,
    capture: bool = False,
    outputs: Path | None = None,
    torch_trace: Path | None = None,
    max_seconds: float | None = None,
) -> list[str]:
    """The command that runs a workload, see `workloads.run`."""
    name = entry.name if entry.builtin else str(entry.path)
    arguments = [sys.executable, "-m", "workloads.run", name, *parameters.as_arguments()]
    arguments += ["--record", str(record)]
    if capture:
        arguments.append("--capture")
    if outputs is not None:
        arguments += ["--outputs", str(outputs)]
    if torch_trace is not None:
        arguments += ["--torch-trace", str(torch_trace)]
    if max_seconds is not None:
        arguments += ["--max-seconds", str(max_seconds)]
    return arguments


def run(
    entry: Entry,
    parameters: Parameters,
    *,
    outputs: Path | None = None,
    torch_trace: Path | None = None,
    max_seconds: float | None = None,
    timeout_s: float | None = None,
    on_output: Callable[[bytes], None] | None = None,
) -> dict[str, Any]:
    """Run a workload in a process of its own.

    Args:
        entry: The workload.
        parameters: Of the run.
        outputs: Keep its outputs in this .npz file.
        torch_trace: Record it with PyTorch Profiler into this file.
        max_seconds: End its measured steps early, after this time.
        timeout_s: Seconds after which it is ended, and has failed.
        on_output: Gets its output as it comes.

    Returns:
        Its record, see docs/workloads.md.

    Raises:
        LabError: It failed; what it said of that, with its exit code.
    """
    from analysis.nsys import process

    with TemporaryDirectory(prefix="nsyslab-") as folder:
        record = Path(folder) / "run.json"
        finished = process.run(
            command(
                entry,
                parameters,
                record=record,
                outputs=outputs,
                torch_trace=torch_trace,
                max_seconds=max_seconds,
            ),
            timeout_s=timeout_s,
            on_output=on_output,
        )
        if finished.timed_out:
            raise ToolError(
                f"{entry.name} did not end within {timeout_s:g} s",
                hint="raise --timeout, or take fewer --steps",
            )
        return read_record(entry.name, record, finished.exit_code, finished.text)


def record_of(entry: Entry, parameters: Parameters) -> dict[str, Any]:
    """What the record of a run says of what was run; how it went is for the caller to add."""
    return {
        "schema": SCHEMA,
        "workload": entry.name,
        "ladder": entry.workload.ladder,
        "rung": entry.workload.rung,
        "parameters": dataclasses.asdict(parameters),
    }


def read_record(name: str, record: Path, exit_code: int, output: str) -> dict[str, Any]:
    """The record that a workload's process has written, or its failure as an exception.

    Args:
        name: Of the workload.
        record: The file that it was to write.
        exit_code: Of the process.
        output: Of the process; the end is quoted where it left no better message.

    Raises:
        LabError: It failed.
    """
    written = record.exists() and record.stat().st_size > 0
    result: dict[str, Any] = json.loads(record.read_text(encoding="utf-8")) if written else {}
    if "failure" in result:
        failure = result["failure"]
        raise _with_code(failure["exit_code"], failure["error"], failure["hint"])
    if exit_code != 0 or not result:
        tail = "".join(f"\n  {line}" for line in output.splitlines()[-_QUOTED_LINES:])
        hint = f"the end of its output:{tail}" if tail else "it wrote nothing"
        if exit_code <= 128:
            raise ToolError(f"{name} failed with exit code {exit_code}", hint=hint)
        if exit_code - 128 == signal.SIGKILL:
            hint = f"the memory of the machine, or of the container, may have run out; {hint}"
        raise ToolError(f"{name} was ended by signal {exit_code - 128}", hint=hint)
    return result | {"commit": commit()}


def commit() -> str | None:
    """The lab's git commit, with ``-dirty`` behind it if files differ; None outside a checkout.

    A copy without a checkout (the container, another machine) is told by NSYSLAB_COMMIT what it is
    a copy of. The workload itself does not look: a recorded program does not get that variable.
    """
    told = os.environ.get("NSYSLAB_COMMIT")
    if told or shutil.which("git") is None:
        return told or None
    describe = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    done = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), *describe],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.stdout.strip() or None if done.returncode == 0 else None


def _with_code(code: int, message: str, hint: str | None) -> LabError:
    for kind in (InputError, NotTracedError, ToolError, GateError):
        if kind.exit_code == code:
            return kind(message, hint=hint)
    return ToolError(message, hint=hint)
