"""The container engine of the tests that need one."""

import shutil

import pytest

from tests.container.engine import Engine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Podman, ready to run containers of the base image."""
    for tool in ("podman", "debootstrap"):
        assert shutil.which(tool), f"{tool} is missing: apt-get install podman runc debootstrap"
    return Engine(tmp_path_factory.mktemp("engine"))
