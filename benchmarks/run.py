"""Time and memory of the whole command on large traces, against nsys and a bare scan.

Each figure is a process of its own, from start to exit, all in one run: compare the ratios, not the
seconds. See benchmarks/README.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

GENERATE = Path(__file__).with_name("generate.py")
SCAN = Path(__file__).with_name("scan.py")


@dataclass(frozen=True)
class Figure:
    """One process: wall-clock seconds, CPU seconds, peak memory in MB."""

    wall: float
    cpu: float
    peak_mb: float


def measure(command: list[str]) -> Figure:
    """Run a command to its end.

    Raises:
        click.ClickException: It failed.
    """
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        tail = output.read()[-500:].decode(errors="replace").strip()
        # nsys exits with 0 when a rule is unknown to it, or fails for want of a module.
        if process.returncode or "ERROR: Report" in tail:
            raise click.ClickException(f"{command[0]} exits with {process.returncode}: {tail}")
    return Figure(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def best(command: list[str], runs: int) -> Figure:
    """The fastest of several runs."""
    return min((measure(command) for _ in range(runs)), key=lambda figure: figure.wall)


def gaps_rule(nsys: str) -> str | None:
    """What that nsys calls its rule for gaps: gpu-starv up to 2022.4, gpu_gaps since 2023.1."""
    command = [nsys, "analyze", "--help-rules"]
    rules = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return next((rule for rule in ("gpu_gaps", "gpu-starv") if f"  {rule}[" in rules), None)


@click.command()
@click.option("--large", is_flag=True, help="Ten million kernels too (1.3 GB on disk).")
@click.option("--runs", default=3, help="The fastest of so many counts.")
def main(large: bool, runs: int) -> None:
    """Print time and memory of `nsyslab analyze --format json` and what it compares to."""
    nsys = os.environ.get("NSYS") or shutil.which("nsys")
    rule = gaps_rule(nsys) if nsys else None
    analysed: dict[int, Figure] = {}
    with tempfile.TemporaryDirectory(prefix="nsyslab-bench-") as name:
        for kernels in (1_000_000, 10_000_000) if large else (1_000_000,):
            trace = Path(name) / f"{kernels}.sqlite"
            subprocess.run(
                [sys.executable, str(GENERATE), str(trace), "--kernels", str(kernels)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            click.echo(
                f"{kernels:,} kernels and as many API calls, {trace.stat().st_size / 1e6:,.0f} MB"
            )
            rows = {
                "nsyslab analyze --format json": [
                    sys.executable, "-m", "analysis", "analyze", str(trace), "--format", "json",
                ],
                "bare scan of its columns": [sys.executable, str(SCAN), str(trace)],
            }  # fmt: skip
            if nsys and rule:
                rows[f"nsys analyze --rule {rule}"] = [
                    nsys, "analyze", "--rule", rule, "--format", "csv", str(trace),
                ]  # fmt: skip
            figures: dict[str, Figure] = {}
            for label, command in rows.items():
                try:
                    figures[label] = best(command, runs)
                except click.ClickException as error:
                    click.echo(f"  {label}: {error.message}")
                    continue
                figure = figures[label]
                click.echo(
                    f"  {label:32} {figure.wall:7.2f} s wall {figure.cpu:7.2f} s CPU"
                    f" {figure.peak_mb:8,.0f} MB"
                )
            mine = figures["nsyslab analyze --format json"]
            analysed[kernels] = mine
            for label, figure in figures.items():
                if figure is not mine:
                    click.echo(f"  {mine.wall / figure.wall:.2f} times the {label}")
            if not rule:
                lack = "has no rule for gaps" if nsys else "is not installed"
                click.echo(f"  nsys {lack}: nothing to compare with")
    if len(analysed) == 2:
        small, big = analysed.values()
        click.echo(f"ten times the kernels: {big.wall / small.wall:.1f} times as long")


if __name__ == "__main__":
    main()
