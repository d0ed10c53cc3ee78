"""What this machine can record: nsys and its parts, GPU, permissions, memory, containers."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import LabError
from analysis.nsys import process, sampling
from analysis.nsys.export import default_cache
from analysis.nsys.find import INSTALL_HINT, Nsys, cure, find_all, find_newest

#: From this version on, nsys and nvtx speak the same protocol in any combination.
_NSYS_FOR_NEW_NVTX = (2024,)
#: From this version on, nvtx needs such an nsys; older ones record no push/pop range of it.
_NEW_NVTX = (0, 2, 9)


@dataclass(frozen=True)
class Gpu:
    """A GPU, as nvidia-smi has it."""

    name: str
    memory: str
    driver: str


@dataclass(frozen=True)
class Ability:
    """Something that can or cannot be recorded here, and why not or what it takes."""

    what: str
    possible: bool
    detail: str


@dataclass(frozen=True)
class Machine:
    """What there is.

    Attributes:
        nsys: Every nsys, the one that records first.
        reads: The one that exports reports, the newest; None if none runs.
        gpus: What nvidia-smi lists.
        gpu_problem: Why it lists none; None if it does.
        perf_event_paranoid: The kernel's setting; None if it has none.
        alone: Whether a recording can be kept from seeing other processes' environments.
        nvtx: Version of the Python package nvtx in this environment; None if it is not installed.
        shm_bytes: Size of /dev/shm; None if there is none.
        shm_free_bytes: How much of it is free.
        container: The kind of container that this runs in; None if in none that shows.
        engines: Container engines on PATH, each with its state.
        cache: Where exports go that can't lie beside their report.
        abilities: What can be recorded.
        advice: What to do, in order of importance.
    """

    nsys: tuple[Nsys, ...]
    reads: Nsys | None
    gpus: tuple[Gpu, ...]
    gpu_problem: str | None
    perf_event_paranoid: int | None
    alone: bool
    nvtx: str | None
    shm_bytes: int | None
    shm_free_bytes: int | None
    container: str | None
    engines: tuple[tuple[str, str], ...]
    cache: Path
    abilities: tuple[Ability, ...]
    advice: tuple[str, ...]

    @property
    def can_record(self) -> bool:
        """Whether anything at all can be recorded."""
        return bool(self.nsys) and self.nsys[0].complete


def look() -> Machine:
    """Look at this machine; nothing is changed, and nothing is sent anywhere."""
    nsys = tuple(find_all())
    try:
        reads = find_newest()
    except LabError:
        reads = None
    gpus, gpu_problem = _gpus()
    nvtx = _nvtx()
    shm = shutil.disk_usage("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108
    advice: list[str] = []
    abilities = _abilities(nsys, gpus, gpu_problem, nvtx, advice)
    return Machine(
        nsys=nsys,
        reads=reads,
        gpus=gpus,
        gpu_problem=gpu_problem,
        perf_event_paranoid=_paranoid(),
        alone=_alone(),
        nvtx=nvtx,
        shm_bytes=shm.total if shm else None,
        shm_free_bytes=shm.free if shm else None,
        container=_container(),
        engines=_engines(),
        cache=default_cache(),
        abilities=abilities,
        advice=tuple(advice),
    )


def _abilities(
    nsys: tuple[Nsys, ...],
    gpus: tuple[Gpu, ...],
    gpu_problem: str | None,
    nvtx: str | None,
    advice: list[str],
) -> tuple[Ability, ...]:
    best = nsys[0] if nsys else None
    if best is None:
        advice.append(f"nsys is missing: {INSTALL_HINT}")
        return (Ability("anything", False, "nsys was not found"),)
    if best.problem is not None:
        advice.append(f"{best.path} does not run ({best.problem}): {INSTALL_HINT}")
        return (Ability("anything", False, "nsys does not run"),)
    if best.importer is None:
        advice.append(f"{best.path} has no QdstrmImporter: install the whole of Nsight Systems")
        return (Ability("anything", False, "nsys has no importer to make reports with"),)
    if best.missing_libraries:
        advice.append(cure(best.missing_libraries))
        names = ", ".join(library.name for library in best.missing_libraries)
        return (Ability("anything", False, f"the importer lacks {names}"),)
    ranges = Ability("NVTX ranges", True, "any program that marks them")
    if nvtx is not None and not _nvtx_fits(nvtx, best):
        ranges = Ability(
            "NVTX ranges",
            False,
            f"Python's nvtx {nvtx} and nsys {_short(best)} record none; other languages do",
        )
        advice.append("pip install nvtx==0.2.8, or use nsys 2024 or newer")
    if not gpus:
        advice.append("without a GPU: nsyslab run and profile take --device cpu")
    no_samples = sampling.obstacle(best)
    return (
        Ability("OS runtime calls", True, "on the CPU, no GPU needed"),
        ranges,
        Ability("CUDA", bool(gpus), gpu_problem or f"{len(gpus)} GPU(s)"),
        Ability(
            "CPU samples",
            no_samples is None,
            no_samples or "with --sample",
        ),
    )


def _short(nsys: Nsys) -> str:
    return ".".join(str(part) for part in nsys.version[:2])


def _nvtx_fits(nvtx: str, nsys: Nsys) -> bool:
    numbers = tuple(int(part) for part in re.findall(r"\d+", nvtx)[:3])
    return numbers < _NEW_NVTX or nsys.version >= _NSYS_FOR_NEW_NVTX


def _nvtx() -> str | None:
    try:
        return importlib.metadata.version("nvtx")
    except importlib.metadata.PackageNotFoundError:
        return None


def _gpus() -> tuple[tuple[Gpu, ...], str | None]:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return (), "nvidia-smi was not found: no NVIDIA driver here"
    done = process.run(
        [smi, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"],
        timeout_s=process.PROBE_S,
    )
    if done.exit_code != 0:
        return (), f"nvidia-smi fails: {done.reason}"
    rows = [[part.strip() for part in line.split(",")] for line in done.text.splitlines()]
    return tuple(Gpu(*row) for row in rows if len(row) == len(Gpu.__dataclass_fields__)), None


def _paranoid() -> int | None:
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _alone() -> bool:
    # In a PID namespace of its own the supervisor is process 1.
    done = process.run(["sh", "-c", "echo $PPID"], timeout_s=process.PROBE_S, alone=True)
    return done.text == "1"


def _container() -> str | None:
    if Path("/.dockerenv").exists():
        return "docker"
    if Path("/run/.containerenv").exists():
        return "podman"
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    return "apptainer" if "APPTAINER_CONTAINER" in os.environ else None


def _engines() -> tuple[tuple[str, str], ...]:
    found = []
    for name in ("docker", "podman"):
        path = shutil.which(name)
        if path is not None:
            done = process.run([path, "version"], timeout_s=process.PROBE_S)
            state = "works" if done.exit_code == 0 else f"does not work: {done.reason}"
            found.append((name, state))
    toolkit = shutil.which("nvidia-ctk")
    if found:
        found.append(("nvidia-ctk", "found" if toolkit else "missing: no GPU in containers"))
    return tuple(found)
