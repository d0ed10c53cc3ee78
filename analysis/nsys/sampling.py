"""Whether nsys can sample the CPU here."""

from __future__ import annotations

import re

from analysis.errors import ToolError
from analysis.nsys import process
from analysis.nsys.find import Nsys

# nsys calls it "Sampling Environment" before 2022.
_VERDICT = re.compile(r"^(?:CPU Profiling|Sampling) Environment(?: \(process-tree\))?: (\w+)", re.M)
_FAILED = re.compile(r"^(?!CPU Profiling Environment|Sampling Environment)(.+?): Fail\s*$", re.M)


def obstacle(nsys: Nsys) -> str | None:
    """What keeps nsys from sampling the CPU of its own processes.

    Source: ``nsys status --environment``, which tries the kernel's call and does not go by settings
    alone: containers close the call whatever the settings are.

    Returns:
        What it says of that; None if nothing does, or if this nsys does not tell.
    """
    done = process.run([nsys.path, "status", "--environment"], timeout_s=process.PROBE_S)
    return obstacle_in(done.text)


def obstacle_in(text: str) -> str | None:
    """`obstacle`, of what ``nsys status --environment`` prints."""
    verdict = _VERDICT.search(text)
    if verdict is None or verdict[1] != "Fail":
        return None
    return ", ".join(f"{line}: Fail" for line in _FAILED.findall(text)) or verdict[0]


def require(nsys: Nsys) -> None:
    """Raise ToolError if the CPU cannot be sampled: nsys would record, and have no samples."""
    found = obstacle(nsys)
    if found is not None:
        raise ToolError(
            f"the CPU cannot be sampled here; nsys says: {found}",
            hint="sudo sysctl kernel.perf_event_paranoid=2, in a container also the capability "
            "CAP_PERFMON (docs/container.md); or record without --sample",
        )
