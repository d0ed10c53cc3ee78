"""Size of the page and time to write it, for traces of some sizes.

    python -m benchmarks.pages

Each figure is the fastest of three processes, from start to exit; --format json beside it tells
what the page costs on top of the analysis.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from benchmarks.generate import generate
from benchmarks.run import best

SIZES = (1_000, 100_000, 1_000_000)
RUNS = 3


@click.command()
@click.option("--sizes", multiple=True, type=int, default=SIZES, help="Kernels of a trace.")
def main(sizes: tuple[int, ...]) -> None:
    """Print a table."""
    click.echo("| kernels | page | html | json | html, peak memory |")
    click.echo("|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            trace, page = Path(folder, f"{size}.sqlite"), Path(folder, "report")
            generate(trace, kernels=size, seed=0)
            command = [sys.executable, "-m", "analysis", "analyze", str(trace), "--force",
                       "--output", str(page), "--format"]  # fmt: skip
            json = best([*command, "json"], RUNS)
            html = best([*command, "html"], RUNS)
            click.echo(
                f"| {size:,} | {page.stat().st_size / 1e6:.2f} MB | {html.wall:.2f} s "
                f"| {json.wall:.2f} s | {html.peak_mb:,.0f} MB |"
            )


if __name__ == "__main__":
    main()
