from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from analysis import cli
from analysis.errors import InputError
from workloads import registry
from workloads.parameters import Parameters
from workloads.registry import Workload

if TYPE_CHECKING:
    from pathlib import Path

LADDERS = {
    "d2h": ["baseline", "workers", "pool", "async", "streams", "slices", "argmax"],
    "h2d": ["baseline", "workers", "async", "pool", "streams", "prefetch", "events", "bytes"],
    "encdec": ["serial", "streams"],
    "augment": ["cpu", "gpu", "streams"],
    "vector_add": ["cpu", "numba"],
}


def test_every_ladder_has_its_rungs_in_order() -> None:
    found = defaultdict(list)
    for entry in registry.entries():
        found[entry.workload.ladder].append((entry.workload.rung, entry.name))

    # No ladder: programs that are diagnosed, in no order that matters.
    gallery = found.pop("gallery")
    assert [number for number, _ in gallery] == list(range(1, len(gallery) + 1))
    assert found == {
        ladder: [(number, f"{ladder}_{rung}") for number, rung in enumerate(rungs, start=1)]
        for ladder, rungs in LADDERS.items()
    }


@pytest.mark.parametrize("entry", registry.entries(), ids=lambda entry: entry.name)
def test_every_workload_says_what_it_does_and_shows(entry: registry.Entry) -> None:
    about = entry.workload
    assert about.title
    assert about.shows
    assert "trace:" in entry.description
    assert (about.published or about.published_speedup) is None or about.published_on
    # Defaults are parameters; impossible ones would be refused here.
    Parameters.of(about.defaults, {})
    # The baseline is what the others are compared with.
    assert not (about.rung == 1 and about.tolerance)


def test_finding_workloads_imports_none() -> None:
    code = (
        "import sys; from workloads import registry; registry.entries();"
        "heavy = ('torch', 'nvtx', 'numba', 'workloads.ladders');"
        "print([module for module in sys.modules if module.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("d2h_asinc", "did you mean d2h_async"),
        ("h2d_", "did you mean h2d_baseline or h2d_workers or h2d_async"),
        ("h2d", "it is a ladder (nsyslab ladder h2d) of h2d_baseline, h2d_workers, h2d_async"),
        ("zzz", "`nsyslab list` shows all"),
    ],
)
def test_unknown_workload(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"no workload '{name}'") as caught:
        registry.find(name)
    assert hint in (caught.value.hint or "")


def test_unknown_ladder() -> None:
    with pytest.raises(InputError, match="no ladder 'd2'") as caught:
        registry.ladder("d2")
    assert "did you mean d2h" in (caught.value.hint or "")


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        '"""Mine."""\n'
        "from workloads.registry import Workload\n"
        'WORKLOAD = Workload(ladder="d2h", rung=9, title="t", shows="s", defaults={"workers": 2})\n'
        "raise SystemExit('a workload must not be imported to be found')\n"
    )

    entry = registry.find(str(path))

    assert entry.name == "mine"
    assert entry.description == "Mine."
    assert entry.workload == Workload("d2h", 9, "t", "s", defaults={"workers": 2})
    assert not entry.builtin
    assert registry.baseline(entry).name == "d2h_baseline"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\n", "is not a workload"),
        ("WORKLOAD = Workload(ladder=", "is not Python"),
        ("WORKLOAD = Workload(ladder=name, rung=1, title='', shows='')\n", "cannot be read"),
        ("WORKLOAD = Workload(ladder='d2h')\n", "cannot be read"),
        ("WORKLOAD = Workload(ladder='d2h', colour='red')\n", "cannot be read"),
    ],
)
def test_a_file_that_is_no_workload(tmp_path: Path, source: str, message: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(source)
    with pytest.raises(InputError, match=message):
        registry.find(str(path))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        registry.find(str(tmp_path / "other.py"))


def test_list_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["list", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [entry.name for entry in registry.entries()]
    assert rows[0].keys() >= {"name", "ladder", "rung", "title", "shows", "published"}

    assert cli.run(["list", "--ladder", "encdec"]) == 0
    text = capsys.readouterr().out
    assert "encdec_serial" in text
    assert "encdec_streams" in text
    assert "d2h" not in text

    assert cli.run(["list", "--format", "markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| name | rung | what it does | what its trace shows |"
    assert len(lines) == 2 + len(rows)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_list_keeps_to_the_terminal(width: int) -> None:
    """Continuation lines are indented as the column is; a pipe gets whole lines."""
    nsyslab = [sys.executable, "-m", "analysis"]
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen([*nsyslab, "list"], stdout=slave, env=env) as process:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):  # EIO is how Linux says that the other end is closed
            while piece := os.read(master, 65536):
                shown += piece
    os.close(master)
    assert process.returncode == 0
    lines = re.sub(r"\x1b\[\d*m", "", shown.decode()).splitlines()
    assert max(map(len, lines)) <= width
    names = {entry.name for entry in registry.entries()}
    assert names == {line.split()[1] for line in lines if re.match(r"  [ \d]\d  \S", line)}

    piped = subprocess.run([*nsyslab, "list"], capture_output=True, text=True, check=True).stdout
    for entry in registry.entries():
        assert f"{entry.workload.shows}\n" in piped
