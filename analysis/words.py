"""Causes of idle time, places and recordings in words: the same wherever they are named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

#: Where a thread is that is inside no NVTX range.
OUTSIDE = "outside any range"

_ALONE = {"host": "host code", "unknown": "unknown"}
_WITH_NAME = {"overhead": "profiler overhead", "queued": "queued work waits", "launch": "launch"}


def cause_text(cause: str, name: str | None, via: str | None = None) -> str:
    """A cause of idle time: "munmap", "cudaFree via ioctl", "launch (cudaLaunchKernel)".

    Args:
        cause: One of `analysis.metrics.attribution.CAUSES`.
        name: Of the call or the overhead; None leaves it out.
        via: The call inside that.
    """
    kind = _WITH_NAME.get(cause)
    if cause in _ALONE:
        text = _ALONE[cause]
    elif kind and name:
        text = f"{kind} ({name})"
    else:
        text = kind or name or cause
    return f"{text} via {via}" if via else text


def at(place: str) -> str:
    """An NVTX path in a sentence: "in Batch # / alpha", "outside any range"."""
    return place if place == OUTSIDE else f"in {place}"


def short_names(paths: Sequence[str]) -> list[str]:
    """What files or folders are called beside each other.

    Returns:
        Their names without folder and ending; the whole path of those that share such a name.
    """
    stems = [PurePath(path).stem for path in paths]
    return [
        stem if stems.count(stem) == 1 else path for stem, path in zip(stems, paths, strict=True)
    ]
