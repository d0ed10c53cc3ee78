"""Starts external tools so that none of their processes outlives them.

Every tool runs under `analysis.nsys.supervise`, which inherits the orphans of the tool and ends
them all: on success, on a timeout, on Ctrl-C, and also when this process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import ToolError
from analysis.nsys import supervise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TAIL_BYTES = 64 * 1024
GRACE_S = 3.0
#: What a tool may take to answer a question on itself, on a busy machine.
PROBE_S = 30.0
# Less than any report takes.
_NO_SPACE_BYTES = 128 * 1024
_DISK_FULL = re.compile(
    # The last two are what nsys makes of it when its stream cannot grow.
    r"No space left on device|database or disk is full|Disk quota exceeded|Invalid truncate size|"
    r"serializeProtobufToStream"
)
_BOOST_MESSAGE = re.compile(r"tag_message\*\] = (.+)")
# Parts of a C++ exception's report, and progress bars, that say nothing to a user.
_NOISE = re.compile(
    r"^\[.*\] = |^(Dynamic exception type|std::exception::what)|^\[?\w*.*\[=*\s*\d+%|"
    r"^Generating '"
)


@dataclass(frozen=True)
class Finished:
    """How a tool ended.

    Attributes:
        exit_code: Its exit status, 128 + signal when a signal ended it.
        tail: The end of what it wrote to stdout and stderr, in order.
        seconds: How long it ran.
        left: Names of processes that outlived it and were ended.
        timed_out: It was ended because its time was up; `exit_code` is then 124.
    """

    exit_code: int
    tail: bytes
    seconds: float
    left: tuple[str, ...]
    timed_out: bool

    @property
    def text(self) -> str:
        """The tail as text, with the last state of each line that a progress bar overwrote."""
        lines = self.tail.decode(errors="replace").split("\n")
        return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines).strip()

    @property
    def reason(self) -> str:
        """What it says went wrong, in one line: its message, without the C++ around it."""
        message = _BOOST_MESSAGE.search(self.text)
        if message:
            return message[1].strip()
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        told = [line for line in lines if not _NOISE.search(line)]
        return told[-1] if told else f"exit code {self.exit_code}, and no message"


def says_disk_full(text: str, folder: Path) -> bool:
    """Whether a tool failed for want of space: by its message, or because there is none.

    nsys itself reports a full disk as a failed truncate or serialisation.
    """
    if _DISK_FULL.search(text):
        return True
    return shutil.disk_usage(folder).free < _NO_SPACE_BYTES


def run(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    on_output: Callable[[bytes], None] | None = None,
    alone: bool = False,
    own_shm: bool = False,
) -> Finished:
    """Run a command to its end and leave no process of it behind.

    Args:
        command: Program and arguments; no shell is involved.
        env: Its whole environment; this process's if None.
        timeout_s: Seconds after which it is ended; None for no limit.
        on_output: Called with each piece of output as it comes.
        alone: Let it see no other processes of the machine, where that is possible.
        own_shm: Give it a /dev/shm of its own, too, if it is alone.

    Returns:
        How it ended. A program that cannot be started ends with 127 and the reason in `tail`.

    Raises:
        KeyboardInterrupt: On Ctrl-C, after all processes of the command have been ended.
        ToolError: Some of its processes could not be ended.
    """
    control_read, control_write = os.pipe()
    status_read, status_write = os.pipe()
    # In a session of its own the program can't read from the terminal; anything else stays.
    stdin = subprocess.DEVNULL if sys.stdin is None or sys.stdin.closed or _is_tty(0) else None
    supervisor_command = [
        sys.executable,
        *("-I", "-S", str(Path(supervise.__file__))),
        *(str(control_read), str(status_write), str(GRACE_S), str(alone + (alone and own_shm))),
        *(os.fspath(part) for part in command),
    ]
    begin = time.monotonic()
    try:
        supervisor = subprocess.Popen(
            supervisor_command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            pass_fds=(control_read, status_write, *_given()),
            start_new_session=True,
        )
    except BaseException:
        os.close(control_write)
        os.close(status_read)
        raise
    finally:
        os.close(control_read)
        os.close(status_write)
    timed_out = False
    tail = bytearray()
    try:
        deadline = None if timeout_s is None else begin + timeout_s
        timed_out = _pump(supervisor, tail, deadline, on_output)
    finally:
        os.close(control_write)
        _wait(supervisor)
        if supervisor.stdout is not None:
            tail += supervisor.stdout.read()
            supervisor.stdout.close()
        with os.fdopen(status_read, "rb") as stream:
            status = stream.read()
    return _finished(command, status, bytes(tail[-TAIL_BYTES:]), begin, timed_out)


def _given() -> list[int]:
    """Files that this process was started with: MPICH gives its ranks one, a shell may (3>log)."""
    given = []
    for entry in Path("/proc/self/fd").iterdir():
        # What Python opens is not inheritable. One is gone by now: the folder, to be listed.
        with contextlib.suppress(OSError):
            if int(entry.name) > 2 and os.get_inheritable(int(entry.name)):
                given.append(int(entry.name))
    return given


def _is_tty(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return True


def _pump(
    supervisor: subprocess.Popen[bytes],
    tail: bytearray,
    deadline: float | None,
    on_output: Callable[[bytes], None] | None,
) -> bool:
    """Read the output until its end; True when the deadline came first."""
    assert supervisor.stdout is not None  # noqa: S101 - Popen was given a pipe
    with selectors.DefaultSelector() as selector:
        selector.register(supervisor.stdout, selectors.EVENT_READ)
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return True
            if not selector.select(left):
                continue
            piece = os.read(supervisor.stdout.fileno(), 1 << 16)
            if not piece:
                return False
            tail += piece
            del tail[: -2 * TAIL_BYTES]
            if on_output is not None:
                on_output(piece)


def _wait(supervisor: subprocess.Popen[bytes]) -> None:
    """Wait for the supervisor, whatever the user presses: it ends within seconds."""
    interrupted = False
    while True:
        try:
            supervisor.wait()
            break
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt


def _finished(
    command: Sequence[str | Path],
    status: bytes,
    tail: bytes,
    begin: float,
    timed_out: bool,
) -> Finished:
    name = Path(command[0]).name
    if not status:
        raise ToolError(
            f"the supervisor of {name} ended before {name} did: "
            f"{tail.decode(errors='replace').strip() or 'no output'}",
            hint="processes of it may still run; look with `ps`",
        )
    report = json.loads(status)
    if report["alive"]:
        raise ToolError(
            f"processes of {name} could not be ended: {', '.join(report['alive'])}",
            hint="end them by hand; a process stuck in the GPU driver may need a reboot",
        )
    return Finished(
        exit_code=124 if timed_out else int(report["code"]),
        tail=tail,
        seconds=time.monotonic() - begin,
        left=tuple(report["left"]),
        timed_out=timed_out,
    )
