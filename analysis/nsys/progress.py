"""Reads the progress bars of nsys' tools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# "Exporting 200 events: [==40%     ]": a carriage return, a bar, a number.
_PERCENT = re.compile(rb"\[[=\s]*(\d{1,3})%")


def percent(on_status: Callable[[str], None] | None, label: str) -> Callable[[bytes], None] | None:
    """A sink for a tool's output that passes on how far it is, as "label: 40 %"."""
    if on_status is None:
        return None
    last = -1

    def sink(piece: bytes) -> None:
        nonlocal last
        found = _PERCENT.findall(piece)
        if found and int(found[-1]) != last:
            last = int(found[-1])
            on_status(f"{label}: {last} %")

    return sink
