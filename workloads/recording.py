"""Records programs into folders: report, export, output, and what was run (run.json)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from analysis.errors import InputError, LabError
from workloads import launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from analysis.nsys.record import Recording
    from workloads.parameters import Parameters
    from workloads.registry import Entry

SCHEMA = "nsyslab.recording/1"
RUN = "run.json"

_ELSEWHERE = "-o DIR chooses another place"
# What run.json calls the files of a recording.
_FILES = ("report", "sqlite", "log", "trace")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to record.

    Args:
        force: Replace an earlier recording in the folder.
        sample: Sample the CPU too.
        graph_nodes: Record the kernels of CUDA graphs one by one.
        timeout_s: Seconds after which the program is ended.
        environment: Variables for a program beyond those that it gets anyway.
        on_status: Gets a line of text now and then.
        on_output: Gets the program's output as it comes.
    """

    force: bool = False
    sample: bool = False
    graph_nodes: bool = False
    timeout_s: float | None = None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    on_status: Callable[[str], None] | None = None
    on_output: Callable[[bytes], None] | None = None

    def say(self, line: str) -> None:
        """Pass a line on, if somebody listens."""
        if self.on_status is not None:
            self.on_status(line)


def workload(
    entry: Entry, parameters: Parameters, folder: Path, settings: Settings
) -> dict[str, Any]:
    """Record a workload with nsys.

    Args:
        entry: The workload.
        parameters: Of the run; `steps` are those recorded.
        folder: Gets the recording; made if need be.
        settings: How.

    Returns:
        What run.json says, see docs/workloads.md.

    Raises:
        LabError: The workload or nsys failed; nothing is left in the folder.
    """
    # Without a GPU there is no capture range; the whole program is recorded.
    cuda = parameters.device != "cpu"
    with _folder(folder, force=settings.force), TemporaryDirectory(prefix="nsyslab-") as scratch:
        result = Path(scratch) / "run.json"
        command = launch.command(entry, parameters, record=result, capture=cuda)
        try:
            recording = _record(
                command,
                folder,
                entry.name,
                settings,
                trace=("cuda", "nvtx", "osrt") if cuda else ("nvtx", "osrt"),
                capture_range=cuda,
                called=entry.name,
            )
        except LabError:
            # What the workload says of its failure is better than what nsys makes of it.
            if result.exists():
                launch.read_record(entry.name, result, 0, "")
            raise
        run = launch.read_record(
            entry.name,
            result,
            recording.exit_code,
            recording.log.read_text(encoding="utf-8", errors="replace"),
        )
        # Without a capture range, on the CPU, the process does not know that it is recorded.
        about = _of_nsys(recording, settings, workload=entry.name, run=run | {"profiled": True})
        _replace(folder, about)
    return about


def workload_with_torch(
    entry: Entry, parameters: Parameters, folder: Path, settings: Settings
) -> dict[str, Any]:
    """Record a workload with PyTorch Profiler instead: NAME.pt.trace.json in the folder.

    Args and errors as `workload`.
    """
    trace = folder / f"{entry.name}.pt.trace.json"
    log: list[bytes] = []

    def keep(piece: bytes) -> None:
        log.append(piece)
        if settings.on_output is not None:
            settings.on_output(piece)

    with _folder(folder, force=settings.force), TemporaryDirectory(prefix="nsyslab-") as scratch:
        beside = Path(scratch) / trace.name
        run = launch.run(
            entry,
            parameters,
            torch_trace=beside,
            timeout_s=settings.timeout_s,
            on_output=keep,
        )
        _place(beside.read_bytes(), trace)
        _place(b"".join(log), folder / f"{entry.name}.log")
        about = _about(
            profiler="torch",
            workload=entry.name,
            trace=trace.name,
            log=f"{entry.name}.log",
            exit_code=0,
            run=run,
        )
        _replace(folder, about)
    return about


def program(
    command: Sequence[str], name: str, folder: Path, settings: Settings, *, capture_range: bool
) -> dict[str, Any]:
    """Record a program of the user's with nsys.

    Args:
        command: The program and its arguments.
        name: Of the files.
        folder: Gets the recording; made if need be.
        settings: How.
        capture_range: Record from its cudaProfilerStart to its cudaProfilerStop only.

    Returns:
        What run.json says.

    Raises:
        LabError: The program or nsys failed.
    """
    with _folder(folder, force=settings.force):
        recording = _record(command, folder, name, settings, capture_range=capture_range)
        about = _of_nsys(recording, settings, workload=None, run=None)
        _replace(folder, about)
    return about


def _record(
    command: Sequence[str], folder: Path, name: str, settings: Settings, **how: Any
) -> Recording:
    """Record with nsys as the settings say; `how` is passed on."""
    from analysis.nsys.record import record

    return record(
        command,
        folder=folder,
        name=name,
        sample=settings.sample,
        graph_nodes=settings.graph_nodes,
        timeout_s=settings.timeout_s,
        extra_env=settings.environment,
        force=settings.force,
        on_status=settings.on_status,
        on_output=settings.on_output,
        **how,
    )


def update(folder: Path, **values: Any) -> dict[str, Any]:
    """Add to the run.json of a folder."""
    about = read(folder) | values
    _write(folder, about)
    return about


def read(folder: Path) -> dict[str, Any]:
    """The run.json of a folder.

    Raises:
        InputError: There is none, or it is not one of ours.
    """
    path = folder / RUN
    try:
        about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path} cannot be read: {reason}") from error
    if not isinstance(about, dict) or about.get("schema") != SCHEMA:
        raise InputError(f"{path} was not written by this version of nsyslab profile")
    return about


def check_place(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to, before anything is run.

    Raises:
        InputError: It cannot.
    """
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise InputError(f"{there} is not a folder", hint=_ELSEWHERE)
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{there} cannot be written to", hint=_ELSEWHERE)


def check_folder(folder: Path, *, force: bool) -> None:
    """Refuse a folder that holds a recording already, before anything is run.

    Raises:
        InputError: It holds something, and `force` is not set; or it cannot be written to.
    """
    check_place(folder)
    if folder.is_dir() and not force and any(folder.iterdir()):
        recorded = (folder / RUN).exists() or any(folder.glob("*.nsys-rep"))
        raise InputError(
            f"{folder} holds a recording already" if recorded else f"{folder} is not empty",
            hint="--force replaces it, -o DIR puts the new one elsewhere"
            if recorded
            else "--force puts the recording there all the same, -o DIR elsewhere",
        )


@contextlib.contextmanager
def _folder(folder: Path, *, force: bool) -> Iterator[None]:
    """The folder of a recording, made if need be; gone again if the recording fails."""
    check_folder(folder, force=force)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}", hint=_ELSEWHERE) from error
    with _claim(folder):
        check_folder(folder, force=force)  # another may have ended in between
        try:
            yield
        except BaseException:
            for path in made:
                with contextlib.suppress(OSError):  # the program may have put something there
                    path.rmdir()
            raise


@contextlib.contextmanager
def _claim(folder: Path) -> Iterator[None]:
    """Keep other recordings out of a folder, until this process ends in whatever way.

    Raises:
        InputError: Another recording is being made there.
    """
    import fcntl  # not on every system on which recordings are read

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"another recording is being made in {folder}",
                hint=f"{_ELSEWHERE}; for ranks -o 'DIR/%q{{RANK}}', with your launcher's variable",
            ) from error
        except OSError:
            pass  # a network file system that has no locks
        yield
    finally:
        os.close(descriptor)


def _of_nsys(
    recording: Recording,
    settings: Settings,
    *,
    workload: str | None,
    run: dict[str, Any] | None,
) -> dict[str, Any]:
    for note in recording.notes:
        settings.say(note)
    return _about(
        profiler="nsys",
        workload=workload,
        command=None if workload else list(recording.command),
        report=recording.report.name,
        sqlite=recording.sqlite.name,
        log=recording.log.name,
        nsys_version=recording.nsys_version,
        exit_code=recording.exit_code,
        seconds=recording.seconds,
        notes=list(recording.notes),
        run=run,
    )


def _about(**known: Any) -> dict[str, Any]:
    """What run.json says: always the same keys, null for what is not known."""
    return {
        "schema": SCHEMA,
        "profiler": None,
        "workload": None,
        "command": None,
        "report": None,
        "sqlite": None,
        "trace": None,
        "log": None,
        "nsys_version": None,
        "exit_code": None,
        "seconds": None,
        "notes": [],
        "commit": launch.commit(),
        "run": None,
        # Of a ladder, which knows them beforehand and adds them by `update`.
        "throughput": None,
        "comparison": None,
    } | known


def _replace(folder: Path, about: dict[str, Any]) -> None:
    """Write run.json; what an earlier one named and this one does not, goes."""
    try:
        earlier = read(folder)
    except InputError:
        earlier = {}
    _write(folder, about)
    names = [{of[key] for key in _FILES if of.get(key)} for of in (earlier, about)]
    for name in names[0] - names[1]:
        (folder / Path(name).name).unlink(missing_ok=True)


def _write(folder: Path, about: dict[str, Any]) -> None:
    _place((json.dumps(about, indent=1) + "\n").encode(), folder / RUN)


def _place(content: bytes, path: Path) -> None:
    from analysis.output import write_output

    # The folder was checked as a whole.
    write_output(path, content, force=True)
