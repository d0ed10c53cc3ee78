"""``nsyslab doctor`` and ``nsyslab export``, as a user meets them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from analysis import cli
from analysis.nsys import find, machine
from analysis.nsys.find import MissingLibrary, Nsys

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def no_nsys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(find, "PLACES", ())
    monkeypatch.delenv("NSYS", raising=False)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(str(shutil.which("sh")))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.mark.nsys
def test_on_this_machine(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor"]) == 0
    text = capfd.readouterr().out
    used = find.find()
    assert used.version_text in text
    assert f"importer: {used.importer}" in " ".join(text.split())
    assert "OS runtime calls: yes" in text
    # Only what cannot be broken, a path, may be longer.
    assert all(len(line) <= 80 or "/" in line for line in text.splitlines())


@pytest.mark.nsys
def test_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "--format", "json"]) == 0
    about = json.loads(capfd.readouterr().out)
    assert about["can_record"] is True
    assert about["nsys"][0]["path"] == str(find.find().path)
    assert about["nsys"][0]["missing_libraries"] == []
    assert {ability["what"]: ability["possible"] for ability in about["abilities"]}[
        "OS runtime calls"
    ]


def test_without_nsys(no_nsys: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor"]) == 4
    text = " ".join(capfd.readouterr().out.split())
    assert "nsys none found on PATH or where it gets installed" in text
    assert "can record anything: no (nsys was not found)" in text
    assert "next nsys is missing: install it with docker/install-nsys.sh" in text


def nsys(version: tuple[int, ...], **changes: object) -> Nsys:
    from pathlib import Path

    text = ".".join(map(str, version))
    values = {
        "path": Path("/opt/nsys"),
        "version": version,
        "version_text": text,
        "importer": Path("/opt/QdstrmImporter"),
        "missing_libraries": (),
        "found_in": "PATH",
        **changes,
    }
    return Nsys(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "possible", "advice"),
    [
        ([], False, "nsys is missing"),
        (
            [nsys((2025, 3), problem="/opt/nsys: no")],
            False,
            "/opt/nsys does not run (/opt/nsys: no",
        ),
        ([nsys((2025, 3), importer=None)], False, "/opt/nsys has no QdstrmImporter"),
        (
            [nsys((2025, 3), missing_libraries=(MissingLibrary("libdw.so.1", "libdw1"),))],
            False,
            "apt-get install libdw1",
        ),
        ([nsys((2025, 3))], True, "without a GPU: nsyslab run and profile take --device cpu"),
    ],
)
def test_what_is_lacking(
    monkeypatch: pytest.MonkeyPatch, found: list[Nsys], possible: bool, advice: str
) -> None:
    monkeypatch.setattr(machine, "find_all", lambda: found)
    monkeypatch.setattr(machine, "_gpus", lambda: ((), "no NVIDIA driver here"))
    seen = machine.look()
    assert seen.can_record is possible
    assert seen.abilities[0].possible is possible
    assert seen.advice[0].startswith(advice)


@pytest.mark.parametrize(
    ("nvtx", "version", "records"),
    [
        ("0.2.8", (2022, 4, 2, 1), True),
        ("0.2.8", (2025, 3, 2, 367), True),
        ("0.2.9", (2023, 4, 4, 54), False),
        ("0.2.13", (2022, 4, 2, 1), False),
        ("0.2.13", (2024, 1, 1, 59), True),
        (None, (2022, 4, 2, 1), True),
    ],
)
def test_nvtx_and_nsys_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, nvtx: str | None, version: tuple[int, ...], records: bool
) -> None:
    monkeypatch.setattr(machine, "find_all", lambda: [nsys(version)])
    monkeypatch.setattr(machine, "_nvtx", lambda: nvtx)
    (ranges,) = [a for a in machine.look().abilities if a.what == "NVTX ranges"]
    assert ranges.possible is records
    assert ("pip install nvtx==0.2.8, or use nsys 2024 or newer" in machine.look().advice) is (
        not records
    )


def test_export_without_nsys(
    no_nsys: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "it.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 2025@3@2@367-1v0." + b"x" * 1000)
    assert cli.run(["export", str(report)]) == 4
    assert "nsyslab: nsys was not found" in capfd.readouterr().err


@pytest.mark.nsys
def test_export_prints_where_the_export_is(report: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = report.with_suffix(".sqlite")
    assert cli.run(["export", str(report.parent)]) == 0
    assert capfd.readouterr().out == f"{made}\n"
    output = report.with_name("mine.sqlite")
    output.write_text("mine")
    assert cli.run(["export", str(report), "-o", str(output)]) == 2
    assert "exists already" in capfd.readouterr().err
    assert output.read_text() == "mine"
    assert cli.run(["export", str(report), "-o", str(output), "--force"]) == 0
    assert capfd.readouterr().out == f"{output}\n"
    assert output.read_bytes().startswith(b"SQLite format 3")
    assert cli.run(["export", str(report), str(made), "-o", str(output)]) == 2
    assert "--output names one file, and there are 2" in capfd.readouterr().err
