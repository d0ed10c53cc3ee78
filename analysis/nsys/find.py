"""Finds every nsys of this machine, says which one to use, and what each lacks."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import ToolError
from analysis.nsys import process

#: Where nsys gets installed, besides PATH. Sources: the Nsight Systems installation guide
#: (packages and run files), the Nsight Compute packages, which carry an nsys for their own use, the
#: CUDA toolkit's run file, and Debian's package.
PLACES = (
    "/opt/nvidia/nsight-systems*/bin",
    "/opt/nvidia/nsight-systems*/*/bin",
    "/opt/nvidia/nsight-systems*/*/target-linux-*",
    "/opt/nvidia/nsight-compute/*/host/target-linux-*",
    "/usr/local/cuda*/bin",
    "/usr/local/cuda*/nsight-systems*/bin",
    "/usr/local/cuda*/nsight-compute*/host/target-linux-*",
    "/usr/lib/nsight-systems/bin",
    "/usr/lib/*-linux-gnu/nsight-systems/target-linux-*",
)
#: Where the importer of .../target-linux-x64/nsys lies, seen from that folder's parent: in
#: NVIDIA's own layout, Nsight Compute's, and Debian's.
IMPORTER_PLACES = (
    (".", "host-linux-*/QdstrmImporter"),
    (".", "linux-desktop-glibc_*/QdstrmImporter"),
    ("../..", "nsight-systems/host-linux-*/QdstrmImporter"),
)
#: Debian and Ubuntu package by shared library; those that the importer has been seen to lack.
PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libOpenGL.so.0": "libopengl0",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libasound.so.2": "libasound2",
    "libcurl.so.4": "libcurl4",
    "libdbus-1.so.3": "libdbus-1-3",
    "libdw.so.1": "libdw1",
    "libelf.so.1": "libelf1",
    "libexpat.so.1": "libexpat1",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libnspr4.so": "libnspr4",
    "libnss3.so": "libnss3",
    "libpfm.so.4": "libpfm4",
    "libssh.so": "libssh-4",
    "libssh.so.4": "libssh-4",
    "libssl.so.3": "libssl3",
    "libstdc++.so.6": "libstdc++6",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libz.so.1": "zlib1g",
}
INSTALL_HINT = (
    "install it with docker/install-nsys.sh or from https://developer.nvidia.com/nsight-systems, "
    "or name it: NSYS=/path/to/nsys"
)
_VERSION = re.compile(r"version\s+(\d{4}(?:\.\d+)+)(-\S+)?")
_MISSING = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)


@dataclass(frozen=True)
class MissingLibrary:
    """A shared library that the importer needs and the machine lacks.

    Attributes:
        name: Its file name, ``libdw.so.1``.
        package: The Debian or Ubuntu package that has it; None if not known.
    """

    name: str
    package: str | None


@dataclass(frozen=True)
class Nsys:
    """One nsys.

    Attributes:
        path: The program.
        version: As numbers, (2025, 3, 2, 367); empty when it does not run.
        version_text: As nsys prints it, "2025.3.2.367-253235681190v0".
        importer: Its QdstrmImporter; None if there is none.
        missing_libraries: What the importer cannot be started without.
        found_in: "NSYS", "PATH", or the folder pattern that led to it.
        problem: Why it does not run; None if it does.
    """

    path: Path
    version: tuple[int, ...]
    version_text: str
    importer: Path | None
    missing_libraries: tuple[MissingLibrary, ...]
    found_in: str
    problem: str | None = None

    @property
    def complete(self) -> bool:
        """Whether it runs and can make a report of what it records."""
        return self.problem is None and self.importer is not None and not self.missing_libraries


def find_all() -> list[Nsys]:
    """Every nsys of this machine, the best first.

    With NSYS in the environment that one is first, whatever it is. Of the others, those that run
    come first, of these the complete ones, of these the newest.
    """
    wanted = os.environ.get("NSYS")
    candidates: list[tuple[Path, str]] = []
    if wanted:
        candidates.append((Path(shutil.which(wanted) or wanted), "NSYS"))
    candidates += [(Path(folder or ".") / "nsys", "PATH") for folder in os.get_exec_path()]
    for pattern in PLACES:
        places = sorted(Path("/").glob(pattern.lstrip("/")))
        candidates += [(place / "nsys", pattern) for place in places]
    seen: set[Path] = set()
    found: list[Nsys] = []
    for path, found_in in candidates:
        real = path.resolve()
        if real in seen or not (
            found_in == "NSYS" or (path.is_file() and os.access(path, os.X_OK))
        ):
            continue
        seen.add(real)
        found.append(_probe(path.absolute(), found_in))
    return sorted(
        found,
        key=lambda n: (n.found_in == "NSYS", n.problem is None, n.complete, n.version),
        reverse=True,
    )


def find() -> Nsys:
    """The nsys to record and import with: NSYS if set, else the newest complete one that runs.

    Raises:
        ToolError: There is none, or the one that NSYS names does not run.
    """
    found = find_all()
    if not found:
        raise ToolError("nsys was not found", hint=INSTALL_HINT)
    if found[0].problem is not None:
        named = "the nsys that NSYS names" if found[0].found_in == "NSYS" else "nsys"
        raise ToolError(f"{named} does not run: {found[0].problem}", hint=INSTALL_HINT)
    return found[0]


def find_newest() -> Nsys:
    """The nsys to read reports with: NSYS if set, else the newest that runs.

    Reports open only in the version that wrote them or a newer one; reading needs no importer.

    Raises:
        ToolError: As `find`.
    """
    best = find()
    if best.found_in == "NSYS":
        return best
    return max((n for n in find_all() if n.problem is None), key=lambda n: n.version)


def cure(libraries: tuple[MissingLibrary, ...]) -> str:
    """What to install for these libraries, one line."""
    packages = sorted({lib.package for lib in libraries if lib.package})
    unknown = sorted({lib.name for lib in libraries if not lib.package})
    steps = []
    if packages:
        steps.append(f"apt-get install {' '.join(packages)}")
    if unknown:
        steps.append(f"find the package of {', '.join(unknown)} (apt-file search)")
    return "; ".join(steps)


def parse_version(text: str) -> tuple[int, ...]:
    """The numbers of "2025.3.2.367-abc" or "2025@3@2@367-abc"; empty when there are none."""
    match = re.match(r"(\d{4}(?:[.@]\d+)+)", text)
    return tuple(int(part) for part in re.split(r"[.@]", match[1])) if match else ()


@functools.lru_cache(maxsize=64)
def _probe_at(path: Path, found_in: str, mtime_ns: int) -> Nsys:  # noqa: ARG001 - part of the key
    problem: str | None = None
    version_text = ""
    try:
        done = process.run([path, "--version"], timeout_s=process.PROBE_S)
    except ToolError as error:
        problem = str(error)
    else:
        match = _VERSION.search(done.text)
        if done.timed_out:
            problem = f"{path} --version did not answer in {process.PROBE_S:.0f} s"
        elif done.exit_code != 0 or match is None:
            said = done.text.splitlines()
            problem = f"{path}: {said[-1] if said else f'exit code {done.exit_code}'}"
        else:
            version_text = match[1] + (match[2] or "")
    importer = _importer(path)
    return Nsys(
        path=path,
        version=parse_version(version_text),
        version_text=version_text,
        importer=importer,
        missing_libraries=missing_libraries(importer) if importer else (),
        found_in=found_in,
        problem=problem,
    )


def _probe(path: Path, found_in: str) -> Nsys:
    try:
        return _probe_at(path, found_in, path.stat().st_mtime_ns)
    except FileNotFoundError:
        return Nsys(path, (), "", None, (), found_in, f"{path} does not exist")


def _importer(nsys: Path) -> Path | None:
    base = nsys.resolve().parent.parent
    for start, pattern in IMPORTER_PLACES:
        for path in sorted((base / start).glob(pattern)):
            if os.access(path, os.X_OK):
                return path.resolve()
    return None


def missing_libraries(program: Path) -> tuple[MissingLibrary, ...]:
    """The shared libraries, direct and indirect, that a program lacks (by ldd)."""
    ldd = shutil.which("ldd")
    if ldd is None or platform.system() != "Linux":
        return ()
    try:
        done = subprocess.run(
            [ldd, program], capture_output=True, text=True, timeout=process.PROBE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return ()
    names = dict.fromkeys(_MISSING.findall(done.stdout))
    return tuple(MissingLibrary(name, PACKAGES.get(name)) for name in names)
