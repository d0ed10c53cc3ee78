"""A real container engine, and a bare Debian to build on, for what `make test-image` runs.

The engine is Podman, which needs no daemon; tests/container/install.sh installs it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PREFIX = "localhost/nsys-lab-test"
RELEASE = "bookworm"
BASE = f"{PREFIX}/debian:{RELEASE}"
# The base with what docker/install-nsys.sh installs first, and the tools to make a repository.
UBUNTU = f"{PREFIX}/ubuntu-like"
# Anybody but root and the images' own user.
USER = 4321
# Inside another container the limits and control groups are the outer one's.
NESTED = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
"""


def execute(
    command: list[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it says."""
    return subprocess.run(command, env=environment, text=True, capture_output=True, check=False)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One of the processes that run these tests at a time: the others wait to find it done."""
    with (Path(tempfile.gettempdir()) / "nsys-lab-test-image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Engine:
    """Podman, with what it needs on this machine."""

    def __init__(self, folder: Path) -> None:
        self.environment = {
            **os.environ,
            **apt_proxies(),
            "ENGINE": "podman",
            "LAB_IMAGES": PREFIX,
            "RUNNER": "container",
        }
        answer = self("info")
        if answer.returncode:
            pytest.fail(f"podman does not work on this machine: {answer.stderr}", pytrace=False)
        with alone():
            if self("image", "exists", BASE).returncode:
                self.make_base(folder)
        if self("run", "--rm", BASE, "true").returncode:
            conf = folder / "containers.conf"
            conf.write_text(NESTED)
            self.environment["CONTAINERS_CONF"] = str(conf)
            probe = self("run", "--rm", BASE, "true")
            if probe.returncode:
                pytest.fail(
                    "podman cannot run a container here; the kernel must allow root namespaces, "
                    f"mounts and control groups: {probe.stderr}",
                    pytrace=False,
                )

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return execute(["podman", *arguments], self.environment)

    def output(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def in_image(self, image: str, *command: str) -> str:
        return self.output("run", "--rm", "--network", "none", f"{PREFIX}/{image}", *command)

    def make_base(self, folder: Path) -> None:
        """A Debian of the essential packages and apt, from the mirror that this machine uses."""
        archive = folder / "base.tar"
        # As Debian's own images have it: an image is not there to survive a power cut.
        options = ["--variant=minbase", "--dpkgopt=force-unsafe-io"]
        made = execute(
            ["mmdebstrap", *options, RELEASE, str(archive), *debian_mirror()], self.environment
        )
        if made.returncode:
            pytest.fail(f"mmdebstrap made no Debian: {made.stderr[-3000:]}", pytrace=False)
        self.output("import", str(archive), BASE)
        archive.unlink()


def debian_mirror() -> list[str]:
    """The mirror that this machine's Debian uses, if it is not the public one."""
    if not re.search(r"^ID=debian$", Path("/etc/os-release").read_text(), re.MULTILINE):
        return []
    form = "$(ORIGIN) $(COMPONENT) $(LABEL) $(REPO_URI)"
    listed = execute(["apt-get", "indextargets", "--format", form, "Created-By: Packages"]).stdout
    mirrors = re.findall(r"^Debian main Debian (\S+)$", listed, re.MULTILINE)
    return [url for url in mirrors if not url.startswith("http://deb.debian.org/")][:1]


def apt_proxies() -> dict[str, str]:
    """Proxies that only apt's configuration knows, as the variables that everything knows."""
    asked = ["http_proxy", "Acquire::http::Proxy", "https_proxy", "Acquire::https::Proxy"]
    told = execute(["apt-config", "shell", *asked]).stdout
    proxies = dict(re.findall(r"^(\w+)='(.+)'$", told, re.MULTILINE))
    proxies = {name: url for name, url in proxies.items() if url != "DIRECT"}
    return {name: url for name, url in proxies.items() if name not in os.environ}
