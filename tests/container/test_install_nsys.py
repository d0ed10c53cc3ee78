"""docker/install-nsys.sh where it installs nothing: `check_install_nsys.py` lets it install."""

import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docker" / "install-nsys.sh"
HOST_FILES = Path("/usr/lib/nsight-systems/host-linux-x64")


def install(*arguments: str, setup: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script; `setup` are shell commands in mount and process namespaces of their own."""
    line = [str(SCRIPT), *arguments]
    if setup:
        wrapped = ["bash", "-euc", f'{setup}\n"$@"', "bash", *line]
        line = ["unshare", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
        line += ["--mount-proc", *wrapped]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--version"], "--version needs a value"),
        (["--version", "2025.6.1;reboot"], "not a version: 2025.6.1;reboot"),
        (["2025.6.1"], "unknown argument: 2025.6.1"),
    ],
)
def test_usage(arguments: list[str], error: str) -> None:
    result = install(*arguments)
    assert result.returncode == 2
    first, second = result.stderr.splitlines()
    assert first == f"install-nsys: error: {error}"
    assert second.startswith("install-nsys:   next: ")


def test_help_is_the_comment_at_the_top() -> None:
    result = install("--help")
    assert result.returncode == 0
    assert result.stdout.startswith("Installs the Nsight Systems command line (nsys)")
    assert result.stdout.splitlines()[-1].startswith("proof failed.")


def test_a_system_it_does_not_know(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text('ID=fedora\nVERSION_ID=42\nPRETTY_NAME="Fedora Linux 42"\n')
    result = install(setup=f"mount --bind {release} /etc/os-release")
    assert result.returncode == 2
    assert "this is Fedora Linux 42; the script knows Debian and Ubuntu" in result.stderr
    assert "https://developer.nvidia.com/nsight-systems/get-started" in result.stderr


@pytest.mark.nsys
def test_an_installed_nsys_is_left_alone_and_proves_itself() -> None:
    nsys = shutil.which("nsys")
    assert nsys, "sudo docker/install-nsys.sh"
    result = install()
    assert result.returncode == 0, result.stderr
    [line] = result.stderr.splitlines()
    assert line.startswith("install-nsys: nsys 20")
    assert line.endswith(f"records: {nsys}")


@pytest.mark.nsys
def test_an_nsys_without_its_importer_is_not_taken_for_a_working_one(tmp_path: Path) -> None:
    assert HOST_FILES.is_dir(), "Debian's package is what this test takes the importer from"
    result = install(setup=f"mount --bind {tmp_path} {HOST_FILES}")
    assert result.returncode == 4
    assert "has no importer (QdstrmImporter)" in result.stderr


@pytest.fixture
def broken_state() -> str:
    """Commands that leave what an nsys leaves that is killed while it makes its shared segment."""
    told = subprocess.run(["nsys", "--version"], capture_output=True, text=True, check=True)
    version = told.stdout.split()[-1].partition("-")[0]
    if not version.startswith("2022."):
        pytest.skip(f"nsys 2022.4 of bookworm keeps its state so, {version} does not")
    return textwrap.dedent(f"""
        mount -t tmpfs -o mode=1777 tmpfs /dev/shm
        mkdir -p /tmp/nvidia
        mount -t tmpfs -o mode=777 tmpfs /tmp/nvidia
        head -c 179488 /dev/zero >/dev/shm/NSys-{version}
    """)


@pytest.mark.nsys
def test_what_a_killed_nsys_left_is_cleared_and_said_so(broken_state: str) -> None:
    result = install(setup=broken_state)
    assert result.returncode == 0, result.stdout + result.stderr
    *said, proof = result.stderr.splitlines()
    assert said[0].endswith("an earlier one was killed and left its state behind")
    assert "removing that: /dev/shm/NSys-*," in said[1]
    # The agents of the attempts that failed.
    assert "agents " in said[1]
    assert "records: " in proof


@pytest.mark.nsys
def test_an_nsys_in_use_keeps_its_state(broken_state: str) -> None:
    in_use = "(exec -a /opt/nsys sleep 300) & trap 'ls /dev/shm' EXIT"
    result = install(setup=f"{broken_state}\n{in_use}")
    assert result.returncode == 4, result.stdout + result.stderr
    assert "NSys-2022.4" in result.stdout
    assert "could not record 'true' while nsys is in use (process " in result.stderr
    assert ": /opt/nsys 300)" in result.stderr
    assert "removing" not in result.stderr
