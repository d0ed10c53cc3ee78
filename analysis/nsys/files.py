"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def staging(folder: Path, label: str) -> Iterator[Path]:
    """A hidden folder inside `folder`, on the same disk, that is gone afterwards.

    What is worth keeping is renamed out of it; a failure or Ctrl-C leaves nothing.

    Raises:
        OSError: `folder` cannot be written to.
    """
    path = Path(tempfile.mkdtemp(prefix=f".{label}.", dir=folder)).resolve()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def refuse_existing(paths: list[Path], *, force: bool) -> None:
    """Stop before anything is overwritten.

    Raises:
        InputError: One of them exists, and `force` is not set.
    """
    existing = [str(path) for path in paths if path.exists()]
    if existing and not force:
        raise InputError(
            f"{existing[0]} exists already",
            hint="choose another name, or replace it with --force",
        )


def disk_full(folder: Path, what: str) -> InputError:
    """The error for a disk that filled up while `what` was being made."""
    return InputError(
        f"the disk of {folder} is full: {what} was not made",
        hint="free some space or choose another folder; nothing was left half written",
    )
