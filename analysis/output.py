"""Writing results: whole or not at all, and never over something of the user's."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from analysis.errors import InputError


def write_output(path: Path, content: str | bytes, *, force: bool = False) -> None:
    """Write a file beside its place and rename it into it.

    Args:
        path: Where to.
        content: Text (written as UTF-8) or bytes.
        force: Whether an existing file may be replaced.

    Raises:
        InputError: The file exists, or the folder cannot be written to.
        OSError: The disk is full; nothing is left behind.
    """
    check_output(path, force=force)
    if path.exists() and not path.is_file():
        # A device or a pipe (/dev/stdout, /dev/null): written to, never replaced.
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return
    data = (
        content.encode("utf-8", errors="backslashreplace") if isinstance(content, str) else content
    )
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        beside.chmod(0o666 & ~mask)
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
        raise


def check_output(path: Path, *, force: bool) -> None:
    """Fail early, before the work is done, where `write_output` would.

    Raises:
        InputError: As `write_output`.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder", hint="name a file in it")
    if path.is_file() and not force:
        raise InputError(f"{path} exists", hint="--force replaces it")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder", hint=f"try: mkdir -p {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise InputError(
            f"{path.parent} cannot be written to: permission denied",
            hint="choose another place with --output",
        )
