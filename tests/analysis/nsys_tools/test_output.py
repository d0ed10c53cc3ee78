"""What a recorded program writes, told from what nsys writes between."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.nsys.output import ProgramOutput, of_program

SCRATCH = Path("/data/reports/x/.x.abcdefgh")
#: As nsys 2022.4 writes it to a pipe behind the program's output.
NSYS = (
    b"Generating '/data/reports/x/.x.abcdefgh/tmp1/nsys-report-ad89.qdstrm'\n"
    b"\r[1/1] [0%                          ] x.nsys-rep"
    b"\r[1/1] [========================100%] x.nsys-rep\n"
    b"Generated:\n    /data/reports/x/.x.abcdefgh/x.nsys-rep\n"
)


@pytest.mark.parametrize(
    "program",
    [
        b"",
        b"a line\nand another\n",
        b"no newline at the end",
        b"progress: \r 10 %|#  |\r 20 %|## |",
        b"windows\r\nlines\r\n",
        b"[12/40] [INFO] loading\n[1/2] [2/2]\n",
        b"Generating '/somewhere/else'\nGenerated 3 files:\n    a\n    b\n",
        "ünï\xff".encode("latin-1"),
    ],
)
def test_only_what_is_nsys_own_is_left_out(program: bytes) -> None:
    assert of_program(program + NSYS, SCRATCH) == program
    live: list[bytes] = []
    reader = ProgramOutput(SCRATCH, live.append)
    for at in range(len(program)):
        reader.feed(program[at : at + 1])
    reader.feed(NSYS)
    reader.close()
    assert b"".join(live) == program


def test_remarks_on_the_importer_are_nsys_own() -> None:
    output = (
        b"mine\nImporter error status: The importer could not be found.\n"
        b"Unable to retrieve the importer version.\nGenerated:\n"
        b"    /data/reports/x/.x.abcdefgh/x.qdstrm\n"
    )
    assert of_program(output, SCRATCH) == b"mine\n"


def test_a_line_that_is_left_open_is_passed_on_at_once() -> None:
    live: list[bytes] = []
    reader = ProgramOutput(SCRATCH, live.append)
    reader.feed(b"\r 10 %|#  |")
    assert live == [b"\r 10 %|#  |"]
    reader.feed(b"\r 20 %|## |")
    assert live[1:] == [b"\r 20 %|## |"]
    reader.feed(b"[1")  # may become a progress bar of nsys
    assert live[2:] == []
    reader.feed(b"] one\n")
    assert live[2:] == [b"[1] one\n"]


def test_a_long_line_is_not_held_back() -> None:
    live: list[bytes] = []
    reader = ProgramOutput(SCRATCH, live.append)
    for _ in range(1000):
        reader.feed(b"[1, 2, 3" * 1000)
    assert len(b"".join(live)) >= 8_000_000 - 8192


def test_progress_goes_where_it_belongs() -> None:
    live: list[bytes] = []
    bars: list[bytes] = []
    reader = ProgramOutput(SCRATCH, live.append, bars.append)
    reader.feed(b"done\n" + NSYS[:110])
    reader.feed(NSYS[110:])
    reader.close()
    assert live == [b"done\n"]
    assert [bar.strip() for bar in bars] == [
        b"[1/1] [0%                          ] x.nsys-rep",
        b"[1/1] [========================100%] x.nsys-rep",
    ]
