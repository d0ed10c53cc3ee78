"""What was recorded, as typed and frozen tables; nothing here knows where it came from."""

from analysis.trace.model import (
    COPY_DIRECTIONS,
    MEMORY_KINDS,
    ApiCalls,
    Copies,
    Device,
    Gpu,
    Kernels,
    Memsets,
    OsCalls,
    Overheads,
    Process,
    Provenance,
    Ranges,
    Thread,
    Trace,
)

__all__ = [
    "COPY_DIRECTIONS",
    "MEMORY_KINDS",
    "ApiCalls",
    "Copies",
    "Device",
    "Gpu",
    "Kernels",
    "Memsets",
    "OsCalls",
    "Overheads",
    "Process",
    "Provenance",
    "Ranges",
    "Thread",
    "Trace",
]
