"""docker/install-nsys.sh, installing: in containers of a bare Debian. `make test-image` runs this.

Where the system is an Ubuntu, the apt, the key check and the proof are real; NVIDIA's repository is
the stand-in of repository.py.
"""

import subprocess
from pathlib import Path

from tests.container.engine import BASE, UBUNTU, Engine

ROOT = Path(__file__).parents[2]
Result = subprocess.CompletedProcess[str]


def on_ubuntu(
    engine: Engine,
    repository: Path,
    commands: str,
    fingerprint: str = "",
    release: Path | None = None,
) -> Result:
    """Run commands where the stand-in is NVIDIA's repository and the system an Ubuntu."""
    trusted = fingerprint or (repository / "fingerprint").read_text().strip()
    return engine(
        "run", "--rm", "--network", "host",
        "--volume", f"{ROOT / 'docker'}:/docker:ro",
        "--volume", f"{repository}:/repository:ro",
        "--volume", f"{release or repository / 'os-release'}:/etc/os-release:ro",
        "--env", "NVIDIA_REPOSITORY=file:///repository",
        "--env", f"NVIDIA_KEY_FINGERPRINT={trusted}",
        UBUNTU, "bash", "-euc", commands,
    )  # fmt: skip


def test_ubuntu_gets_the_version_that_the_dockerfile_pins(engine: Engine, repository: Path) -> None:
    sources = "find /etc/apt -type f | sort | xargs sha256sum"
    result = on_ubuntu(
        engine,
        repository,
        f"{sources} >/tmp/before; /docker/install-nsys.sh; {sources} >/tmp/after;"
        "cmp /tmp/before /tmp/after; nsys --version; echo again >&2; /docker/install-nsys.sh",
    )
    assert result.returncode == 0, result.stderr
    assert "2025.6.1.190" in result.stdout
    first, again = result.stderr.split("again\n")
    assert "installing nsight-systems-cli-2025.6.1 from file:///repository/devtools/" in first
    assert again == "install-nsys: nsys 2025.6.1.190 records: /usr/local/bin/nsys\n"


def test_ubuntu_has_nvidias_repository_already(engine: Engine, repository: Path) -> None:
    """As NVIDIA's guide and many images of GPU machines set it up: with a key of its own place."""
    address = "file:///repository/devtools/repos/ubuntu2404/amd64/"
    configured = (
        "gpg --dearmor </repository/compute/cuda/repos/ubuntu1804/x86_64/7fa2af80.pub >/etc/n.gpg;"
        f"echo 'deb [signed-by=/etc/n.gpg] {address} /' >>/etc/apt/sources.list;"
        "cp /etc/apt/sources.list /etc/apt/sources.list.d/nvidia-devtools.list;"
    )
    result = on_ubuntu(engine, repository, configured + "/docker/install-nsys.sh")
    assert result.returncode == 0, result.stderr
    assert "records: /usr/local/bin/nsys" in result.stderr


def test_an_ubuntu_that_nvidia_has_no_repository_for(engine: Engine, repository: Path) -> None:
    newer = repository / "os-release-newer"
    newer.write_text((repository / "os-release").read_text().replace("24.04", "25.10"))
    result = on_ubuntu(engine, repository, "/docker/install-nsys.sh", release=newer)
    assert result.returncode == 4
    assert "repos/ubuntu2510/amd64" in result.stderr
    assert "NVIDIA has repositories for the LTS releases" in result.stderr


def test_a_version_that_is_not_there(engine: Engine, repository: Path) -> None:
    result = on_ubuntu(engine, repository, "/docker/install-nsys.sh --version 2031.1.1")
    assert result.returncode == 2
    assert "no nsight-systems-cli-2031.1.1; it has nsight-systems-cli-2025.6.1" in result.stderr


def test_a_key_that_is_not_nvidias_is_not_trusted(engine: Engine, repository: Path) -> None:
    result = on_ubuntu(engine, repository, "/docker/install-nsys.sh", fingerprint="F" * 40)
    assert result.returncode == 4
    own = (repository / "fingerprint").read_text().strip()
    assert f"is {own}, not {'F' * 40}" in result.stderr


def test_debian_gets_its_own_package_and_keeps_its_sources(engine: Engine) -> None:
    result = engine(
        "run", "--rm", "--network", "host", "--volume", f"{ROOT / 'docker'}:/docker:ro", BASE,
        "bash", "-euc",
        "apt-get -qq update; cp -r /etc/apt /tmp/apt; /docker/install-nsys.sh --version 2022.4;"
        "diff -r /etc/apt /tmp/apt; dpkg --list | grep '^ii *libcuda1' >&2 && exit 1;"
        "echo again >&2; /docker/install-nsys.sh; /docker/install-nsys.sh --version 2025.6.1",
    )  # fmt: skip
    first, again = result.stderr.split("again\n")
    assert "installing nsight-systems 2022.4.2" in first
    assert "linked the importer into /usr/lib/x86_64-linux-gnu/nsight-systems" in first
    # The second call only proves, the third asks for what Debian does not have.
    assert result.returncode == 2, result.stderr
    proof, refusal, _ = again.splitlines()
    assert proof.endswith("records: /usr/bin/nsys")
    assert "Debian bookworm has nsys 2022.4.2" in refusal
    assert "not 2025.6.1" in refusal


def test_without_root_nothing_is_installed(engine: Engine) -> None:
    result = engine(
        "run", "--rm", "--user", "1000", "--volume", f"{ROOT / 'docker'}:/docker:ro", BASE,
        "/docker/install-nsys.sh",
    )  # fmt: skip
    assert result.returncode == 2
    assert "sudo docker/install-nsys.sh" in result.stderr
