"""Tells what a recorded program writes from what nsys writes between."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# A carriage return begins a piece: progress bars write "\r 10 %" and leave the line open.
_PIECE = re.compile(rb"\r?[^\r\n]*\n?")
_PROGRESS = re.compile(rb"\r?\[\d+/\d+\] \[.*%")
_REMARK = re.compile(rb"\r?(?:Generated:$|Importer error status: |Unable to retrieve the importer)")
# Behind whatever the program has left of its last line.
_GENERATING = re.compile(rb"Generating '[^\r\n]*\n?")
# What may become a remark of nsys when the rest of the line comes.
_BEGINNING = re.compile(rb"\r?(?:\Z|\[\d|Gen|Importer|Unable|    )")
# Longer than any remark, which names a file at most.
_LONGEST = 8192


class ProgramOutput:
    """Takes the joint output as it comes, and passes on what is the program's.

    nsys names its files, which are not where it says for long, and draws progress bars.

    Args:
        scratch: The folder that nsys writes to; no program knows it.
        on_output: Gets the program's output as it comes.
        on_nsys: Gets nsys' progress bars.
    """

    def __init__(
        self,
        scratch: Path,
        on_output: Callable[[bytes], None],
        on_nsys: Callable[[bytes], None] | None = None,
    ) -> None:
        self._scratch = os.fsencode(scratch)
        self._on_output = on_output
        self._on_nsys = on_nsys
        self._held = b""

    def feed(self, output: bytes) -> None:
        """Take the next piece of output, cut anywhere."""
        pieces = [piece for piece in _PIECE.findall(self._held + output) if piece]
        last = pieces.pop() if pieces and not pieces[-1].endswith(b"\n") else b""
        self._pass_on(pieces)
        self._held = last
        may_be_nsys = _BEGINNING.match(last) or b"Generating '" in last
        if not may_be_nsys or len(last) > _LONGEST:
            self.close()

    def close(self) -> None:
        """Pass on what was held back."""
        held, self._held = self._held, b""
        self._pass_on([held])

    def _pass_on(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            if _PROGRESS.match(piece):
                if self._on_nsys is not None:
                    self._on_nsys(piece)
            elif not _REMARK.match(piece):
                kept = _GENERATING.sub(b"", piece) if self._scratch in piece else piece
                if kept and self._scratch not in kept:
                    self._on_output(kept)


def of_program(output: bytes, scratch: Path) -> bytes:
    """What of the whole output of a recording is the program's, see `ProgramOutput`."""
    kept: list[bytes] = []
    reader = ProgramOutput(scratch, kept.append)
    reader.feed(output)
    reader.close()
    return b"".join(kept)
