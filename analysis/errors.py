"""What a command can fail with; each error carries its exit code.

Raised anywhere, caught once, in :mod:`analysis.cli`. A message says what is wrong, `hint` what to
do next.
"""

from __future__ import annotations


class LabError(Exception):
    """Base of all errors that end a command with a message instead of a traceback.

    Args:
        message: The cause, one sentence without a trailing newline.
        hint: The next step for the user, if there is one.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class GateError(LabError):
    """A gate of ``nsyslab check`` failed."""

    exit_code = 1


class InputError(LabError):
    """Bad usage, or an input or output that cannot be read or written."""

    exit_code = 2


class NotTracedError(LabError):
    """The input is readable, but what was asked for was not traced."""

    exit_code = 3


class ToolError(LabError):
    """An external tool (nsys, its importer, a container engine) is missing or failed."""

    exit_code = 4
