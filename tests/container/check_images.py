"""The images, really built and used; `make test-image` runs this, `make test` does not."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.container.engine import PREFIX, USER, Engine

ROOT = Path(__file__).parents[2]
# Written by nsys 2025.3.1.
NEWER = ROOT / "reports" / "h200" / "vector_add_cpu" / "vector_add_cpu.nsys-rep"


def run(
    engine: Engine, checkout: Path, *command: str, engine_args: str = ""
) -> subprocess.CompletedProcess[str]:
    """docker/run.sh, as it is for a caller whose id is USER."""
    user = f"--user {USER}:{USER} {engine_args}"
    return subprocess.run(
        ["docker/run.sh", *command],
        cwd=checkout,
        env=engine.environment | {"ENGINE_ARGS": user},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def recording(engine: Engine, images: dict[str, float], checkout: Path) -> Path:
    """A workload in PyTorch, recorded on the CPU by the image's nsys."""
    small = ("--device", "cpu", "--batch-size", "2", "--image-size", "64")
    result = run(engine, checkout, "nsyslab", "profile", "gallery_steady", *small)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "other sources" not in result.stderr
    [report] = (checkout / "reports").rglob("*.nsys-rep")
    return report


def test_a_workload_is_recorded_and_exported(recording: Path) -> None:
    assert recording.stat().st_size > 10_000
    record = json.loads((recording.parent / "run.json").read_text())
    assert record["run"]["parameters"]["device"] == "cpu"
    assert record["nsys_version"].startswith("2022.4.2")
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", record["commit"])
    assert recording.with_suffix(".sqlite").read_bytes().startswith(b"SQLite format 3\0")


def test_it_is_analysed_in_the_analysis_image(
    engine: Engine, checkout: Path, recording: Path
) -> None:
    trace = recording.with_suffix(".sqlite").relative_to(checkout)
    output = checkout / "reports" / "analysis.json"
    result = run(
        engine, checkout, "--image", "analysis", "nsyslab", "analyze", str(trace),
        "--format", "json", "--output", str(output.relative_to(checkout)),
    )  # fmt: skip
    # Readable, and without a GPU.
    assert result.returncode == 3, result.stderr
    report = json.loads(output.read_text())
    assert report["schema"] == "nsyslab.report/1"
    assert report["trace"]["traced"]["osrt"] is True
    assert report["trace"]["traced"]["nvtx"] is True
    assert report["devices"] == []
    assert [stall["function"] for stall in report["stalls"]].count("munmap") >= 1
    assert report["verdict"] == "not-enough-data"


def test_the_recording_opens_in_the_gui(engine: Engine, checkout: Path, recording: Path) -> None:
    report = Path("/reports") / recording.relative_to(checkout / "reports")
    # Debian's package brings the GUI; a screen that nobody sees is not part of the image.
    shown = engine(
        "run", "--rm", "--user", "0:0", "--network", "host",
        "--volume", f"{ROOT / 'docs'}:/docs:ro", "--volume", f"{checkout / 'reports'}:/reports:ro",
        "--volume", f"{NEWER}:/newer.nsys-rep:ro",
        f"{PREFIX}/lab", "bash", "-euc",
        "apt-get -qq update >&2; apt-get -qq install --no-install-recommends"
        " xvfb openbox xdotool imagemagick libgl1-mesa-dri >&2;"
        f"/docs/screenshot-gui.sh {report} /tmp/p.png;"
        # Of the GUI's message that it cannot read a report there is no picture.
        "! /docs/screenshot-gui.sh /newer.nsys-rep /tmp/none.png; [ ! -e /tmp/none.png ];"
        # The colours of the picture, the most frequent first.
        "convert /tmp/p.png -format %c histogram:info:-",
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr[-3000:]
    assert "version 2022.4.2.1-df9881f cannot read /newer.nsys-rep" in shown.stderr
    pixels = {
        (int(red), int(green), int(blue)): int(count)
        for count, red, green, blue in re.findall(
            r"^ *(\d+): \( *(\d+), *(\d+), *(\d+)", shown.stdout, re.MULTILINE
        )
    }
    assert sum(pixels.values()) == 1600 * 880
    # The timeline: the ranges of the program have colours of their own; the GUI itself is grey.
    coloured = sum(n for rgb, n in pixels.items() if max(rgb) - min(rgb) > 100)
    assert coloured > 5_000, pixels


def test_what_was_written_belongs_to_the_caller(checkout: Path, recording: Path) -> None:
    written = list((checkout / "reports").rglob("*"))
    assert recording in written
    assert {(path.stat().st_uid, path.stat().st_gid) for path in written} == {(USER, USER)}


@pytest.mark.parametrize("image", ["lab", "analysis", "notebook"])
def test_an_image_runs_as_nobody_special(
    engine: Engine, images: dict[str, float], image: str
) -> None:
    config = json.loads(engine.output("image", "inspect", f"{PREFIX}/{image}"))[0]["Config"]
    assert config["User"] == "1000:1000"
    assert engine.in_image(image, "id", "-u") == "1000\n"


def names(pins: str) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", pins, re.MULTILINE)
    return {name.lower().replace("_", "-"): version for name, version in found}


@pytest.mark.parametrize("image", ["lab", "analysis"])
def test_the_locked_list_is_in_the_image_and_is_what_is_installed(
    engine: Engine, images: dict[str, float], image: str
) -> None:
    lock = "lab-cpu" if image == "lab" else image
    kept = engine.in_image(image, "cat", "/opt/venv/share/nsys-lab/requirements.txt")
    assert kept == (ROOT / "requirements" / f"{lock}.txt").read_text()
    listed = engine.in_image(image, "cat", "/opt/venv/share/nsys-lab/packages.txt")

    assert names(kept).items() <= names(listed).items()
    assert names(listed).keys() - names(kept).keys() <= {"pip", "setuptools"}


@pytest.mark.parametrize("image", ["lab", "analysis", "notebook"])
def test_the_bill_of_materials_is_valid_and_is_what_is_installed(
    engine: Engine, images: dict[str, float], image: str
) -> None:
    place = "/opt/venv/share/nsys-lab"
    components, roots = {}, {}
    for kind in ("debian", "python"):
        text = engine.in_image(image, "cat", f"{place}/{kind}.cdx.json")
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
        bill = json.loads(text)
        components[kind] = {
            (part["name"].lower().replace("_", "-"), part["version"])
            for part in bill["components"]
            if "arch=source" not in part["purl"]
        }
        roots[kind] = bill["metadata"]["component"]["name"]
    assert roots == {"debian": "Debian GNU/Linux", "python": "nsys-lab"}

    packages = engine.in_image(
        image, "dpkg-query", "--show", "--showformat", "${Package} ${Version}\n"
    )
    assert components["debian"] == {tuple(line.split()) for line in packages.splitlines()}
    listed = names(engine.in_image(image, "cat", f"{place}/packages.txt"))
    assert components["python"] == set(listed.items())
    assert ("nsight-systems" in dict(components["debian"])) == (image == "lab")
    assert ("torch" in dict(components["python"])) == (image == "lab")
    # What wrote them is gone, and what nsys leaves when it proves itself, which is root's.
    assert engine.in_image(image, "find", "/tmp", "-mindepth", "1") == ""
    assert "debsbom" not in listed


def test_the_analysis_image_is_slim(engine: Engine, images: dict[str, float]) -> None:
    found = engine.in_image(
        "analysis", "python3", "-c",
        "from importlib.util import find_spec as find\n"
        "print([name for name in ('torch', 'nvtx', 'numba') if find(name)])",
    )  # fmt: skip
    assert found == "[]\n"
    size = json.loads(engine.output("image", "inspect", f"{PREFIX}/analysis"))[0]["Size"]
    assert size < 800_000_000


def test_the_notebook_asks_for_its_token(
    engine: Engine, images: dict[str, float], checkout: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    process = subprocess.Popen(
        ["docker/run.sh", "--image", "notebook"],
        cwd=checkout,
        env=engine.environment
        | {
            "JUPYTER_TOKEN": "a-token",
            "NOTEBOOK_PORT": str(port),
            "ENGINE_ARGS": "--name nsys-lab-test",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    url = f"http://127.0.0.1:{port}/api/contents"
    try:
        assert status(url, process) == 403
        assert status(f"{url}?token=a-token", process) == 200
    finally:
        engine("stop", "--time", "5", "nsys-lab-test")
        process.wait(timeout=60)


def status(url: str, process: subprocess.Popen[str]) -> int:
    """The answer's status, as soon as the server answers."""
    for _ in range(120):
        assert process.poll() is None, process.stdout and process.stdout.read()
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"{url} does not answer")
