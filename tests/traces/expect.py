"""What a report must say, in the shape of the JSON contract (nsyslab.report/1).

A fixture states what it is about and no more: `differences` compares only what is stated. Parts,
causes and the like are compared as sets, since the contract gives them no order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

OUTSIDE = "outside any range"
LAUNCH = "cudaLaunchKernel"

Json = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """Fields of a report, the exit code, and options to give to the command.

    Attributes:
        report: What the report must hold; nested like the report itself.
        exit_code: 0, or 3 where no GPU activity was traced.
        options: Arguments of `nsyslab analyze` besides the file and the format.
        dropped: What `quality.dropped_rows` must count, by the export's name of the table.
        warns: A word that one of `quality.warnings` must contain.
    """

    report: Json = field(default_factory=dict)
    exit_code: int = 0
    options: tuple[str, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)
    warns: str | None = None


def devices(*each: Json, **report: Any) -> Json:
    """A report with those devices, in order."""
    return {"devices": list(each), **report}


def device(
    window: tuple[int, int],
    *,
    duration: int | None = None,
    compute: int = 0,
    memset: int = 0,
    idle: int = 0,
    gaps: list[Json] | None = None,
    by_cause: list[Json] | None = None,
    overlap: Json | None = None,
    exposed: dict[str, int] | None = None,
    **fields: Any,
) -> Json:
    """A device; whatever of the partition is not given must be zero.

    Args:
        window: First and last instant.
        duration: Where the window is not one piece.
        compute: Partition; so for `memset`, `idle`.
        gaps: All of them, in order.
        by_cause: All causes.
        overlap: By direction.
        exposed: Exposed copies by direction.
        **fields: Anything else of a device.
    """
    directions = dict.fromkeys(("d2h", "h2d", "d2d", "p2p", "other"), 0)
    parts = compute + memset + idle + sum((exposed or {}).values())
    length = window[1] - window[0] if duration is None else duration
    assert parts == length, f"the fixture is wrong: {parts} is not {length}"
    stated: Json = {
        "window": {"start_ns": window[0], "end_ns": window[1], "duration_ns": length},
        "partition": {
            "compute_ns": compute,
            "exposed_copy_ns": {**directions, **(exposed or {})},
            "exposed_memset_ns": memset,
            "idle_ns": idle,
        },
        "idle": {"total_ns": idle},
        **fields,
    }
    if gaps is not None:
        assert sum(gap["duration_ns"] for gap in gaps) == idle, "the fixture's gaps are not idle"
        stated["gaps"] = gaps
        stated["idle"] |= {"gap_count": len(gaps), "unlisted_ns": 0}
    if by_cause is not None:
        # Causes are joined over what they went through.
        stated["idle"]["by_cause"] = [
            {name: value for name, value in cause.items() if name != "via"} for cause in by_cause
        ]
    if overlap is not None:
        stated["overlap"] = overlap
    return stated


def gap(start: int, end: int, *parts: Json, inferred: bool = False, **fields: Any) -> Json:
    """An idle gap and all of its parts."""
    assert sum(part["ns"] for part in parts) == end - start, "the fixture's parts are not the gap"
    return {
        "start_ns": start,
        "duration_ns": end - start,
        "inferred": inferred,
        "parts": list(parts),
        **fields,
    }


def launch(ns: int, name: str = LAUNCH, nvtx: str | None = None, *, via: str | None = None) -> Json:
    """Inside the feeding call, or from its return to the activity's start."""
    return _part("launch", name, ns, nvtx, via)


def queued(ns: int, name: str = LAUNCH, nvtx: str | None = None) -> Json:
    """The feeding call had returned when the gap began."""
    return _part("queued", name, ns, nvtx)


def cuda_api(
    ns: int, name: str, *, via: str | None = None, nvtx: str | None = None, held: Json | None = None
) -> Json:
    """Inside another CUDA call, or in a wait of the feeding one."""
    return _part("cuda_api", name, ns, nvtx, via, held)


def osrt(ns: int, name: str, *, nvtx: str | None = None, held: Json | None = None) -> Json:
    """Inside an OS runtime call."""
    return _part("osrt", name, ns, nvtx, None, held)


def host(ns: int, nvtx: str | None = None) -> Json:
    """None of these; named after the innermost range of the path."""
    return _part("host", OUTSIDE if nvtx is None else nvtx.split(" / ")[-1], ns, nvtx)


def overhead(ns: int, name: str = "CUPTI Buffer flush", nvtx: str | None = None) -> Json:
    """Inside the profiler's own doing."""
    return _part("overhead", name, ns, nvtx)


def unknown(ns: int) -> Json:
    """Nobody can be named."""
    return {"cause": "unknown", "ns": ns, "held_by": None}


def held(ns: int, thread: int, name: str, *, process: int = 100) -> Json:
    """Who held up the feeding thread, and for how much of the part."""
    return {"thread": thread, "process": process, "name": name, "ns": ns}


def _part(
    cause: str,
    name: str,
    ns: int,
    nvtx: str | None,
    via: str | None = None,
    holder: Json | None = None,
) -> Json:
    path = OUTSIDE if nvtx is None else nvtx
    return {
        "cause": cause,
        "name": name,
        "via": via,
        "nvtx": path,
        "ns": ns,
        "held_by": holder,
    }


def differences(expected: Any, actual: Any, where: str = "report") -> list[str]:
    """Where a report does not say what it must.

    Args:
        expected: Dicts hold what must be equal; lists are compared whole.
        actual: The report or the part of it at `where`.
        where: The place, for the messages.
    """
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return [f"{where}: {actual!r} in place of {expected!r}"]
        return [
            line
            for key, value in expected.items()
            for line in (
                differences(value, actual[key], f"{where}.{key}")
                if key in actual
                else [f"{where} has no {key}"]
            )
        ]
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(expected) != len(actual):
            return [f"{where}: {actual!r} in place of {expected!r}"]
        if where.endswith(_SETS):
            return _unordered(expected, actual, where)
        return [
            line
            for number, (one, other) in enumerate(zip(expected, actual, strict=True))
            for line in differences(one, other, f"{where}[{number}]")
        ]
    if isinstance(expected, float) and isinstance(actual, int | float):
        same = math.isclose(expected, actual, rel_tol=1e-5)
    else:
        same = expected == actual and type(expected) is type(actual)
    return [] if same else [f"{where}: {actual!r} in place of {expected!r}"]


#: Lists that the contract gives no order.
_SETS = (".parts", ".by_cause", ".transfers", ".stalls")


def _unordered(expected: list[Any], actual: list[Any], where: str) -> list[str]:
    left = list(actual)
    missing = []
    # What says most is matched first, lest a vague one takes its place.
    for one in sorted(expected, key=len, reverse=True):
        match = next((other for other in left if not differences(one, other)), None)
        if match is None:
            missing.append(one)
        else:
            left.remove(match)
    lines = [f"{where} lacks {one!r}" for one in missing]
    return lines + [f"{where} has {other!r} unexpectedly" for other in left if missing]


def broken_sums(report: Json) -> list[str]:
    """Where the sums that hold in every report do not hold, in integers."""
    lines = []
    for number, one in enumerate(report["devices"]):
        where = f"devices[{number}]"
        partition = one["partition"]
        whole = (
            partition["compute_ns"]
            + sum(partition["exposed_copy_ns"].values())
            + partition["exposed_memset_ns"]
            + partition["idle_ns"]
        )
        if whole != one["window"]["duration_ns"]:
            lines.append(f"{where}: the partition sums to {whole}, not to the window")
        idle = one["idle"]
        if idle["total_ns"] != partition["idle_ns"]:
            lines.append(f"{where}: idle is {idle['total_ns']} and {partition['idle_ns']}")
        if sum(cause["ns"] for cause in idle["by_cause"]) != idle["total_ns"]:
            lines.append(f"{where}: the causes do not sum to the idle time")
        listed = sum(gap["duration_ns"] for gap in one["gaps"])
        if listed + idle["unlisted_ns"] != idle["total_ns"]:
            lines.append(f"{where}: listed and unlisted gaps do not sum to the idle time")
        lines += [
            f"{where}: the parts of the gap at {gap['start_ns']} do not sum to it"
            for gap in one["gaps"]
            if sum(part["ns"] for part in gap["parts"]) != gap["duration_ns"]
        ]
        lines += [
            f"{where}: a holder covers more than the part it holds, at {gap['start_ns']}"
            for gap in one["gaps"]
            for part in gap["parts"]
            if part["held_by"] and not 0 < part["held_by"]["ns"] <= part["ns"]
        ]
    return lines
