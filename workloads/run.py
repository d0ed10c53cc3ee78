"""``python -m workloads.run NAME``: run one workload in this process.

The commands start this as a process of its own for every run, so that a run begins with a clean
CUDA context and a crash takes nothing else down. It is also what nsys records.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import click

from analysis.errors import GateError, InputError, LabError, ToolError
from workloads import parameters as options
from workloads import registry
from workloads.launch import SCHEMA, record_of


def execute(
    entry: registry.Entry,
    parameters: options.Parameters,
    *,
    capture: bool = False,
    outputs: Path | None = None,
    torch_trace: Path | None = None,
    max_seconds: float | None = None,
) -> dict[str, Any]:
    """Run a workload here and say how it went.

    Args:
        entry: The workload.
        parameters: Of the run.
        capture: Mark the measured steps as the profiler's capture range.
        outputs: Keep the outputs for comparison in this .npz file (deterministic algorithms).
        torch_trace: Record the measured steps with PyTorch Profiler into this file.
        max_seconds: End the measured steps early, after this time.

    Returns:
        The record of the run, as documented in docs/workloads.md.

    Raises:
        GateError: Outputs are to be compared, and the order of some work is left to chance.
        InputError: The workload does not fit, or the parameters are impossible for it.
        ToolError: torch or another package of the workloads is missing.
    """
    if outputs is not None:
        # cuBLAS reads it when it starts; without it products in several streams may differ.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        import numpy as np
        import torch

        from workloads.device import open_device
        from workloads.needs import check
        from workloads.session import Session

        module = _module(entry)
    except ModuleNotFoundError as error:
        raise ToolError(
            f"{entry.name} needs the Python package {error.name}",
            hint="install the workloads' packages: pip install 'nsys-lab[workloads]'",
        ) from error

    for function, takes in (("needs", "parameters"), ("run", "session")):
        if not hasattr(module, function):
            raise InputError(
                f"{entry.path} has no {function}({takes})",
                hint="docs/workloads.md says what a workload consists of",
            )
    device = open_device(parameters.device)
    check(entry.name, module.needs(parameters), parameters, device)
    if outputs is not None:
        # What has no deterministic algorithm must not stop the run: the comparison will tell.
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(parameters.seed)
    session = Session(
        parameters,
        device,
        compare=outputs is not None,
        capture=capture,
        torch_trace=torch_trace,
        max_seconds=max_seconds,
        progress=lambda line: click.echo(f"{entry.name}: {line}", err=True),
    )
    started = datetime.datetime.now(datetime.UTC)
    try:
        checked = outputs is not None and entry.workload.compared
        with device.checked() if checked else contextlib.nullcontext():
            module.run(session)
    except GateError as error:
        raise GateError(f"{entry.name}: {error}", hint=error.hint) from error
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"{entry.name} ran out of GPU memory: {str(error).split('. ')[0]}",
            hint=f"try --batch-size {max(1, parameters.batch_size // 2)}",
        ) from error
    if outputs is not None:
        with outputs.open("wb") as file:
            np.savez(file, **cast("dict[str, Any]", session.outputs.arrays()))
    steps = session.measured_steps
    return {
        **record_of(entry, parameters),
        "profiled": capture or torch_trace is not None,
        "started": started.isoformat(timespec="seconds"),
        "steps": steps,
        "seconds": session.seconds,
        "steps_per_second": steps / session.seconds,
        "samples_per_second": steps * parameters.batch_size / session.seconds,
        "gpu_peak_bytes": _peak(torch, device),
        **environment(torch, device.torch),
    }


def environment(torch: Any, device: Any) -> dict[str, Any]:
    """What the figures depend on; None for what is not there or cannot be found out."""
    cuda = device.type == "cuda"
    return {
        "gpu": torch.cuda.get_device_name(device) if cuda else None,
        "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        if cuda
        else None,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }


def _output(*command: str) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    lines = done.stdout.splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def _peak(torch: Any, device: Any) -> int | None:
    return torch.cuda.max_memory_allocated(device.torch) if device.torch.type == "cuda" else None


def _module(entry: registry.Entry) -> Any:
    if entry.builtin:
        return importlib.import_module(f"workloads.ladders.{entry.path.parent.name}.{entry.name}")
    spec = importlib.util.spec_from_file_location(entry.name, entry.path)
    if spec is None or spec.loader is None:
        raise InputError(f"{entry.path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[entry.name] = module
    spec.loader.exec_module(module)
    return module


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name")
@options.options()
@click.option("--capture", is_flag=True, help="Mark the measured steps as the capture range.")
@click.option("--outputs", type=click.Path(path_type=Path), help="Keep the outputs in this .npz.")
@click.option(
    "--torch-trace", type=click.Path(path_type=Path), help="Record with PyTorch Profiler."
)
@click.option("--max-seconds", type=float, help="End the measured steps early.")
@click.option("--record", type=click.Path(path_type=Path), help="Write the run's record (JSON).")
def main(
    name: str,
    capture: bool,
    outputs: Path | None,
    torch_trace: Path | None,
    max_seconds: float | None,
    record: Path | None,
    **given: Any,
) -> None:
    """Run the workload NAME in this process."""
    try:
        entry = registry.find(name)
        parameters = options.Parameters.of(entry.workload.defaults, given)
        result = execute(
            entry,
            parameters,
            capture=capture,
            outputs=outputs,
            torch_trace=torch_trace,
            max_seconds=max_seconds,
        )
    except LabError as error:
        if record is not None:  # whoever asked for it will say
            failure = {"error": str(error), "hint": error.hint, "exit_code": error.exit_code}
            record.write_text(json.dumps({"schema": SCHEMA, "failure": failure}), encoding="utf-8")
        else:
            click.echo(f"nsyslab: {error}", err=True)
            if error.hint:
                click.echo(f"  {error.hint}", err=True)
        sys.exit(error.exit_code)
    click.echo(
        f"{entry.name}: {result['steps']} steps in {result['seconds']:.2f} s, "
        f"{result['steps_per_second']:.2f} steps/s"
    )
    if record is not None:
        record.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
