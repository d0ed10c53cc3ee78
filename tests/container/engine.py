"""A real container engine, and a bare Debian to build on, for what `make test-image` runs.

The engine is Podman, which needs no daemon: ``sudo apt-get install podman runc debootstrap``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

PREFIX = "localhost/nsys-lab-test"
RELEASE = "bookworm"
BASE = f"{PREFIX}/debian:{RELEASE}"


def execute(
    command: list[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it says."""
    return subprocess.run(command, env=environment, text=True, capture_output=True, check=False)


class Engine:
    """Podman, with what it needs on this machine."""

    def __init__(self, folder: Path) -> None:
        self.environment = {
            **os.environ,
            "ENGINE": "podman",
            "LAB_IMAGES": PREFIX,
            "RUNNER": "container",
        }
        make_base(folder)
        if self("run", "--rm", BASE, "true").returncode:
            # Inside another container the limits and control groups are the outer one's.
            conf = folder / "containers.conf"
            conf.write_text(
                '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
                '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\n'
            )
            self.environment["CONTAINERS_CONF"] = str(conf)
            probe = self("run", "--rm", BASE, "true")
            assert probe.returncode == 0, f"podman cannot run a container: {probe.stderr}"

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return execute(["podman", *arguments], self.environment)

    def output(self, *arguments: str) -> str:
        result = self(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def in_image(self, image: str, *command: str) -> str:
        return self.output("run", "--rm", "--network", "none", f"{PREFIX}/{image}", *command)


def make_base(folder: Path) -> None:
    if execute(["podman", "image", "exists", BASE]).returncode == 0:
        return
    tree = folder / RELEASE
    made = execute(["debootstrap", "--variant=minbase", RELEASE, str(tree)])
    assert made.returncode == 0, made.stdout[-2000:]
    archive = folder / "base.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tree, arcname=".")
    imported = execute(["podman", "import", str(archive), BASE])
    assert imported.returncode == 0, imported.stderr
    shutil.rmtree(tree)
