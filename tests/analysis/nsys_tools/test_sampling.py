"""Whether the CPU can be sampled, as nsys tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from analysis import cli
from analysis.nsys import find, process, sampling

if TYPE_CHECKING:
    from pathlib import Path

CLOSED = """\
Timestamp counter supported: Yes

CPU Profiling Environment Check
Root privilege: disabled
Linux Kernel Paranoid Level = 2
Linux Distribution = Debian
Linux Kernel Version = 6.1.0-13-amd64: OK
Linux perf_event_open syscall available: Fail
Sampling trigger event available: Fail
Intel(c) Last Branch Record support: Not Available
CPU Profiling Environment (process-tree): Fail
CPU Profiling Environment (system-wide): Fail
"""
WHY = "Linux perf_event_open syscall available: Fail, Sampling trigger event available: Fail"


@pytest.mark.parametrize(
    ("text", "obstacle"),
    [
        (CLOSED, WHY),
        # Its own processes are enough.
        (CLOSED.replace("(process-tree): Fail", "(process-tree): OK"), None),
        (
            "Sampling Environment Check\n"
            "Linux Kernel Paranoid Level = 3: Fail\n"
            "Linux Kernel Version = 4.15.0: OK\n"
            "Sampling Environment: Fail\n",
            "Linux Kernel Paranoid Level = 3: Fail",
        ),
        ("Sampling Environment: Fail\n", "Sampling Environment: Fail"),
        ("unrecognised option '--environment'\n", None),
    ],
)
def test_what_nsys_says(text: str, obstacle: str | None) -> None:
    assert sampling.obstacle_in(text) == obstacle


@pytest.mark.nsys
def test_the_nsys_that_is_here_tells() -> None:
    nsys = find.find()
    status = process.run([nsys.path, "status", "--environment"], timeout_s=20.0).text
    assert f"(process-tree): {'OK' if sampling.obstacle(nsys) is None else 'Fail'}" in status


def test_nothing_is_recorded_where_it_is_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "closed.txt").write_text(CLOSED)
    nsys = tmp_path / "nsys"
    nsys.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        "--version) echo NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0 ;;\n"
        f"status) cat {tmp_path}/closed.txt ;;\n"
        "esac\n"
    )
    nsys.chmod(0o755)
    monkeypatch.setenv("NSYS", str(nsys))
    output = tmp_path / "made"
    assert cli.run(["profile", "--sample", "-o", str(output), "--", "true"]) == 4
    message = capfd.readouterr().err
    assert f"the CPU cannot be sampled here; nsys says: {WHY}" in message
    assert "CAP_PERFMON" in message
    assert not output.exists()
