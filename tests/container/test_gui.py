"""docker/gui.sh: which report it opens, and what it says where it cannot.

The nsys-ui here is a stand-in that notes its argument; `check_images.py` opens a recording in the
real one.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

GUI = Path(__file__).parents[2] / "docker" / "gui.sh"
# All that the script calls, so that an nsys-ui of this machine is out of its sight.
TOOLS = ("basename", "bash", "cut", "dirname", "env", "find", "grep", "head", "realpath", "sed")
TOOLS += ("sort", "tail")


class Desktop:
    """A PATH without nsys-ui, and a folder of reports."""

    def __init__(self, folder: Path) -> None:
        self.reports = folder / "reports"
        self.bin = folder / "bin"
        self.opened = folder / "opened"
        self.reports.mkdir()
        self.bin.mkdir()
        for tool in TOOLS:
            path = shutil.which(tool)
            assert path, tool
            (self.bin / tool).symlink_to(path)

    def report(
        self, name: str, *, folder: str = "", version: str = "2025.3.1.90", age: int = 0
    ) -> Path:
        place = self.reports / (folder or name)
        place.mkdir()
        path = place / f"{name}.nsys-rep"
        path.write_bytes(b"report")
        record = {"workload": name, "nsys_version": f"{version}-v0", "exit_code": 0}
        (place / "run.json").write_text(json.dumps(record, indent=1))
        os.utime(path, (1_700_000_000 - age,) * 2)
        return path

    def ui(self, version: str) -> None:
        """A GUI as NVIDIA's packages install it: the folder is named after the version."""
        folder = self.bin.parent / "nsight-systems" / version
        folder.mkdir(parents=True)
        path = folder / "nsys-ui"
        path.write_text(f'#!/bin/sh\nprintf %s "$1" >{self.opened}\n')
        path.chmod(0o755)
        (self.bin / "nsys-ui").symlink_to(path)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(GUI), *arguments],
            env={"PATH": str(self.bin), "REPORTS": str(self.reports), "DISPLAY": ":0"}
            | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def desktop(tmp_path: Path) -> Desktop:
    return Desktop(tmp_path)


def test_the_newest_report_of_the_workload_is_opened(desktop: Desktop) -> None:
    desktop.ui("2025.6.1")
    desktop.report("h2d_async")
    old = desktop.report("d2h_async", age=500)
    new = desktop.report("d2h_async", folder="second", age=100)
    assert desktop.run("d2h_async").returncode == 0
    assert desktop.opened.read_text() == str(new)
    assert desktop.run(str(old)).returncode == 0
    assert desktop.opened.read_text() == str(old)
    assert desktop.run().returncode == 0
    assert desktop.opened.read_text().endswith("h2d_async.nsys-rep")


def test_a_workload_is_not_taken_for_one_whose_name_begins_alike(desktop: Desktop) -> None:
    desktop.ui("2025.6.1")
    desktop.report("vector_add_cpu_other")
    result = desktop.run("vector_add_cpu")
    assert result.returncode == 2
    assert "no .nsys-rep of vector_add_cpu" in result.stderr


@pytest.mark.parametrize(
    ("screen", "ui", "missing"),
    [(":0", False, "no nsys-ui on this machine"), ("", True, "no screen (DISPLAY is not set)")],
)
def test_where_nothing_can_be_shown_the_file_and_the_version_are_named(
    desktop: Desktop, screen: str, ui: bool, missing: str
) -> None:
    report = desktop.report("d2h_async")
    if ui:
        desktop.ui("2025.6.1")
    result = desktop.run("d2h_async", DISPLAY=screen)
    assert result.returncode == 0
    assert f"the report: {report}\n" in result.stderr
    assert f"{missing}. Open it with Nsight Systems 2025.3.1.90 or newer" in result.stderr
    assert "https://developer.nvidia.com/nsight-systems/get-started" in result.stderr
    assert not desktop.opened.exists()


@pytest.mark.parametrize(
    ("wrote", "have", "opens"),
    [
        ("2025.3.1.90", "2023.4.4", False),
        ("2025.3.1.90", "2025.3.1", True),
        ("2025.3.1.90", "2025.10.1", True),
        ("2022.4.2.1", "2023.4.4", True),
        ("2025.6.1.190", "2025.5.1", False),
    ],
)
def test_a_gui_opens_reports_of_its_version_and_older(
    desktop: Desktop, wrote: str, have: str, opens: bool
) -> None:
    desktop.ui(have)
    report = desktop.report("d2h_async", version=wrote)
    result = desktop.run("d2h_async")
    assert desktop.opened.exists() == opens
    assert result.returncode == (0 if opens else 2)
    if not opens:
        assert f"nsys-ui {have} cannot open {report}: nsys {wrote} wrote it" in result.stderr


@pytest.mark.parametrize(
    ("argument", "error"),
    [("d2h_async", "no .nsys-rep of d2h_async"), ("gone.nsys-rep", "no file gone.nsys-rep")],
)
def test_no_report(desktop: Desktop, argument: str, error: str) -> None:
    result = desktop.run(argument)
    assert result.returncode == 2
    assert error in result.stderr
    assert "next: " in result.stderr
