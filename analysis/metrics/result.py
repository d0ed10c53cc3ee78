"""What a metric returns when it cannot be computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotAvailable:
    """A metric that the trace does not allow; never a zero.

    Attributes:
        reason: Why, as a clause ("OS runtime calls were not traced").
    """

    reason: str
