"""No process outlives the tool that started it, however it ends. Needs no nsys."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from analysis.nsys import process

from .conftest import PROGRAMS, processes_with, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The program, its two children, the one that does not listen, and two daemons.
FAMILY = 6


@pytest.fixture
def word() -> Iterator[str]:
    """Marks the processes of a test; whatever is left of them is ended."""
    word = f"nsyslab-test-{uuid.uuid4()}"
    yield word
    for pid in processes_with(word):
        os.kill(pid, signal.SIGKILL)


def family(word: str, seconds: float) -> list[str]:
    return [sys.executable, str(PROGRAMS / "leaves_children.py"), word, str(seconds)]


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("import os; os.kill(os.getpid(), 11)", 139),
        ("import os; os.kill(os.getpid(), 9)", 137),
    ],
)
@pytest.mark.parametrize("alone", [False, True])
def test_exit_code(code: str, exit_code: int, alone: bool) -> None:
    assert process.run([sys.executable, "-c", code], alone=alone).exit_code == exit_code


def test_a_program_that_is_not_there() -> None:
    done = process.run(["/nowhere/nsys"])
    assert done.exit_code == 127
    assert "No such file or directory" in done.text


def test_output_comes_in_order_and_the_end_is_kept() -> None:
    pieces: list[bytes] = []
    code = (
        "import sys\n"
        "for i in range(20000):\n"
        "    print(i, file=sys.stderr if i % 2 else sys.stdout, flush=True)"
    )
    done = process.run([sys.executable, "-c", code], on_output=pieces.append)
    assert b"".join(pieces) == b"".join(b"%d\n" % i for i in range(20000))
    assert done.text.splitlines()[-1] == "19999"
    assert len(done.tail) <= process.TAIL_BYTES


def test_progress_bars_leave_their_last_state() -> None:
    done = process.run(["printf", r"start\n[=10%%]\r[==50%%]\r[===100%%]\r\nend\n"])
    assert done.text == "start\n[===100%]\nend"


def test_the_environment_is_what_was_given() -> None:
    done = process.run(["/usr/bin/env"], env={"ONLY": "this"})
    assert done.text == "ONLY=this"


@pytest.mark.parametrize("alone", [False, True])
def test_files_that_are_there_to_be_inherited_are(alone: bool) -> None:
    """As the one by which a rank of MPICH talks to its launcher."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    code = f"import os; os.write({write}, b'here'); os.fstat({read})"
    done = process.run([sys.executable, "-c", code], alone=alone)
    os.close(write)
    assert os.read(read, 10) == b"here"
    os.close(read)
    assert "Bad file descriptor" in done.text


@pytest.mark.parametrize("alone", [False, True])
def test_what_outlives_the_program_is_ended_and_named(word: str, alone: bool) -> None:
    done = process.run(family(word, 0.2), alone=alone)
    assert (done.exit_code, done.timed_out) == (0, False)
    assert len(done.left) == FAMILY - 1
    assert processes_with(word) == []


@pytest.mark.parametrize("alone", [False, True])
def test_timeout(word: str, alone: bool) -> None:
    seen: list[int] = []

    def count(piece: bytes) -> None:
        if b"started" in piece:
            seen.append(len(processes_with(word)))

    begin = time.monotonic()
    done = process.run(family(word, 300), timeout_s=4, alone=alone, on_output=count)
    assert (done.exit_code, done.timed_out) == (124, True)
    assert time.monotonic() - begin < 4 + process.GRACE_S + 5
    # All of them were there, and the supervisor, which has the command line too.
    assert seen[0] >= FAMILY
    assert processes_with(word) == []


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_starter_is_ended(word: str, number: signal.Signals, alone: bool) -> None:
    code = textwrap.dedent(f"""
        import sys
        from analysis.nsys import process
        try:
            process.run({family("WORD", 300)!r}[:2] + [sys.stdin.read(), "300"], alone={alone})
        except KeyboardInterrupt:
            raise SystemExit(130)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True
    ) as started:
        assert started.stdin is not None
        started.stdin.write(word.encode())
        started.stdin.close()
        # The supervisor has the word in its command line, too; twice when it stands apart.
        limit = time.monotonic() + 30
        while len(processes_with(word)) < FAMILY + 1:
            assert time.monotonic() < limit
            time.sleep(0.05)
        started.send_signal(number)
        expected = 130 if number == signal.SIGINT else -number
        assert started.wait(timeout=30) == expected
    wait_until(0, word)


def test_alone_hides_the_others() -> None:
    """Where the namespace can be had, the only ids are the tool's own; else nothing changes."""
    code = "import os; print(sum(name.isdigit() for name in os.listdir('/proc')))"
    apart = process.run(["sh", "-c", "echo $PPID"], alone=True).text == "1"
    count = int(process.run([sys.executable, "-c", code], alone=True).text)
    assert count == 2 if apart else count > 2
    # And outside nothing has changed.
    assert os.path.exists(f"/proc/{os.getpid()}/stat")  # noqa: PTH110


def test_a_second_interrupt_does_not_stop_the_cleaning_up(word: str) -> None:
    code = (
        "import sys; from analysis.nsys import process\n"
        f"process.run({family('WORD', 300)!r}[:2] + [sys.stdin.read(), '300'])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as started:
        assert started.stdin is not None
        started.stdin.write(word.encode())
        started.stdin.close()
        wait_until(FAMILY + 1, word)
        for _ in range(4):
            started.send_signal(signal.SIGINT)
            time.sleep(0.3)
        assert started.wait(timeout=30) in (1, 130, -signal.SIGINT)
    wait_until(0, word)
