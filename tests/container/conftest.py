"""The container engine of the tests that need one, and the images that it builds.

A bare Debian is the base, PyTorch's CPU build the torch, Debian's nsys the nsys: build arguments
only. pip's configuration and the certificates of this machine, if it has any, go into the build as
secrets; a folder of wheels (pip's find-links) is served on the loopback address meanwhile.
"""

from __future__ import annotations

import ast
import concurrent.futures
import functools
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.engine import BASE, UBUNTU, USER, Engine, alone, execute
from tests.container.repository import MAKE_REPOSITORY

ROOT = Path(__file__).parents[2]
CPU_WHEELS = "https://download.pytorch.org/whl/cpu/torch"
BUILD = {
    "BASE_IMAGE": BASE,
    "ANALYSIS_BASE_IMAGE": BASE,
    "NSYS_VERSION": "2022.4.2",
    "TORCH_VERSION": "2.13.0",
    "LAB_LOCK": "requirements/lab-cpu.txt",
}


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Podman, ready to run containers of the base image."""
    return Engine(tmp_path_factory.mktemp("engine"))


@pytest.fixture(scope="session")
def repository(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NVIDIA's repository, as repository.py makes it; the image UBUNTU is made on the way."""
    folder = tmp_path_factory.mktemp("repository")
    folder.chmod(0o755)
    # Several processes may do so at a time.
    container = f"nsys-lab-repository-{os.getpid()}"
    made = engine(
        "run", "--name", container, "--network", "host",
        "--volume", f"{folder}:/repository", BASE, "bash", "-c", MAKE_REPOSITORY,
    )  # fmt: skip
    if made.returncode == 0:
        engine.output("commit", container, UBUNTU)
    engine.output("rm", container)
    assert made.returncode == 0, made.stderr
    return folder


def pip_settings() -> dict[str, list[str]]:
    """What pip on this machine installs with, by option: its files, then the environment."""
    listed = execute([sys.executable, "-m", "pip", "config", "list"]).stdout
    settings: dict[str, dict[str, list[str]]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.rpartition(".")
        if section in settings:
            settings[section][option] = ast.literal_eval(value).split()
    return settings["global"] | settings["install"] | settings[":env:"]


def certificates(settings: dict[str, list[str]]) -> Path | None:
    """The certificates that pip on this machine trusts: its own option's, or the system's."""
    variables = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    named = [*settings.get("cert", []), *(os.environ.get(name, "") for name in variables)]
    found = [Path(name) for name in (*named, "/etc/ssl/certs/ca-certificates.crt") if name]
    return next((path for path in found if path.is_file()), None)


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
    # A chroot is enough to build in, and works inside other containers too.
    options = ["--isolation", "chroot", "--network", "host"]

    bundle = certificates(settings)
    if bundle:
        conf.append("cert = /run/secrets/ca.crt")
        options += ["--secret", f"id=ca.crt,src={bundle}"]

    wheels = folder / "wheels"
    wheels.mkdir()
    links = []
    for place in settings.get("find-links", []):
        if "://" in place:
            links.append(place)
        for wheel in Path(place).glob("*.whl"):
            (wheels / wheel.name).symlink_to(wheel)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(wheels))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if any(wheels.iterdir()):
        links.append(f"http://127.0.0.1:{server.server_port}/")
    if not any(wheels.glob("torch-*")):
        links.append(CPU_WHEELS)
    conf.append(f"find-links = {' '.join(links)}")

    path = folder / "pip.conf"
    path.write_text("\n".join(conf) + "\n")
    options += ["--secret", f"id=pip.conf,src={path}"]
    yield options
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def checkout() -> Iterator[Path]:
    """This checkout as it is now, with a reports/ of its own, owned by USER."""
    # Not among pytest's folders: those are closed to USER, and their modes are not ours to change.
    folder = Path(tempfile.mkdtemp(prefix="nsys-lab-checkout-"))
    folder.chmod(0o755)
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
        shutil.copy2(ROOT / name, folder)
    reports = folder / "reports"
    reports.mkdir()
    os.chown(reports, USER, USER)
    subprocess.run(
        "git init -q && git add . && git -c user.name=t -c user.email=t@t commit -qm t",
        shell=True,
        cwd=folder,
        check=True,
    )
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def images(engine: Engine, build_options: list[str], checkout: Path) -> dict[str, float]:
    """The images, built by the script that people build them with; seconds of each."""
    arguments = [f"--build-arg {name}={value}" for name, value in BUILD.items()]

    def build(image: str) -> float:
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
        return time.monotonic() - started

    with alone(), concurrent.futures.ThreadPoolExecutor() as threads:
        # What the other two have in common comes with the first.
        seconds = {"analysis": build("analysis")}
        rest = ("lab", "notebook")
        seconds |= zip(rest, threads.map(build, rest), strict=True)
    print("built in", {image: f"{time:.0f} s" for image, time in seconds.items()})  # noqa: T201
    return seconds
