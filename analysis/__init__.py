"""Post-processing of Nsight Systems reports: where the GPU time went, and why the GPU waited.

import analysis

report = analysis.analyze("reports/d2h_workers/d2h_workers.nsys-rep")
trace = analysis.load("trace.sqlite")
trace.frame("kernels")  # pandas
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.report import Options, Report
    from analysis.trace import Trace

__version__ = "0.1.0"

__all__ = ["__version__", "analyze", "load"]


def load(path: str | PathLike[str]) -> Trace:
    """Read a recording.

    Args:
        path: An SQLite export, or a ``.nsys-rep`` report, which is exported first.

    Raises:
        InputError: The file cannot be read.
        ToolError: A report has to be exported and nsys is missing or fails.
    """
    from pathlib import Path

    from analysis.nsys.recording import open_recording

    return open_recording(Path(path))[0]


def analyze(source: str | PathLike[str] | Trace, options: Options | None = None) -> Report:
    """Analyse a recording.

    Args:
        source: A file, as for `load`, or a trace that `load` gave.
        options: What is wanted; the whole trace if None.

    Raises:
        InputError: The file cannot be read, or the options contradict the trace.
        NotTracedError: What the options ask for was not traced.
        ToolError: A report has to be exported and nsys is missing or fails.
    """
    from analysis.build import build
    from analysis.trace import Trace

    return build(source if isinstance(source, Trace) else load(source), options)
