"""The container's shared memory against what the workloads say they need of it."""

import importlib
import re
from pathlib import Path

import pytest

from workloads import registry
from workloads.parameters import Parameters

UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}


@pytest.mark.torch
def test_the_container_has_the_shared_memory_that_the_workloads_need() -> None:
    compose = (Path(__file__).parents[2] / "compose.yaml").read_text()
    [shm] = re.finditer(r'shm_size: "\$\{LAB_SHM_SIZE:-(\d+)([kmg])\}"', compose)
    given = int(shm[1]) * UNITS[shm[2]]

    needed = {}
    for entry in registry.entries():
        module = importlib.import_module(f"workloads.ladders.{entry.workload.ladder}.{entry.name}")
        needed[entry.name] = module.needs(Parameters.of(entry.workload.defaults, {})).shared
    # 8 buffers of 64 maps of 21 classes, 512 x 512, 4 bytes.
    assert needed["d2h_pool"] >= 8 * 64 * 21 * 512 * 512 * 4
    assert {name: size for name, size in needed.items() if size > given} == {}
