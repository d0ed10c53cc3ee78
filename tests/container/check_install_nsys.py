"""docker/install-nsys.sh, installing: in containers of a bare Debian. `make test-image` runs this.

NVIDIA's repository cannot be counted on in a test; a small one of the same shape, signed with a
key of its own, stands in for it, and `/etc/os-release` says Ubuntu. The apt, the key check and the
proof are real; the nsys in its package writes an empty report.
"""

import subprocess
from pathlib import Path

import pytest

from tests.container.engine import BASE, PREFIX, Engine

ROOT = Path(__file__).parents[2]
# Has what the script installs first, and the tools to make a repository.
UBUNTU = f"{PREFIX}/ubuntu-like"

MAKE_REPOSITORY = r"""
set -eu
apt-get -qq update
apt-get -qq install --no-install-recommends ca-certificates gpg gpg-agent >/dev/null
repository=/repository/devtools/repos/ubuntu2404/amd64
keys=/repository/compute/cuda/repos/ubuntu1804/x86_64
mkdir -p "$repository" "$keys" /tmp/package/DEBIAN /tmp/package/usr/local/bin
cat >/tmp/package/usr/local/bin/nsys <<'EOF'
#!/bin/sh
case $1 in
    --version) echo "NVIDIA Nsight Systems version 2025.6.1.190-256136895201v0" ;;
    profile)
        for option; do
            case $option in --output=*) echo report >"${option#--output=}.nsys-rep" ;; esac
        done
        ;;
esac
EOF
chmod 755 /tmp/package/usr/local/bin/nsys
cat >/tmp/package/DEBIAN/control <<'EOF'
Package: nsight-systems-cli-2025.6.1
Version: 2025.6.1.190-256136895201v0
Architecture: amd64
Maintainer: nobody <nobody@localhost>
Description: stands in for NVIDIA's
EOF
dpkg-deb --build /tmp/package "$repository/nsys.deb" >/dev/null
cd "$repository"
{
    cat /tmp/package/DEBIAN/control
    echo "Filename: ./nsys.deb"
    echo "Size: $(stat -c %s nsys.deb)"
    echo "SHA256: $(sha256sum nsys.deb | cut -d' ' -f1)"
} >Packages
{
    echo "Date: $(date -Ru)"
    echo "SHA256:"
    echo " $(sha256sum Packages | cut -d' ' -f1) $(stat -c %s Packages) Packages"
} >Release
gpg --batch --quiet --passphrase '' --quick-generate-key tester rsa3072 default never
gpg --batch --quiet --clearsign --output InRelease Release
gpg --armor --export tester >"$keys/7fa2af80.pub"
gpg --list-keys --with-colons tester |
    awk -F: '$1 == "fpr" { print $10; exit }' >/repository/fingerprint
printf 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04"\n' >/repository/os-release
"""


@pytest.fixture(scope="session")
def repository(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    folder.chmod(0o755)
    engine("rm", "--force", "nsys-lab-repository")
    made = engine(
        "run", "--name", "nsys-lab-repository", "--network", "host",
        "--volume", f"{folder}:/repository", BASE, "bash", "-c", MAKE_REPOSITORY,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    engine.output("commit", "nsys-lab-repository", UBUNTU)
    engine.output("rm", "nsys-lab-repository")
    return folder


Result = subprocess.CompletedProcess[str]


def on_ubuntu(engine: Engine, repository: Path, commands: str, fingerprint: str = "") -> Result:
    """Run commands where the stand-in is NVIDIA's repository and the system an Ubuntu."""
    trusted = fingerprint or (repository / "fingerprint").read_text().strip()
    return engine(
        "run", "--rm", "--network", "host",
        "--volume", f"{ROOT / 'docker'}:/docker:ro",
        "--volume", f"{repository}:/repository:ro",
        "--volume", f"{repository}/os-release:/etc/os-release:ro",
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
