"""Runs one command and ends every process that came of it: children, orphans and daemons.

A program of its own (``python -I -S supervise.py CONTROL STATUS GRACE ALONE COMMAND...``) because
Linux gives the orphans of a process tree to the nearest ancestor that asks for them, and that one
must have no other children. `analysis.nsys.process` starts it: CONTROL is the read end of a pipe
that closes when the command is to end, or when the starter has died; STATUS gets one JSON object.

With ALONE = 1 or 2 the command sees no other processes of the machine, where that can be had: nsys
stores the environment of every process that it can read, and with it the credentials in them. It
then runs in a PID namespace, which takes CAP_SYS_ADMIN. With 2 its /dev/shm is its own, too: nsys
before 2023.4 keeps the state of all recordings of a machine there, and takes those of another
namespace for dead.

nsys itself waits for every orphan of the program it records, for ever if need be. Here the orphans
get GRACE seconds after the program's end, are then ended, and nsys writes its report.

It imports only the standard library and nothing of this project, so that it starts in a few
milliseconds and works under any environment.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
CLONE_NEWNS = 0x00020000  # <linux/sched.h>
CLONE_NEWPID = 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000  # <linux/mount.h>
POLL_S = 0.05
# While the program runs, seldom enough not to disturb what is being measured.
WATCH_S = 0.25
# The process of nsys whose child is the recorded program, in every version since 2020.
LAUNCHER = "nsys-launcher"
# nsys' own agent outlives nsys by a few tens of milliseconds when all is well.
SETTLE_S = 2.0
# Only a process of another user, or one stuck in a driver, survives SIGKILL for long.
KILL_LIMIT_S = 10.0


def processes() -> dict[int, list[tuple[int, str]]]:
    """The (pid, command name) of the live children of every process."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs more than the scan
        if not entry.isdigit():
            continue
        try:
            stat = Path(f"/proc/{entry}/stat").read_bytes()
        except OSError:  # gone in the meantime
            continue
        # pid (command) state ppid ...; the command may hold blanks and parentheses.
        head, _, tail = stat.rpartition(b")")
        name = head.partition(b"(")[2].decode(errors="replace")
        state, ppid = tail.split()[:2]
        if state != b"Z":
            children.setdefault(int(ppid), []).append((int(entry), name))
    return children


def below(ancestor: int) -> dict[int, str]:
    """All live processes below `ancestor`: pid to command name, parents before children."""
    children = processes()
    return _closure(children.get(ancestor, []), children)


def _closure(
    roots: list[tuple[int, str]], children: dict[int, list[tuple[int, str]]]
) -> dict[int, str]:
    found: dict[int, str] = {}
    queue = list(roots)
    while queue:
        pid, name = queue.pop(0)
        found[pid] = name
        queue += children.get(pid, [])
    return found


class Program:
    """The program that nsys records, once nsys has started it; seen from outside."""

    def __init__(self) -> None:
        self.launcher: int | None = None
        self.pid: int | None = None
        self.ended_at: float | None = None

    def look(self) -> None:
        """Notice that the program has started, or ended."""
        if self.pid is None:
            for pid, name in below(os.getpid()).items():
                if name == LAUNCHER:
                    started = [
                        child for child, of in below(pid).items() if not of.startswith("nsys")
                    ]
                    if started:
                        self.launcher, self.pid = pid, started[0]
                        return
        elif self.ended_at is None and not alive(self.pid):
            self.ended_at = time.monotonic()

    def orphans(self) -> dict[int, str]:
        """What the program left behind. Tools that nsys runs by itself are not among it.

        Orphans are the launcher's children, or ours when it has ended; nsys' importer is a child
        of nsys.
        """
        if self.launcher is None or self.ended_at is None:
            return {}
        children = processes()
        roots = children.get(self.launcher, []) + children.get(os.getpid(), [])
        return _closure([root for root in roots if not root[1].startswith("nsys")], children)


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to each that still exists and is ours to end."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


class Tree:
    """The supervised command and whatever it started."""

    def __init__(
        self, command: list[str], environment: dict[bytes, bytes], close_in_child: list[int]
    ) -> None:
        self.code: int | None = None
        self.main = os.fork()
        if self.main == 0:
            for fd in close_in_child:
                os.close(fd)
            try:
                os.execvpe(command[0], command, environment)  # noqa: S606 - no shell is the point
            except OSError as error:
                sys.stderr.write(f"{command[0]}: {error.strerror}\n")
                os._exit(127)

    def reap(self) -> bool:
        """Collect the dead; False when no child is left, and with that no descendant at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.main:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code

    def settle(self, seconds: float) -> bool:
        """Wait for the end of all; True when nothing is left."""
        limit = time.monotonic() + seconds
        while self.reap():
            if time.monotonic() >= limit:
                return False
            time.sleep(POLL_S)
        return True

    def end(self, grace: float) -> bool:
        """Terminate all, politely at first; False when some would not die."""
        signal_all(below(os.getpid()), signal.SIGTERM)
        if self.settle(grace):
            return True
        # A process that forks while we look is caught in the next round.
        limit = time.monotonic() + KILL_LIMIT_S
        while time.monotonic() < limit:
            signal_all(below(os.getpid()), signal.SIGKILL)
            if self.settle(POLL_S * 4):
                return True
        return False


def watch(tree: Tree, control: int, grace: float) -> dict[int, str]:
    """Wait for the command's end, or for the word to end it; returns the orphans ended so far."""
    program = Program()
    ended: dict[int, str] = {}
    while tree.reap() and tree.code is None:
        pause = POLL_S if program.pid is None or program.ended_at is not None else WATCH_S
        # Readable means closed: whoever started us wants the end, or is dead.
        if select.select([control], [], [], pause)[0]:
            break
        program.look()
        if program.ended_at is not None:
            waited = time.monotonic() - program.ended_at
            if waited >= grace:
                orphans = program.orphans()
                signal_all(orphans, signal.SIGTERM if waited < 2 * grace else signal.SIGKILL)
                ended.update(orphans)
    return ended


def become_alone(*, own_shm: bool) -> bool:
    """Move into a PID namespace with a /proc of its own; False where that is not possible.

    On success this process is the namespace's first one, and the process it was waits for it and
    then exits.
    """
    # Half of it would be worse than nothing, so a child tries first.
    if not _exits_with_0(lambda: _unshare() and _exits_with_0(lambda: _settle_in(own_shm))):
        return False
    if not _unshare():
        return False
    first = os.fork()
    if first:
        # Only the first process keeps the descriptors, so that their closing means its end.
        os.close(int(sys.argv[1]))
        os.close(int(sys.argv[2]))
        os.waitpid(first, 0)
        os._exit(0)
    return _settle_in(own_shm)


def _exits_with_0(action: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0 if action() else 1)
    return os.waitpid(child, 0)[1] == 0


def _unshare() -> bool:
    return bool(ctypes.CDLL(None).unshare(CLONE_NEWPID | CLONE_NEWNS) == 0)


def _settle_in(own_shm: bool) -> bool:
    """Give the namespace its /proc, and process ids that no other has."""
    return _mount_proc() and _spread_ids() and (not own_shm or _mount_shm())


def _spread_ids() -> bool:
    # nsys names semaphores and shared memory, which all namespaces share, by process id: two
    # recordings at once must not both be process 18.
    try:
        highest = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
        below_it = highest // 2 + int.from_bytes(os.urandom(4), "little") % (highest // 2 - 4096)
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(below_it), encoding="ascii")
    except OSError:
        return False
    return True


def _mount_shm() -> bool:
    shm = "/dev/shm"  # noqa: S108 - what shm_open uses
    if not os.path.isdir(shm):  # noqa: PTH112
        return True
    size = os.statvfs(shm).f_blocks * os.statvfs(shm).f_frsize
    options = f"size={size},mode=1777".encode()
    flags = MS_NOSUID | MS_NODEV
    return bool(ctypes.CDLL(None).mount(b"tmpfs", shm.encode(), b"tmpfs", flags, options) == 0)


def _mount_proc() -> bool:
    libc = ctypes.CDLL(None)
    # Without this the mount would show up outside, too.
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return False
    return bool(libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None) == 0)


def main() -> int:
    """Supervise; the exit status says nothing, the status descriptor does."""
    control, status, grace = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    # Python adds LC_CTYPE to the environment of the C locale; here it is as it was given.
    given = Path("/proc/self/environ").read_bytes().split(b"\0")
    environment = dict(entry.split(b"=", 1) for entry in given if b"=" in entry)
    if sys.argv[4] != "0":
        become_alone(own_shm=sys.argv[4] == "2")
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    tree = Tree(sys.argv[5:], environment, [control, status])
    left = watch(tree, control, grace)
    if tree.code is not None and not tree.settle(SETTLE_S):
        # nsys' agent may be slow to go; it is no concern of the user's.
        outlived = below(os.getpid()).items()
        left.update({pid: name for pid, name in outlived if not name.startswith("nsys")})
    stuck = {} if tree.end(grace) else below(os.getpid())
    with contextlib.suppress(BrokenPipeError):
        report = {
            "code": tree.code,
            "left": sorted(left.values()),
            "alive": [f"{name} ({pid})" for pid, name in sorted(stuck.items())],
        }
        os.write(status, json.dumps(report).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
