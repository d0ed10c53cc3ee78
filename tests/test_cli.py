"""The command line as a whole: help, documentation, errors, exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from analysis.cli import cli
from docs.generate_cli import TARGET, reference

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "reports" / "samples" / "d2h_async.sqlite"
COMMANDS = cli.list_commands(click.Context(cli))


def nsyslab(
    *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "analysis", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, env=env, check=False)


def test_there_are_commands_of_both_packages() -> None:
    assert {"analyze", "info", "export", "doctor", "list", "run", "profile"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_is_documented(name: str) -> None:
    result = nsyslab(name, "--help")
    assert result.returncode == 0
    assert b"Usage: nsyslab " + name.encode() in result.stdout
    assert f"## nsyslab {name}\n" in TARGET.read_text()
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    mentions = [p for p in documents if p != TARGET and f"nsyslab {name}" in p.read_text()]
    assert mentions, f"no page besides the reference mentions nsyslab {name}"


def test_the_reference_is_current() -> None:
    assert TARGET.read_text() == reference(), "run `make docs`"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from analysis.cli import run; run(['--help']);"
        "print(sorted({m.split('.')[0] for m in sys.modules} &"
        " {'numpy', 'pandas', 'pyarrow', 'sqlalchemy', 'rich', 'torch'}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_a_window_may_begin_before_the_session() -> None:
    result = nsyslab(
        "analyze", str(SAMPLE), "--format", "json", "--from", "-1.5ms", "--to", "2000s"
    )
    assert result.returncode == 0, result.stderr
    (device,) = json.loads(result.stdout)["devices"]
    assert device["window"]["start_ns"] == -1_500_000


@pytest.mark.parametrize("format_", ["json", "terminal"])
def test_a_report_does_not_wait_for_pandas(format_: str) -> None:
    # A quarter of a second, which Arrow's conversions of NumPy arrays would import on the side.
    code = (
        "import sys; from analysis.cli import run; run(['analyze', *sys.argv[1:]]);"
        "print('pandas' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(SAMPLE), "--format", format_],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout.splitlines()[-1] == "False"


def test_the_analysis_runs_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None;"  # importing it now fails
        "import analysis; print(analysis.analyze(sys.argv[1]).verdict)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(SAMPLE)], capture_output=True, text=True, check=True
    )
    assert result.stdout == "copy-bound\n"


def test_an_unknown_command_is_bad_usage() -> None:
    result = nsyslab("analyse")
    assert result.returncode == 2
    assert b"No such command 'analyse'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--min-gap", "long"], "is not a time"),
        (["--from", "1.5"], "has no unit"),
        (["--min-gap", "-5ms"], "'-5ms' is negative"),
        (["--from", "2s", "--to", "1s"], "the window is empty"),
        (["--nvtx", "Batch ("], "is not a regular expression"),
        (["--nvtx", "Bach 11"], "'Batch 11'"),
        (["--device", "7"], "devices with activity: 0"),
        (["--format", "xml"], "'xml' is not one of"),
        (["--output", "/nowhere/report.json"], "/nowhere is not a folder"),
        (["--top", "-1"], "is not in the range"),
    ],
)
def test_impossible_options(arguments: list[str], message: str) -> None:
    result = nsyslab("analyze", str(SAMPLE), *arguments)
    assert result.returncode == 2
    assert result.stdout == b""
    assert message in result.stderr.decode()
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize("format_", ["terminal", "json", "markdown", "csv"])
def test_output_is_deterministic(format_: str) -> None:
    runs = [
        nsyslab(
            "analyze",
            str(SAMPLE.parent),
            "--format",
            format_,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    assert runs[0].returncode == 0
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout) > 1000


def test_the_terminal_report_fits_80_columns_and_is_plain_when_piped() -> None:
    result = nsyslab("analyze", str(SAMPLE.parent))
    text = result.stdout.decode()
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert result.stderr == b""


@pytest.mark.parametrize(
    ("page", "command", "pattern"),
    [
        (
            "README.md",
            "nsyslab analyze reports/samples/pin_thread.sqlite --top 2",
            r"```text\n(reports/samples/pin_thread\.sqlite\n.*?)```",
        ),
        (
            "docs/diagnosis.md",
            "nsyslab analyze reports/samples/d2h_async.sqlite",
            r"d2h_async\.sqlite\n(copy-bound.*?)```",
        ),
    ],
)
def test_pages_show_what_is_printed(page: str, command: str, pattern: str) -> None:
    """By the command that they name, in the clone's folder."""
    text = (ROOT / page).read_text()
    assert command in text
    (shown,) = re.findall(pattern, text, re.DOTALL)
    printed = subprocess.run(
        [sys.executable, "-m", "analysis", *command.split()[1:]],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert shown in printed, "paste it anew"


def test_a_terminal_gets_colours() -> None:
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "analysis", "analyze", str(SAMPLE)], stdout=child, stderr=child
    )
    os.close(child)
    output = b""
    try:
        while chunk := os.read(parent, 65536):
            output += chunk
    except OSError:
        pass  # the other end is closed
    assert process.wait(60) == 0
    assert b"\x1b[" in output


def test_a_reader_that_goes_away_is_no_error() -> None:
    program = [sys.executable, "-m", "analysis", "analyze", str(SAMPLE.parent), "--format", "json"]
    command = f"{shlex.join(program)} | head -c 100"
    result = subprocess.run(command, shell=True, capture_output=True, check=True)
    assert len(result.stdout) == 100
    assert result.stderr == b""
