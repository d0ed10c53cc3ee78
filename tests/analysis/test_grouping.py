"""Grouping against dictionaries and sorted sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analysis.grouping import Positions, distinct, dominant, group, sums, values_of

#: Narrow ranges are looked up in tables, wide ones are searched: ids of both kinds.
small = st.integers(-5, 5)
wide = st.integers(-(1 << 62), 1 << 62)
columns = st.one_of(st.lists(small), st.lists(wide), st.lists(small | wide))


@given(columns)
def test_distinct(values: list[int]) -> None:
    found, index = distinct(np.array(values, np.int64))
    assert found.tolist() == sorted(set(values)) == values_of(np.array(values, np.int64)).tolist()
    assert found[index].tolist() == values


@given(columns, columns)
def test_positions(keys: list[int], values: list[int]) -> None:
    ordered = sorted(set(keys))
    found = Positions(np.array(ordered, np.int64)).of(np.array([*values, *keys], np.int64))
    assert found.tolist() == [ordered.index(v) if v in ordered else -1 for v in [*values, *keys]]


@given(st.lists(st.tuples(small, wide, st.integers(0, 1 << 61)), min_size=1, max_size=7))
def test_groups_and_sums(rows: list[tuple[int, int, int]]) -> None:
    a, b, amount = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    first, index = group([a, b])
    keys = sorted({(x, y) for x, y, _ in rows})
    assert [(int(a[i]), int(b[i])) for i in first] == keys
    assert [keys[i] for i in index] == [(x, y) for x, y, _ in rows]
    assert first.tolist() == [[(x, y) for x, y, _ in rows].index(key) for key in keys]
    # Sums beyond 2**53 stay exact.
    assert sums(index, amount, len(first)).tolist() == [
        sum(n for x, y, n in rows if (x, y) == key) for key in keys
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 9))))
def test_dominant(rows: list[tuple[int, int, int]]) -> None:
    owner, label, amount = np.array(rows, np.int64).reshape(-1, 3).T
    rank = np.array([3, 1, 4, 0, 2])
    found = dominant(owner, label, amount, rank, 4)
    for i in range(4):
        totals = {b: sum(n for o, x, n in rows if (o, x) == (i, b)) for o, b, _ in rows if o == i}
        best = min(totals, key=lambda b: (-totals[b], rank[b])) if totals else -1
        assert found[i] == best
