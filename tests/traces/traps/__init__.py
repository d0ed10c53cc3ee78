"""One small trace for each thing that real exports hold and a careless reader gets wrong.

Every fixture states its input and, beside it, what the report must say, worked out by hand from
docs/definitions.md. Most have the same skeleton, kernels A and B on one GPU and an idle gap of
100 ns between them:

    0    80  90 100       200   250 260   300       400
         [call ] [---- A ---]    [call]    [--- B ---]

Process 100, thread 100 does everything unless the fixture says otherwise.
"""

from tests.traces.traps import activities, devices, gaps, ranges, tables, text, waits, windows
from tests.traces.traps.registry import TRAPS, Trap

__all__ = [
    "TRAPS",
    "Trap",
    "activities",
    "devices",
    "gaps",
    "ranges",
    "tables",
    "text",
    "waits",
    "windows",
]
