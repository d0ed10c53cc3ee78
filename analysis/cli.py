"""The ``nsyslab`` command: finds the commands, runs one, turns errors into exit codes.

A command is a module of one of `COMMAND_PACKAGES` that defines `command`; its file name is the
command's name. Command modules keep their top level light (click only) so that ``--help`` is
instant.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import pkgutil
import signal
import sys
from typing import Any

import click

from analysis import __version__
from analysis.errors import LabError

COMMAND_PACKAGES = ("analysis.commands", "workloads.commands")


class _CommandFiles(click.Group):
    """A group whose commands are the modules of `COMMAND_PACKAGES`, imported when asked for."""

    def _modules(self) -> dict[str, str]:
        modules: dict[str, str] = {}
        for package in COMMAND_PACKAGES:
            spec = importlib.util.find_spec(package)
            for found in pkgutil.iter_modules(spec.submodule_search_locations if spec else None):
                if not found.name.startswith("_"):
                    modules[found.name.replace("_", "-")] = f"{package}.{found.name}"
        return modules

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(self._modules())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        module = self._modules().get(cmd_name)
        if module is None:
            return None
        command: click.Command = importlib.import_module(module).command
        return command


@click.group(
    cls=_CommandFiles,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="nsyslab")
def cli() -> None:
    """Record GPU programs with Nsight Systems and explain every idle nanosecond."""


def main(argv: list[str] | None = None) -> None:
    """Run ``nsyslab`` and exit with 0, 1, 2, 3, 4 (see :mod:`analysis.errors`) or 130.

    A signal that asks for its end (``docker stop``, a terminal that is closed) does what Ctrl-C
    does, so that nothing half written is left; the exit code is 128 and the signal's number.
    """
    received: list[int] = []

    def interrupt(number: int, _: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(ending, interrupt)
    code = run(argv)
    sys.exit(128 + received[0] if received else code)


def run(argv: list[str] | None = None) -> int:
    """Run one command; the only place where errors become messages.

    Args:
        argv: The arguments without the program's name; those of the process if None.

    Returns:
        The exit code. Messages have gone to stderr.
    """
    try:
        outcome: Any = cli.main(args=argv, prog_name="nsyslab", standalone_mode=False)
    except LabError as error:
        _complain(str(error), error.hint)
        return error.exit_code
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.Abort:
        _complain("interrupted")
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (nsyslab analyze ... | head); nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _complain(
                f"the disk is full: {error}",
                "free some space or choose another folder; no half-written file was left behind",
            )
        else:
            _complain(str(error))
        return 2
    return outcome if isinstance(outcome, int) else 0


def _complain(message: str, hint: str | None = None) -> None:
    click.echo(f"nsyslab: {message}", err=True)
    if hint:
        click.echo(f"  {hint}", err=True)
