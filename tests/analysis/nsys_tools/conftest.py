"""A real recording for the tests of the tools around nsys, and places that are hard to write to."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.nsys.record import Recording, record

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(__file__).parents[2] / "programs"
MUNMAP_STALL = (sys.executable, str(PROGRAMS / "munmap_stall.py"))
CPU = ("osrt", "nvtx")


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """munmap_stall.py, recorded with the nsys of this machine. Not to be written to."""
    folder = tmp_path_factory.mktemp("recording")
    return record(MUNMAP_STALL, folder=folder, name="stall", trace=CPU)


@pytest.fixture
def report(recording: Recording, tmp_path: Path) -> Path:
    """A copy of the recording's report, alone in a folder."""
    return Path(shutil.copy2(recording.report, tmp_path / "stall.nsys-rep"))


def processes_with(word: str) -> list[int]:
    """Ids of the live processes that have a word in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def wait_until(count: int, word: str, seconds: float = 30.0) -> list[int]:
    """Wait until so many processes have the word; fails when they do not."""
    limit = time.monotonic() + seconds
    while len(found := processes_with(word)) != count:
        assert time.monotonic() < limit, f"{len(found)} instead of {count} processes with {word}"
        time.sleep(0.05)
    return found


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that can't be written to, not even by root."""
    if os.geteuid():
        mode = folder.stat().st_mode
        folder.chmod(0o555)
        try:
            yield
        finally:
            folder.chmod(mode)
        return
    _mount("--bind", str(folder), str(folder))
    try:
        _mount("-o", "remount,bind,ro", str(folder))
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextlib.contextmanager
def small_disk(folder: Path, size: str, *options: str) -> Iterator[Path]:
    """A disk of its own in a new folder."""
    folder.mkdir()
    _mount("-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
