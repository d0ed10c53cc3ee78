"""The images, really built and used; `make test-image` runs this, `make test` does not.

A bare Debian made with debootstrap is the base, PyTorch's CPU build the torch, Debian's nsys the
nsys: build arguments only. The engine is Podman, which needs no daemon. On a machine without one:
``sudo apt-get install podman runc debootstrap``.

pip's configuration and the certificates of this machine, if it has any, go into the build as
secrets; a folder of wheels (pip's find-links) is served on the loopback address meanwhile.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.engine import BASE, PREFIX, Engine, execute

ROOT = Path(__file__).parents[2]
CPU_WHEELS = "https://download.pytorch.org/whl/cpu/torch"
BUILD = {
    "BASE_IMAGE": BASE,
    "ANALYSIS_BASE_IMAGE": BASE,
    "NSYS_VERSION": "2022.4.2",
    "TORCH_VERSION": "2.13.0",
    "LAB_LOCK": "requirements/lab-cpu.txt",
}
# Anybody but root and the image's own user.
USER = 4321


def pip_settings() -> dict[str, list[str]]:
    """pip's configuration on this machine, by option."""
    listed = execute([sys.executable, "-m", "pip", "config", "list"]).stdout
    settings: dict[str, list[str]] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        settings[key.rpartition(".")[2]] = ast.literal_eval(value).split()
    return settings


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="session")
def build_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What a build on this machine needs: package sources, and certificates."""
    folder = tmp_path_factory.mktemp("secrets")
    settings = pip_settings()
    conf = ["[global]"]
    for key in ("index-url", "extra-index-url", "trusted-host", "proxy", "default-timeout"):
        values = [value for value in settings.get(key, []) if not value.startswith("file:")]
        if values:
            conf.append(f"{key} = {' '.join(values)}")
    options = ["--isolation", "chroot", "--network", "host"]

    bundle = (settings.get("cert") or [os.environ.get("SSL_CERT_FILE", "")])[0]
    if bundle:
        conf.append("cert = /run/secrets/ca.crt")
        options += ["--secret", f"id=ca.crt,src={bundle}"]

    wheels = folder / "wheels"
    wheels.mkdir()
    for place in map(Path, settings.get("find-links", [])):
        for wheel in place.glob("*.whl"):
            (wheels / wheel.name).symlink_to(wheel)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(wheels))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    served = f"http://127.0.0.1:{server.server_port}/"
    conf.append(f"find-links = {served if any(wheels.iterdir()) else CPU_WHEELS}")

    path = folder / "pip.conf"
    path.write_text("\n".join(conf) + "\n")
    options += ["--secret", f"id=pip.conf,src={path}"]
    yield options
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout as it is now, with a reports/ of its own, owned by USER."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("analysis", "docker", "notebooks", "requirements", "workloads"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        ".dockerignore",
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "compose.yaml",
        "pyproject.toml",
    ):
        shutil.copy(ROOT / name, folder)
    reports = folder / "reports"
    reports.mkdir()
    os.chown(reports, USER, USER)
    subprocess.run(
        "git init -q && git add . && git -c user.name=t -c user.email=t@t commit -qm t",
        shell=True,
        cwd=folder,
        check=True,
    )
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def images(engine: Engine, build_options: list[str], checkout: Path) -> dict[str, float]:
    """The images, built by the script that people build them with; seconds of each."""
    arguments = [f"--build-arg {name}={value}" for name, value in BUILD.items()]
    seconds = {}
    for image in ("analysis", "lab", "notebook"):
        started = time.monotonic()
        built = subprocess.run(
            ["docker/build.sh", image],
            cwd=checkout,
            env=engine.environment | {"EXTRA_BUILD_ARGS": " ".join(build_options + arguments)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert built.returncode == 0, built.stdout[-4000:]
        seconds[image] = time.monotonic() - started
    print("built in", {image: f"{time:.0f} s" for image, time in seconds.items()})  # noqa: T201
    return seconds


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


RECORDED = "reports/workload"


@pytest.fixture(scope="session")
def recording(engine: Engine, images: dict[str, float], checkout: Path) -> Path:
    """A workload recorded on the CPU by the image's nsys."""
    result = run(engine, checkout, "nsyslab", "profile", "vector_add_cpu", "--device", "cpu")
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
        f"{PREFIX}/lab", "bash", "-euc",
        "apt-get -qq update >&2; apt-get -qq install --no-install-recommends"
        " xvfb openbox xdotool imagemagick libgl1-mesa-dri >&2;"
        f"/docs/screenshot-gui.sh {report} /tmp/p.png;"
        # The colours of the picture, the most frequent first.
        "convert /tmp/p.png -format %c histogram:info:-",
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr[-3000:]
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


@pytest.mark.parametrize("image", ["lab", "analysis"])
def test_the_locked_list_is_in_the_image_and_is_what_is_installed(
    engine: Engine, images: dict[str, float], image: str
) -> None:
    lock = "lab-cpu" if image == "lab" else image
    kept = engine.in_image(image, "cat", "/opt/venv/share/nsys-lab/requirements.txt")
    assert kept == (ROOT / "requirements" / f"{lock}.txt").read_text()
    listed = engine.in_image(image, "cat", "/opt/venv/share/nsys-lab/packages.txt")

    def names(text: str) -> dict[str, str]:
        pins = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", text, re.MULTILINE)
        return {name.lower().replace("_", "-"): version for name, version in pins}

    assert names(kept).items() <= names(listed).items()
    assert names(listed).keys() - names(kept).keys() <= {"pip", "setuptools"}


def test_the_analysis_image_is_slim(engine: Engine, images: dict[str, float]) -> None:
    found = engine.in_image(
        "analysis", "python3", "-c",
        "from importlib.util import find_spec as find\n"
        "print([name for name in ('torch', 'nvtx', 'numba') if find(name)])",
    )  # fmt: skip
    assert found == "[]\n"
    size = json.loads(engine.output("image", "inspect", f"{PREFIX}/analysis"))[0]["Size"]
    assert size < 800_000_000


def secrets_of_this_machine(build_options: list[str]) -> dict[str, bytes]:
    """What must not be found in an image, and where it would come from."""
    found = {}
    for option in build_options:
        if option.startswith("id=pip.conf"):
            for line in Path(option.partition("src=")[2]).read_text().splitlines()[1:]:
                found[f"pip's {line.partition(' =')[0]}"] = line.partition("= ")[2].encode()
    for name, value in os.environ.items():
        if re.search(r"proxy|token|secret|password|passwd|api_?key", name, re.IGNORECASE) and value:
            found[f"${name}"] = value.encode()
    found["the host's name"] = os.uname().nodename.encode()
    found["the checkout's path"] = str(ROOT).encode()
    # Of settings, only what could be taken for nothing else.
    return {name: value for name, value in found.items() if len(value) > 5}


@pytest.mark.parametrize("image", ["lab", "analysis", "notebook"])
def test_neither_history_nor_layers_hold_a_credential_or_a_host_setting(
    engine: Engine,
    images: dict[str, float],
    build_options: list[str],
    image: str,
    tmp_path: Path,
) -> None:
    name = f"{PREFIX}/{image}"
    unwanted = secrets_of_this_machine(build_options)
    history = engine.output("history", "--no-trunc", "--format", "{{.CreatedBy}}", name)
    config = engine.output("image", "inspect", "--format", "{{json .Config}}", name)
    for where, text in {"history": history, "config": config}.items():
        for what, value in unwanted.items():
            assert value not in text.encode(), f"{what} is in the {where} of {image}"
        assert not re.search(r"https?_proxy|no_proxy", text, re.IGNORECASE)

    bundle = [o.partition("src=")[2] for o in build_options if o.startswith("id=ca.crt")]
    certificates = {hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in bundle}
    base = set(layers(engine, BASE))
    archive = tmp_path / "image.tar"
    engine.output("save", "--format", "docker-archive", "--output", str(archive), name)
    seen = 0
    with tarfile.open(archive) as tar:
        manifest = json.load(tar.extractfile("manifest.json"))[0]  # type: ignore[arg-type]
        for path, digest in zip(manifest["Layers"], layers(engine, name), strict=True):
            if digest in base:
                continue
            with tarfile.open(fileobj=tar.extractfile(path)) as layer:
                for member in layer:
                    if not member.isfile():
                        assert not re.search(r"^run/secrets/.", member.name)
                        continue
                    seen += 1
                    file = layer.extractfile(member)
                    assert file is not None
                    data = file.read()
                    assert member.name not in ("etc/pip.conf", "root/.netrc"), member.name
                    assert hashlib.sha256(data).hexdigest() not in certificates, member.name
                    if member.size > 2_000_000:
                        continue
                    for what, value in unwanted.items():
                        assert value not in data, f"{what} is in {member.name} of {image}"
    assert seen > 1000


def layers(engine: Engine, name: str) -> list[str]:
    inspected = json.loads(engine.output("image", "inspect", name))[0]
    return list(inspected["RootFS"]["Layers"])


def test_the_notebook_asks_for_its_token(
    engine: Engine, images: dict[str, float], checkout: Path
) -> None:
    process = subprocess.Popen(
        ["docker/run.sh", "--image", "notebook"],
        cwd=checkout,
        env=engine.environment
        | {"JUPYTER_TOKEN": "a-token", "ENGINE_ARGS": "--name nsys-lab-test"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    url = "http://127.0.0.1:8888/api/contents"
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
