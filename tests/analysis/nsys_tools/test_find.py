"""Which nsys is found, which one wins, what each lacks.

The nsys here are scripts that print a version: ten releases can't be installed side by side.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from analysis.errors import ToolError
from analysis.nsys import find
from analysis.nsys.find import MissingLibrary

if TYPE_CHECKING:
    from pathlib import Path


def install(folder: Path, version: str, importer: Path | None = None) -> Path:
    """An nsys in `folder` that prints `version`, and an importer that any shell can start."""
    folder.mkdir(parents=True, exist_ok=True)
    nsys = folder / "nsys"
    nsys.write_text(f"#!/bin/sh\necho 'NVIDIA Nsight Systems version {version}'\n")
    nsys.chmod(0o755)
    if importer is not None:
        importer.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/true", importer)
    return nsys


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any nsys: PATH and the usual places are below the test's folder."""
    monkeypatch.delenv("NSYS", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/usr/bin:/usr/bin:/bin")
    monkeypatch.setattr(find, "PLACES", tuple(f"{tmp_path}{place}" for place in find.PLACES))
    real = shutil.which("nsys", path="/usr/bin:/bin")
    if real:  # the one of the machine that runs the tests
        monkeypatch.setenv("PATH", f"{tmp_path}/usr/bin:{tmp_path}/bin")
        (tmp_path / "bin").mkdir()
        for tool in ("sh", "ldd", "bash", "cat"):
            (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool, path="/usr/bin:/bin")))
    return tmp_path


PLACES = [
    # NVIDIA's packages, Nsight Compute, the CUDA toolkit's run file, Debian
    ("opt/nvidia/nsight-systems/2025.3.2/target-linux-x64", "../host-linux-x64"),
    ("opt/nvidia/nsight-systems/2025.3.2/bin", "../host-linux-x64"),
    ("opt/nvidia/nsight-systems-cli/2025.3.2/target-linux-x64", "../host-linux-x64"),
    ("opt/nvidia/nsight-systems-2025.3.2/bin", "../host-linux-x64"),
    ("opt/nvidia/nsight-systems/2025.3.2/target-linux-sbsa-armv8", "../host-linux-armv8"),
    (
        "opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64",
        "../linux-desktop-glibc_2_11_3-x64",
    ),
    ("usr/local/cuda-12.9/nsight-systems-2025.1.3/bin", "../host-linux-x64"),
    (
        "usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64",
        "../../../nsight-systems/host-linux-x64",
    ),
    ("usr/bin", "../host-linux-x64"),
]


@pytest.mark.parametrize(("place", "importer"), PLACES)
def test_places(machine: Path, place: str, importer: str) -> None:
    folder = machine / place
    folder.mkdir(parents=True, exist_ok=True)
    nsys = install(folder, "2025.3.2.367-253235681190v0", folder / importer / "QdstrmImporter")
    (found,) = find.find_all()
    assert found.path == nsys
    assert found.version == (2025, 3, 2, 367)
    assert found.version_text == "2025.3.2.367-253235681190v0"
    assert found.importer == (folder / importer / "QdstrmImporter").resolve()
    assert found.complete
    assert find.find() == found


def test_a_link_on_path_and_its_target_are_one(machine: Path) -> None:
    target = machine / "opt/nvidia/nsight-systems/2025.3.2/target-linux-x64"
    nsys = install(target, "2025.3.2.367", target / "../host-linux-x64/QdstrmImporter")
    (machine / "usr/bin").mkdir(parents=True)
    (machine / "usr/bin/nsys").symlink_to(nsys)
    (found,) = find.find_all()
    assert (found.found_in, found.path) == ("PATH", machine / "usr/bin/nsys")
    assert found.complete


def test_the_newest_complete_one_records_and_the_newest_reads(machine: Path) -> None:
    base = machine / "opt/nvidia/nsight-systems"
    for version, complete in (("2024.6.2.225", True), ("2022.4.2.1", True), ("2025.10.1.9", False)):
        folder = base / version / "target-linux-x64"
        importer = folder / "../host-linux-x64/QdstrmImporter" if complete else None
        install(folder, version, importer)
    found = find.find_all()
    assert [nsys.version_text for nsys in found] == ["2024.6.2.225", "2022.4.2.1", "2025.10.1.9"]
    assert find.find().version_text == "2024.6.2.225"
    # 10 is more than 6: versions are numbers.
    assert find.find_newest().version_text == "2025.10.1.9"


def test_the_one_that_the_user_names_wins(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(machine / "opt/nvidia/nsight-systems/2025.3.2/bin", "2025.3.2.367")
    old = install(machine / "home/old", "2021.2.4.12")
    monkeypatch.setenv("NSYS", str(old))
    assert find.find().path == old
    assert find.find_newest().path == old
    assert find.find_all()[0].found_in == "NSYS"


def test_a_named_one_that_is_not_there_is_an_error(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(machine / "usr/bin", "2025.3.2.367")
    monkeypatch.setenv("NSYS", "/nowhere/nsys")
    with pytest.raises(ToolError, match=r"NSYS names does not run: /nowhere/nsys does not exist"):
        find.find()


def test_one_that_does_not_run_gives_way(machine: Path) -> None:
    works = install(machine / "opt/nvidia/nsight-systems/2023.1.1/bin", "2023.1.1.127")
    broken = install(machine / "usr/bin", "2025.3.2.367")
    broken.write_text("#!/bin/sh\necho 'cannot execute: required file not found' >&2; exit 127\n")
    assert find.find().path == works
    assert find.find_all()[1].problem == f"{broken}: cannot execute: required file not found"


def test_none(machine: Path) -> None:
    with pytest.raises(ToolError, match=r"^nsys was not found$") as error:
        find.find()
    assert "docker/install-nsys.sh" in str(error.value.hint)
    assert error.value.exit_code == 4


def test_missing_libraries_are_those_that_ldd_misses(tmp_path: Path) -> None:
    program = tmp_path / "QdstrmImporter"
    # The C library under another name of the same length, which is nowhere.
    program.write_bytes(
        open(os.path.realpath("/bin/true"), "rb").read().replace(b"libc.so.6", b"libq.so.6")  # noqa: PTH123, SIM115
    )
    program.chmod(0o755)
    assert find.missing_libraries(program) == (MissingLibrary("libq.so.6", None),)


def test_cure() -> None:
    missing = (
        MissingLibrary("libdw.so.1", "libdw1"),
        MissingLibrary("libssh.so.4", "libssh-4"),
        MissingLibrary("libq.so.6", None),
    )
    assert find.cure(missing) == (
        "apt-get install libdw1 libssh-4; find the package of libq.so.6 (apt-file search)"
    )
    assert all(find.PACKAGES[name] for name in ("libdw.so.1", "libelf.so.1", "libssh.so"))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2025.3.2.367-253235681190v0", (2025, 3, 2, 367)),
        ("2023@4@4@54-234433681190v0", (2023, 4, 4, 54)),
        ("2022.4.2.1-df9881f", (2022, 4, 2, 1)),
        ("1", ()),
        ("", ()),
    ],
)
def test_parse_version(text: str, version: tuple[int, ...]) -> None:
    assert find.parse_version(text) == version
