"""Grouping of many rows by few values, NumPy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


def distinct(values: NDArray[np.integer]) -> tuple[Int64, Int64]:
    """The distinct values, sorted, and for each element the index of its value.

    Columns of ids hold few values in many rows, mostly from a narrow range; a lookup table is then
    several times faster than the sort of `numpy.unique`.

    Args:
        values: Integers, shape (n,).

    Returns:
        Distinct values, shape (m,), and indices into them, shape (n,).
    """
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.array([low], np.int64), np.zeros(len(values), np.int64)
    if _is_narrow(low, high, len(values)):
        offset = values - low
        seen = np.zeros(high - low + 1, bool)
        seen[offset] = True
        return np.flatnonzero(seen) + low, (np.cumsum(seen) - 1)[offset]
    found, index = np.unique(values, return_inverse=True)
    return found.astype(np.int64), index


def values_of(column: NDArray[np.integer]) -> Int64:
    """The distinct values of a column, sorted, shape (m,); see `distinct`.

    Args:
        column: Integers, shape (n,).
    """
    if not len(column):
        return np.empty(0, np.int64)
    low, high = int(column.min()), int(column.max())
    if low == high:
        return np.array([low], np.int64)
    if _is_narrow(low, high, len(column)):
        seen = np.zeros(high - low + 1, bool)
        seen[column - low] = True
        return np.flatnonzero(seen) + low
    # Not numpy.unique, which hashes: what comes here is mostly in order, or in runs.
    ordered: Int64 = np.sort(column, kind="stable").astype(np.int64)
    first = np.append(True, ordered[1:] != ordered[:-1])
    found: Int64 = ordered[first]
    return found


def _is_narrow(low: int, high: int, rows: int) -> bool:
    """Whether a lookup table from `low` to `high` is worth it for so many rows."""
    return high - low < 4 * rows + 1024


class Positions:
    """Finds values among sorted, distinct keys.

    Args:
        keys: The keys, shape (n,).
    """

    def __init__(self, keys: Int64) -> None:
        self._keys = keys
        self._table: Int64 | None = None
        if len(keys) and _is_narrow(int(keys[0]), int(keys[-1]), len(keys)):
            self._table = np.full(int(keys[-1]) - int(keys[0]) + 1, -1, np.int64)
            self._table[keys - keys[0]] = np.arange(len(keys))

    def of(self, values: Int64) -> Int64:
        """The index of each value among the keys, -1 where it is none of them.

        Args:
            values: Shape (m,).
        """
        if not len(self._keys):
            return np.full(len(values), -1, np.int64)
        low, high = self._keys[0], self._keys[-1]
        if low == high:
            return np.where(values == low, 0, -1)
        if self._table is not None:
            inside = (values >= low) & (values <= high)
            index: Int64 = self._table[np.where(inside, values - low, 0)]
            return index if inside.all() else np.where(inside, index, -1)
        index = np.minimum(np.searchsorted(self._keys, values), len(self._keys) - 1)
        return np.where(self._keys[index] == values, index, -1)


def group(columns: Sequence[NDArray[np.integer]]) -> tuple[Int64, Int64]:
    """Groups rows by several integer columns.

    Args:
        columns: Columns of one length n; at least one.

    Returns:
        For each of the m groups the index of its first row, shape (m,), and for each row the index
        of its group, shape (n,). Groups are in lexicographic order of the columns.
    """
    _, code = distinct(columns[0])
    for column in columns[1:]:
        values, index = distinct(column)
        _, code = distinct(code * max(len(values), 1) + index)
    count = int(code.max()) + 1 if len(code) else 0
    first = np.empty(count, np.int64)
    first[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    return first, code


def sums(index: NDArray[np.integer], amounts: Int64, count: int) -> Int64:
    """Exact integer sums of `amounts` by group.

    Args:
        index: Group of each row, shape (n,), in ``[0, count)``.
        amounts: What is added up, shape (n,).
        count: How many groups there are.
    """
    totals = np.zeros(count, np.int64)
    if not len(index):
        return totals
    # bincount adds floats, which are exact only below 2**53 in total.
    if int(np.abs(amounts).sum()) < 1 << 53:
        return np.bincount(index, weights=amounts, minlength=count).astype(np.int64)
    np.add.at(totals, index, amounts)
    return totals


def dominant(
    owner: NDArray[np.integer],
    label: NDArray[np.integer],
    amount: Int64,
    rank: Int64,
    count: int,
) -> Int64:
    """For each owner the label with the largest total amount.

    Args:
        owner: Who a row belongs to, shape (n,), in ``[0, count)``.
        label: What it is, shape (n,).
        amount: How much, shape (n,).
        rank: Of labels with equal totals the one with the lowest rank wins; indexed by label.
        count: How many owners there are.

    Returns:
        Labels, shape (count,); -1 for an owner without rows.
    """
    best = np.full(count, -1, np.int64)
    if len(owner):
        first, index = group([owner, label])
        total = sums(index, amount, len(first))
        owners, labels = owner[first], label[first]
        order = np.lexsort((-rank[labels], total, owners))
        best[owners[order]] = labels[order]  # the last write, the largest, stays
    return best
