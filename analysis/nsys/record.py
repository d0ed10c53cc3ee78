"""Runs a program under nsys: a report, its export and the program's output, or nothing at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import InputError, LabError, ToolError
from analysis.nsys import process, sampling
from analysis.nsys.environment import allowed, is_credential, sees_others
from analysis.nsys.export import make_export
from analysis.nsys.files import disk_full, refuse_existing, staging
from analysis.nsys.find import INSTALL_HINT, Nsys, find
from analysis.nsys.importer import check_importer, import_stream
from analysis.nsys.output import ProgramOutput, of_program
from analysis.nsys.progress import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TRACES = ("cuda", "nvtx", "osrt", "cudnn", "cublas", "mpi", "ucx", "openmp")
#: How much of a failed program's output goes into the error.
_TAIL_LINES = 20
_WEDGED = re.compile(r"^(Agent launcher failed|Session state is not found)", re.MULTILINE)
#: How nsys 2022.4 gives up on a busy machine, where its agent is late: the program has not begun.
_LOST_ITS_AGENT = re.compile(
    rb"\S*(?:ProcessWaiterImpl|ClientProxy)\.cpp\(\d+\): Throw in function"
    rb"|(?:End of file|Connection reset by peer|Broken pipe)\s*\Z"
)
_STARTS = 5
#: It gives up within seconds. Later the program may have run, silently, and is not run again.
_GIVES_UP_S = 60
_CRASHES = (signal.SIGSEGV, signal.SIGBUS)
#: What a recording may need; with less, a crash may be for want of it.
_ROOM_BYTES = 100_000_000
#: From this version on, nsys keeps its state apart for each PID namespace.
_NAMESPACE_AWARE = (2023, 4)
_NSYS_SPEAKS = re.compile(r"^FATAL ERROR|tag_message|^Invalid truncate size|^Failed to create '")
_NAME = re.compile(r"[\w.+-]+")
_OPTION = re.compile(r"--[a-z][a-z-]*")


@dataclass(frozen=True)
class Recording:
    """What a recording left behind.

    Attributes:
        report: The .nsys-rep, for the Nsight GUI.
        sqlite: Its export.
        log: What the program and nsys wrote to stdout and stderr.
        exit_code: The program's.
        nsys_version: Of the nsys that recorded.
        command: The recorded program and its arguments.
        seconds: How long program and recording took, without import and export.
        notes: What the user should know, sentences.
    """

    report: Path
    sqlite: Path
    log: Path
    exit_code: int
    nsys_version: str
    command: tuple[str, ...]
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Files:
    """The files of a recording, in a folder that goes away."""

    folder: Path
    name: str

    @property
    def report(self) -> Path:
        return self.folder / f"{self.name}.nsys-rep"

    @property
    def sqlite(self) -> Path:
        return self.folder / f"{self.name}.sqlite"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"


def record(
    command: Sequence[str],
    *,
    folder: Path,
    name: str,
    trace: Sequence[str] = ("cuda", "nvtx", "osrt"),
    capture_range: bool = False,
    sample: bool = False,
    graph_nodes: bool = False,
    timeout_s: float | None = None,
    extra_env: Mapping[str, str] | None = None,
    force: bool = False,
    called: str | None = None,
    on_status: Callable[[str], None] | None = None,
    on_output: Callable[[bytes], None] | None = None,
) -> Recording:
    """Record a program into `folder`/`name`.nsys-rep, .sqlite and .log.

    All three appear when all went well, and none otherwise. No process that the program started
    outlives the recording.

    Args:
        command: The program and its arguments.
        folder: Where the files go; made if need be.
        name: Their name without a suffix.
        trace: What to trace, of `TRACES`.
        capture_range: Record from cudaProfilerStart to cudaProfilerStop only.
        sample: Also sample the CPU and trace context switches; needs privileges.
        graph_nodes: Record the kernels of CUDA graphs one by one, not replays as a whole.
        timeout_s: Seconds after which the program is ended; None for no limit.
        extra_env: Variables for the program beyond those of `environment.allowed`. They will be in
            the report.
        force: Replace files of an earlier recording.
        called: What messages call the program; its command line if None.
        on_status: Gets a line of text now and then.
        on_output: Gets the output of the program as it comes.

    Returns:
        The files, and how it went.

    Raises:
        InputError: Bad arguments, the files exist, or the disk is full.
        ToolError: nsys is missing or failed, the program failed or ran out of time, or nothing was
            recorded.
        KeyboardInterrupt: After everything was ended and removed.
    """
    say = on_status if on_status is not None else _ignore
    command = tuple(command)
    shown = called or _shown(command)
    kept = _Files(folder, name)
    _check_arguments(command, name, trace)
    refuse_existing([kept.report, kept.sqlite, kept.log], force=force)
    nsys = find()
    if sample:
        sampling.require(nsys)
    check_importer(nsys)
    options = _options(
        nsys, trace, capture_range=capture_range, sample=sample, graph_nodes=graph_nodes
    )
    environment = {**allowed(os.environ), **(extra_env or {})}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with staging(folder, name) as scratch:
            new = _Files(scratch, name)
            say(f"recording {shown} with nsys {nsys.version_text}")
            sinks = (on_output, percent(on_status, "making the report"))
            for _ in range(_STARTS):
                done = _run(nsys, command, options, environment, new, timeout_s, *sinks)
                lost = done.exit_code != 0 and _LOST_ITS_AGENT.match(new.log.read_bytes())
                if not lost or done.seconds > _GIVES_UP_S:
                    break
            if done.timed_out:
                raise ToolError(
                    f"{shown} did not end within {timeout_s:g} s; it was ended, with all "
                    "that it had started",
                    hint="allow more with --timeout, or let the program do fewer steps",
                )
            log = of_program(new.log.read_bytes(), new.folder)
            _check_report(nsys, new.report, done, log, shown, capture_range, on_status)
            new.log.write_bytes(log)
            make_export(new.report, new.sqlite, on_status=on_status)
            notes = _notes(new.sqlite, done)
            new.report.replace(kept.report)
            new.sqlite.replace(kept.sqlite)
            new.log.replace(kept.log)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(folder, f"the recording {name}") from error
        raise InputError(f"{folder} cannot be written to: {error.strerror}") from error
    return Recording(
        report=kept.report,
        sqlite=kept.sqlite,
        log=kept.log,
        exit_code=done.exit_code,
        nsys_version=nsys.version_text,
        command=command,
        seconds=done.seconds,
        notes=notes,
    )


def _ignore(_: object) -> None:
    """Nobody wants to know."""


def _check_arguments(command: tuple[str, ...], name: str, trace: Sequence[str]) -> None:
    if not command:
        raise InputError("no program to record", hint="nsyslab profile -- COMMAND...")
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a recording",
            hint="letters, digits, '.', '_', '+' and '-' can",
        )
    unknown = sorted(set(trace) - set(TRACES))
    if unknown or not trace:
        raise InputError(
            f"cannot trace {', '.join(unknown) or 'nothing'}", hint=f"choose of {', '.join(TRACES)}"
        )
    if shutil.which(command[0]) is None:
        raise InputError(
            f"{command[0]} was not found or is not executable",
            hint="is it on PATH, is it spelt right?",
        )


def _options(
    nsys: Nsys, trace: Sequence[str], *, capture_range: bool, sample: bool, graph_nodes: bool
) -> list[str]:
    """The options of `nsys profile`.

    Raises:
        ToolError: This nsys is too old to have one that is needed.
    """
    state = "process-tree" if sample else "none"
    options = [
        f"--trace={','.join(trace)}",
        f"--sample={state}",
        f"--cpuctxsw={state}",
        # Orphans of the program are ended by analysis.nsys.supervise, not waited for.
        "--wait=primary",
        "--show-output=true",
    ]
    if capture_range:
        # The default end, stop-shutdown, kills the program at cudaProfilerStop.
        options += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    if graph_nodes:
        options.append("--cuda-graph-trace=node")
    known = set(
        _OPTION.findall(
            process.run([nsys.path, "profile", "--help"], timeout_s=process.PROBE_S).text
        )
    )
    lacking = [option for option in (o.partition("=")[0] for o in options) if option not in known]
    if lacking:
        raise ToolError(
            f"nsys {nsys.version_text} ({nsys.path}) is too old: it has no {lacking[0]}",
            hint=INSTALL_HINT,
        )
    return options


def _run(
    nsys: Nsys,
    command: tuple[str, ...],
    options: list[str],
    environment: dict[str, str],
    files: _Files,
    timeout_s: float | None,
    on_output: Callable[[bytes], None] | None,
    on_nsys: Callable[[bytes], None] | None,
) -> process.Finished:
    # nsys keeps the raw stream, which can be gigabytes, and its state in TMPDIR: this one is on
    # the disk that the report goes to, clear of other users' locks in /tmp, and removed in any
    # case. The program gets its own TMPDIR back.
    temporary = Path(tempfile.mkdtemp(prefix="tmp", dir=files.folder))
    own = environment.get("TMPDIR", "/tmp")  # noqa: S108 - what TMPDIR means when it is not set
    sharing = sees_others({**os.environ, **environment})
    old = nsys.version < _NAMESPACE_AWARE
    if sharing and old:
        # Recordings that share /dev/shm, as those of ranks do, must share the state.
        shared = Path(own) / "nvidia"
        with contextlib.suppress(FileExistsError):
            shared.mkdir()
            shared.chmod(0o777)  # as nsys makes it, for all users of /tmp
        (temporary / shared.name).symlink_to(shared)
    # nsys replaces %h, %p and the like in the output's name.
    output = str(files.folder / files.name).replace("%", "%%")
    reader = ProgramOutput(files.folder, on_output or _ignore, on_nsys)
    with files.log.open("wb") as file, contextlib.closing(reader):

        def tee(piece: bytes) -> None:
            file.write(piece)
            file.flush()
            reader.feed(piece)

        nsys_command: list[str | Path] = [nsys.path, "profile", *options]
        nsys_command += [f"--env-var=TMPDIR={own}", f"--output={output}", *command]
        return process.run(
            nsys_command,
            env={**environment, "TMPDIR": str(temporary)},
            timeout_s=timeout_s,
            on_output=tee,
            alone=not sharing,
            own_shm=old,
        )


def _check_report(
    nsys: Nsys,
    report: Path,
    done: process.Finished,
    log: bytes,
    shown: str,
    capture_range: bool,
    on_status: Callable[[str], None] | None,
) -> None:
    """Whether there is a report, importing the stream if nsys could not."""
    stream = report.with_suffix(".qdstrm")
    if done.exit_code != 0:
        raise _failure(done, log, shown, report.parent)
    if not report.is_file() and stream.is_file():
        import_stream(stream, report, nsys, on_status=on_status)
    if report.is_file() and report.stat().st_size > 0:
        return
    if process.says_disk_full(done.text, report.parent):
        raise disk_full(report.parents[1], report.name)
    if capture_range:
        raise ToolError(
            f"no report was made because {shown} never started its capture range: it "
            "did not call cudaProfilerStart",
            hint="call torch.cuda.profiler.start() and stop() around the steps to record, or "
            "record the whole program, without a capture range",
        )
    raise ToolError(
        f"no report was made by nsys {nsys.version_text}: {done.reason}",
        hint="nsyslab doctor says what can be recorded here",
    )


def _failure(done: process.Finished, log: bytes, shown: str, scratch: Path) -> LabError:
    text = done.text
    # The program may have filled a disk of its own; that is its message, not ours.
    of_nsys = "\n".join(line for line in text.splitlines() if _NSYS_SPEAKS.search(line))
    if process.says_disk_full(of_nsys, scratch):
        return disk_full(scratch.parent, "the report")
    if _LOST_ITS_AGENT.match(done.tail):
        return ToolError(
            f"nsys lost its agent: {done.reason}",
            hint="the machine may be too busy; try again when less runs",
        )
    if _WEDGED.search(text):
        return ToolError(
            f"nsys could not start: {done.reason}",
            hint="an nsys that was killed left its state locked. When no other nsys runs here: "
            "rm -f /dev/shm/NSys-* /tmp/nvidia/nsight_systems/*.lock",
        )
    if "FATAL ERROR" in text:
        return ToolError(f"nsys failed while recording {shown}: {done.reason}")
    lines = log.decode(errors="replace").splitlines()[-_TAIL_LINES:]
    end = "".join(f"\n  | {line}" for line in lines)
    how = f"ended with exit code {done.exit_code}"
    if done.exit_code > 128:
        how = f"was ended by signal {done.exit_code - 128}"
    wrote = f"the end of its output:{end}" if lines else "it wrote nothing"
    hint = (
        "does it run by itself? It gets only the variables that docs/recording.md names; "
        "--env NAME passes more"
    )
    free = shutil.disk_usage(scratch).free
    if done.exit_code - 128 in _CRASHES and free < _ROOM_BYTES:
        # nsys' library in the program maps its buffers from a file there.
        hint = (
            f"a full disk can do that: {free / 1e6:.1f} MB are free in {scratch.parent}, where "
            f"nsys puts what it records. Else {hint}"
        )
    return ToolError(f"no report was made because {shown} {how}; {wrote}", hint=hint)


def _notes(sqlite: Path, done: process.Finished) -> tuple[str, ...]:
    from analysis.nsys.redact import environments

    notes = []
    if done.left:
        notes.append(
            f"{len(done.left)} processes outlived the program and were ended: "
            f"{', '.join(sorted(set(done.left)))}"
        )
    variables = environments(sqlite)
    secret = sorted(name for name, value in variables if is_credential(name, value))
    if secret:
        notes.append(
            "the report holds the environment of every process that nsys could read, and in it "
            f"what look like credentials: {', '.join(dict.fromkeys(secret))}. Share neither the "
            "report nor its export; share what nsyslab redact makes of the export"
        )
    return tuple(notes)


def _shown(command: tuple[str, ...]) -> str:
    text = " ".join(command)
    return text if len(text) <= 80 else f"{text[:77]}..."
