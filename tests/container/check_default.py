"""The image `lab` by its defaults: the pinned nsys, and the lock file for PyTorch with CUDA.

Neither the base image of PyTorch nor NVIDIA's repository can be counted on in a test, and 4 GB of
CUDA need not be fetched for it. The base's packages are stand-ins that have a name and a version;
all that the lock adds to them is the real thing.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.container.engine import BASE, PREFIX, UBUNTU, Engine

ROOT = Path(__file__).parents[2]
PYTORCH = f"{PREFIX}/pytorch-like"
LOCK = (ROOT / "requirements" / "lab.txt").read_text()
# A base has versions of its own of what the lock wants newer.
OLDER = {"numpy": "2.1.2", "jinja2": "3.1.4"}


def pins(text: str) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9_.-]+)==([^\s;\\]+)", text, re.MULTILINE)
    return {name.lower().replace("_", "-"): version for name, version in found}


def of_the_base() -> dict[str, str]:
    """What PyTorch's image brings: torch as its own index names it, and the CUDA it asks for."""
    entries = re.split(r"^(?=[a-z0-9])", LOCK, flags=re.MULTILINE)
    cuda = [entry for entry in entries if re.match(r"nvidia-|triton=", entry)]
    asked = [entry for entry in cuda if re.search(r"# +(via )?torch$", entry, re.MULTILINE)]
    have = pins("".join(asked))
    locked = pins(LOCK)
    return have | {name: f"{locked[name]}+cu128" for name in ("torch", "torchvision")}


@pytest.fixture(scope="session")
def base(engine: Engine, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image like PyTorch's: a Python 3.11 that has torch, on what says that it is an Ubuntu."""
    site = tmp_path_factory.mktemp("site")
    for name, version in (of_the_base() | OLDER).items():
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "INSTALLER").write_text("pip\n")
    (site / "torch").mkdir()
    version = of_the_base()["torch"]
    (site / "torch" / "__init__.py").write_text(f"__version__ = '{version}'\n")
    engine("rm", "--force", "nsys-lab-pytorch-like")
    made = engine(
        "run", "--name", "nsys-lab-pytorch-like", "--network", "host",
        "--volume", f"{repository}:/given:ro", "--volume", f"{site}:/site:ro",
        UBUNTU, "bash", "-euc",
        "apt-get -qq update; apt-get -qq install --no-install-recommends python3-venv >/dev/null;"
        "mkdir -p /repository; cp -r /given/. /repository/; cp /given/os-release /etc/os-release;"
        "cp -r /site/. /usr/local/lib/python3.11/dist-packages/",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    fingerprint = (repository / "fingerprint").read_text().strip()
    engine.output(
        "commit",
        "--change", "ENV NVIDIA_REPOSITORY=file:///repository",
        "--change", f"ENV NVIDIA_KEY_FINGERPRINT={fingerprint}",
        "nsys-lab-pytorch-like", PYTORCH,
    )  # fmt: skip
    engine.output("rm", "nsys-lab-pytorch-like")
    return PYTORCH


def test_the_lock_is_installed_beside_the_torch_of_the_base(
    engine: Engine, base: str, checkout: Path, build_options: list[str]
) -> None:
    bases = [f"--build-arg BASE_IMAGE={base}", f"--build-arg ANALYSIS_BASE_IMAGE={BASE}"]
    settings = {
        "LAB_IMAGES": f"{PREFIX}/default",
        "EXTRA_BUILD_ARGS": " ".join([*build_options, *bases]),
    }
    built = subprocess.run(
        ["docker/build.sh", "lab"],
        cwd=checkout,
        env=engine.environment | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout[-4000:]
    image = "default/lab"
    here = engine.in_image(
        image, "find", "/opt/venv/lib", "-maxdepth", "3", "-name", "*.dist-info", "-printf", "%f\n"
    )
    installed = re.findall(r"^(.+)-(.+)\.dist-info$", here, re.MULTILINE)
    names = {name.lower().replace("_", "-").replace(".", "-") for name, _ in installed}
    brought = of_the_base()
    assert {"torch", "torchvision", "triton", "nvidia-cudnn-cu12"} <= brought.keys()
    # Gigabytes that are there already.
    assert names.isdisjoint(brought)
    assert {"numba-cuda", "nvidia-cuda-nvcc-cu12", "numpy", "jinja2", "nsys-lab"} <= names

    listed = pins(engine.in_image(image, "cat", "/opt/venv/share/nsys-lab/packages.txt"))
    wanted = pins(LOCK) | {name: brought[name] for name in ("torch", "torchvision")}
    assert wanted.items() <= listed.items()
    bills = [
        json.loads(engine.in_image(image, "cat", f"/opt/venv/share/nsys-lab/{kind}.cdx.json"))
        for kind in ("debian", "python")
    ]
    urls = [{part["purl"] for part in bill["components"]} for bill in bills]
    assert any(url.startswith("pkg:deb/ubuntu/nsight-systems-cli-2025.6.1@") for url in urls[0])
    assert f"pkg:pypi/torch@{brought['torch'].replace('+', '%2B')}" in urls[1]
    assert f"pkg:pypi/numpy@{pins(LOCK)['numpy']}" in urls[1]
    told = engine.in_image(image, "nsyslab", "doctor")
    assert "2025.6.1.190" in told
    assert "/opt/nvidia/nsight-systems-cli/2025.6.1/host-linux-x64/QdstrmImporter" in told
    assert "records and exports" in told
    assert "d2h_async" in engine.in_image(image, "nsyslab", "list")
    engine.in_image(image, "pip", "check")
