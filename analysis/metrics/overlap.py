"""How much of the copy time hides behind kernels."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.intervals import IntervalSet
from analysis.metrics.activity import DeviceActivity

#: Decimal places of ratios in reports.
PLACES = 4


@dataclass(frozen=True, slots=True)
class Overlap:
    """Copies against kernels in a window.

    Attributes:
        copy_ns: Length of the union of the copies, ns.
        hidden_ns: How much of it has a kernel running beside, ns.
        percent: Hidden of copy; None without copies.
        achievable_percent: What `percent` could be at most, given how much compute there is.
        achieved_of_achievable_percent: The first of the second.
    """

    copy_ns: int
    hidden_ns: int
    percent: float | None
    achievable_percent: float | None
    achieved_of_achievable_percent: float | None


def overlap(activity: DeviceActivity, window: IntervalSet) -> dict[str, Overlap]:
    """Overlap of all copies (`all`), of `d2h` and `h2d`, and of other directions that occur.

    Args:
        activity: The device.
        window: What is looked at.
    """
    kernels = activity.kernels & window
    result = {"all": _of(activity.all_copies & window, kernels)}
    for direction, copies in activity.copies.items():
        if direction in ("d2h", "h2d") or len(copies & window):
            result[direction] = _of(copies & window, kernels)
    return result


def _of(copies: IntervalSet, kernels: IntervalSet) -> Overlap:
    copy, hidden = copies.total, (copies & kernels).total
    achievable = min(copy, kernels.total)
    return Overlap(
        copy,
        hidden,
        _percent(hidden, copy),
        _percent(achievable, copy),
        _percent(hidden, achievable),
    )


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, PLACES) if whole else None
