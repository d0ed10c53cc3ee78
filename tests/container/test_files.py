"""The files that images are made from: valid, locked, and in step with each other."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
# Of every folder that has its own; environments and caches are hidden ones.
SCRIPTS = [ROOT / ".ci" / "run", *sorted(ROOT.glob("[a-z]*/**/*.sh"))]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())


def check(tool: str, *arguments: str) -> None:
    """Run a linter of the test environment; its words are the assertion's message."""
    beside = Path(sys.executable).with_name(tool)
    path = beside if beside.exists() else shutil.which(tool)
    assert path, f"{tool} is not installed; make test installs it"
    result = subprocess.run(
        [path, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_dockerfile_passes_its_linter() -> None:
    check("hadolint", "docker/Dockerfile")


def test_the_scripts_pass_their_linter() -> None:
    assert {"run.sh", "install-nsys.sh", "lock.sh", "screenshot-gui.sh"} <= {
        p.name for p in SCRIPTS
    }
    check("shellcheck", "--external-sources", *map(str, SCRIPTS))


def test_compose_files_are_valid_by_the_compose_specification() -> None:
    files = sorted(path.name for path in ROOT.glob("compose*.yaml"))
    assert files == ["compose.sampling.yaml", "compose.yaml"]
    check("check-jsonschema", "--builtin-schema", "vendor.compose-spec", *files)


def test_the_override_touches_services_that_exist() -> None:
    override = yaml.safe_load((ROOT / "compose.sampling.yaml").read_text())
    assert override["services"].keys() <= COMPOSE["services"].keys()
    assert {tuple(s["cap_add"]) for s in override["services"].values()} == {("PERFMON",)}


def test_services_ask_for_no_more_than_they_need() -> None:
    for name, service in COMPOSE["services"].items():
        assert "cap_add" not in service, name
        assert "privileged" not in service, name
        assert service["user"] == "${LAB_UID:-1000}:${LAB_GID:-1000}", name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
    reserved = COMPOSE["services"]["lab"]["deploy"]["resources"]["reservations"]["devices"]
    assert [device["capabilities"] for device in reserved] == [["gpu"]]
    assert COMPOSE["services"]["lab"]["ulimits"] == {"memlock": -1}


def build_arguments() -> dict[str, str]:
    return dict(re.findall(r"^ARG ([A-Z_]+)=(.+)$", DOCKERFILE.read_text(), re.MULTILINE))


def test_every_base_image_and_version_is_a_pinned_build_argument() -> None:
    text = DOCKERFILE.read_text()
    arguments = build_arguments()
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE))
    for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        argument = re.fullmatch(r"\$\{([A-Z_]+)\}", base)
        if argument:
            # Podman takes no short names, and a tag alone may move.
            assert re.fullmatch(r"docker\.io/\S+@sha256:[0-9a-f]{64}", arguments[argument[1]]), base
        else:
            assert base in {*stages, "scratch"}
    assert re.fullmatch(r"\d{4}\.\d+\.\d+", arguments["NSYS_VERSION"])
    assert arguments["BASE_IMAGE"].startswith(
        "docker.io/pytorch/pytorch:${TORCH_VERSION}-cuda${CUDA_VERSION}"
    )
    assert Version(arguments["CUDA_MINIMUM"]).major == Version(arguments["CUDA_VERSION"]).major


def locked(path: Path) -> dict[str, Version]:
    pins = re.findall(r"^([a-z0-9-]+)==(\S+) \\$", path.read_text(), re.MULTILINE)
    assert pins, path
    return {name: Version(version) for name, version in pins}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_locked_file_has_its_hash_and_no_address(path: Path) -> None:
    text = path.read_text()
    pins = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    for pin in pins:
        assert re.match(r"[a-z0-9-]+==[^\s;]+ \\\n    --hash=sha256:[0-9a-f]{64}", pin), pin[:80]
    assert not re.search(r"://|--find-links|--index-url|--extra-index-url| @ ", text)


@pytest.mark.parametrize(
    ("lock", "extra"), [("analysis", []), ("notebook", ["notebook"]), ("lab", ["workloads"])]
)
def test_locks_are_in_step_with_the_project(lock: str, extra: list[str]) -> None:
    pins = locked(ROOT / "requirements" / f"{lock}.txt")
    groups = PROJECT["dependency-groups"] | PROJECT["project"]["optional-dependencies"]
    wanted = PROJECT["project"]["dependencies"] + [r for name in extra for r in groups[name]]
    for line in wanted:
        requirement = Requirement(line)
        have = pins.get(requirement.name)
        assert have is not None, f"{line}: run requirements/lock.sh"
        assert requirement.specifier.contains(have), f"{line}, locked {have}: requirements/lock.sh"


def test_the_image_and_its_lock_have_one_torch() -> None:
    pins = locked(ROOT / "requirements" / "lab.txt")
    assert str(pins["torch"]) == build_arguments()["TORCH_VERSION"]
    # The ranges of newer nvtx packages are lost on nsys 2023.4 and older, not on the image's.
    assert int(build_arguments()["NSYS_VERSION"][:4]) >= 2024


def test_the_build_context_is_what_the_images_copy() -> None:
    allowed = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert ".dockerignore" not in allowed
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
    sources = " ".join(copied).replace("${LAB_LOCK}", build_arguments()["LAB_LOCK"]).split()
    for source in sources:
        assert any(Path(source).match(pattern) for pattern in allowed), source
