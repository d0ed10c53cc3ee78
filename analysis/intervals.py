"""Sets of half-open int64 intervals, as NumPy arrays.

An `IntervalSet` is sorted, its intervals are disjoint and do not touch, and none is empty. All
operations are vectorised; none mutates its operands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

LOWEST = int(np.iinfo(np.int64).min)
HIGHEST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, eq=False, slots=True)
class IntervalSet:
    """A set of integers as maximal intervals ``[start, end)``.

    Build one with `union` or `interval`; the constructor trusts its arguments.

    Attributes:
        start: Starts, shape (n,), strictly increasing.
        end: Ends, shape (n,), ``start[i] < end[i] < start[i + 1]``.
    """

    start: Int64
    end: Int64

    def __len__(self) -> int:
        return len(self.start)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return np.array_equal(self.start, other.start) and np.array_equal(self.end, other.end)

    __hash__ = None  # type: ignore[assignment]  # equality is by content, the content mutable

    def __or__(self, other: IntervalSet) -> IntervalSet:
        if not len(self) or not len(other):
            return other if not len(self) else self
        return union(
            np.concatenate([self.start, other.start]), np.concatenate([self.end, other.end])
        )

    def __and__(self, other: IntervalSet) -> IntervalSet:
        few, many = (self, other) if len(self) <= len(other) else (other, self)
        if len(few) == 1:
            return many.clip(*few.hull)
        mine, theirs = pairs_overlapping(few.start, few.end, many)
        start = np.maximum(few.start[mine], many.start[theirs])
        return IntervalSet(start, np.minimum(few.end[mine], many.end[theirs]))

    def __sub__(self, other: IntervalSet) -> IntervalSet:
        return self & other.complement() if len(self) and len(other) else self

    @property
    def total(self) -> int:
        """How many integers the set holds."""
        return int((self.end - self.start).sum())

    @property
    def hull(self) -> tuple[int, int]:
        """The first start and the last end.

        Raises:
            IndexError: The set is empty.
        """
        return int(self.start[0]), int(self.end[-1])

    def complement(self) -> IntervalSet:
        """The integers of ``[LOWEST, HIGHEST)`` that are not in the set."""
        start = np.concatenate([[LOWEST], self.end])
        end = np.concatenate([self.start, [HIGHEST]])
        # Only the outermost can be empty.
        first = int(start[0] >= end[0])
        last = len(start) - int(start[-1] >= end[-1])
        return IntervalSet(start[first:last], end[first:last])

    def clip(self, low: int, high: int) -> IntervalSet:
        """The integers of the set that are in ``[low, high)``."""
        first = int(np.searchsorted(self.end, low, side="right"))
        last = int(np.searchsorted(self.start, high, side="left"))
        if low >= high or first >= last:
            return EMPTY
        start, end = self.start[first:last], self.end[first:last]
        if start[0] < low:
            start = start.copy()
            start[0] = low
        if end[-1] > high:
            end = end.copy()
            end[-1] = high
        return IntervalSet(start, end)

    def gaps(self) -> IntervalSet:
        """The maximal intervals between the intervals of the set."""
        return IntervalSet(self.end[:-1], self.start[1:])

    def locate(self, points: Int64) -> Int64:
        """The index of the interval that holds each point, -1 where none does.

        Args:
            points: Any shape.

        Returns:
            Indices of the same shape.
        """
        return locate(points, self.start, self.end)

    def measure(self, start: Int64, end: Int64) -> Int64:
        """How much of each query interval ``[start[i], end[i])`` the set covers; shape (n,)."""
        if len(self) == 1:
            low, high = self.hull
            return np.clip(end, low, high) - np.clip(start, low, high)
        return self._below(end) - self._below(start)

    def _below(self, points: Int64) -> Int64:
        """How many integers of the set are smaller than each point."""
        before = np.concatenate([[0], np.cumsum(self.end - self.start)])
        index = np.searchsorted(self.start, points, side="right")
        # The last interval that began counts only up to the point.
        excess = np.where(index > 0, self.end[index - 1] - points, 0) if len(self) else 0
        return before[index] - np.maximum(excess, 0)


EMPTY = IntervalSet(np.empty(0, np.int64), np.empty(0, np.int64))


def interval(start: int, end: int) -> IntervalSet:
    """The set ``[start, end)``; empty unless ``start < end``."""
    if start >= end:
        return EMPTY
    return IntervalSet(np.array([start], np.int64), np.array([end], np.int64))


def union(start: Int64, end: Int64) -> IntervalSet:
    """The union of any intervals, in any order; empty ones vanish, touching ones join.

    Args:
        start: Starts, shape (n,).
        end: Ends, shape (n,), ``start <= end``.
    """
    filled = start < end
    if not filled.all():
        start, end = start[filled], end[filled]
    if not len(start):
        return EMPTY
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    # Overlapping intervals need the running maximum of the ends, not the end of the row before.
    reach = np.maximum.accumulate(end)
    first = np.empty(len(start), bool)
    first[0] = True
    np.greater(start[1:], reach[:-1], out=first[1:])
    last = np.append(first[1:], True)
    return IntervalSet(start[first], reach[last])


def pairs_overlapping(start: Int64, end: Int64, other: IntervalSet) -> tuple[Int64, Int64]:
    """Pairs (i, j) where ``[start[i], end[i])`` shares an integer with interval j of `other`.

    Args:
        start: Starts, shape (n,), any order.
        end: Ends, shape (n,).
        other: The other side.

    Returns:
        Two arrays of one shape: i ascending, j ascending for one i.
    """
    first = np.searchsorted(other.end, start, side="right")
    beyond = np.searchsorted(other.start, end, side="left")
    count = np.where(start < end, np.maximum(beyond - first, 0), 0)
    mine = np.repeat(np.arange(len(start)), count)
    step = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count)
    return mine, first[mine] + step


def locate(points: Int64, start: Int64, end: Int64) -> Int64:
    """The index of the interval that holds each point, -1 where none does.

    Args:
        points: Any shape.
        start: Starts of disjoint intervals (touching ones stay apart), shape (n,), increasing.
        end: Their ends, shape (n,).
    """
    if not len(start):
        return np.full(np.shape(points), -1, np.int64)
    index = np.searchsorted(start, points, side="right") - 1
    inside = (index >= 0) & (points < end[index])
    return np.where(inside, index, -1)


def earliest(start: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """Splits overlapping intervals so that each instant goes to the one that started first.

    Of nested calls of one thread that is the outermost. Of equal starts the longest wins, of equal
    intervals the first row.

    Args:
        start: Starts, shape (n,), any order.
        end: Ends, shape (n,).

    Returns:
        Disjoint intervals in order, as three arrays of one shape: the index of the interval each
        belongs to, its start (late where an earlier interval still ran), its end.
    """
    if (start < end).all() and (end[:-1] <= start[1:]).all():
        return np.arange(len(start)), start, end
    order = np.lexsort((-end, start))
    reach = np.maximum.accumulate(end[order])
    begin = start[order].copy()
    np.maximum(begin[1:], reach[:-1], out=begin[1:])
    keep = begin < end[order]
    return order[keep], begin[keep], end[order][keep]
