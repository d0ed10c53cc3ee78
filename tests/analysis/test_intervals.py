"""Interval algebra against sets of integers."""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.intervals import (
    EMPTY,
    HIGHEST,
    LOWEST,
    IntervalSet,
    earliest,
    interval,
    locate,
    pairs_overlapping,
    union,
)

Int64 = NDArray[np.int64]
Pairs = list[tuple[int, int]]

#: Small, so that intervals touch, nest and coincide often.
LIMIT = 24
WORLD = range(-LIMIT, LIMIT)

points = st.integers(-LIMIT, LIMIT)
#: Any intervals in any order, empty ones among them.
rows = st.lists(st.tuples(points, st.integers(0, 12)).map(lambda p: (p[0], min(sum(p), LIMIT))))
#: The same far from zero: times of long captures, where a float would round.
origins = st.sampled_from([0, 1 << 40, (1 << 53) + 1, -(1 << 53) - 1])


def columns(pairs: Pairs) -> tuple[Int64, Int64]:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    return array[:, 0].copy(), array[:, 1].copy()


def made(pairs: Pairs) -> IntervalSet:
    return union(*columns(pairs))


def integers(pairs: Pairs) -> set[int]:
    """The brute-force counterpart of a set."""
    return {i for start, end in pairs for i in range(start, end)}


def held_by(found: IntervalSet) -> set[int]:
    """What a result holds, once it is seen to be sorted, apart, and without empty intervals."""
    assert found.start.dtype == found.end.dtype == np.int64
    assert (found.start < found.end).all()
    assert (found.end[:-1] < found.start[1:]).all()
    return integers(list(zip(found.start.tolist(), found.end.tolist(), strict=True)))


def runs(members: set[int]) -> Pairs:
    """Integers as maximal runs."""
    grouped = groupby(enumerate(sorted(members)), key=lambda p: p[1] - p[0])
    each = [[value for _, value in group] for _, group in grouped]
    return [(run[0], run[-1] + 1) for run in each]


@given(rows)
def test_union(pairs: Pairs) -> None:
    found = made(pairs)
    assert held_by(found) == integers(pairs)
    assert found.total == len(integers(pairs))
    assert list(zip(found.start.tolist(), found.end.tolist(), strict=True)) == runs(integers(pairs))


@given(rows, rows)
def test_algebra(a: Pairs, b: Pairs) -> None:
    x, y = made(a), made(b)
    assert held_by(x | y) == integers(a) | integers(b)
    assert held_by(x & y) == integers(a) & integers(b)
    assert held_by(x - y) == integers(a) - integers(b)
    assert (x == y) == (integers(a) == integers(b))
    assert held_by(x) == integers(a), "an operand was changed"
    assert held_by(y) == integers(b), "an operand was changed"


@given(rows, rows, origins)
def test_algebra_far_from_zero(a: Pairs, b: Pairs, origin: int) -> None:
    def moved(pairs: Pairs) -> IntervalSet:
        return made([(start + origin, end + origin) for start, end in pairs])

    def back(found: IntervalSet) -> IntervalSet:
        return IntervalSet(found.start - origin, found.end - origin)

    x, y = moved(a), moved(b)
    assert held_by(back(x | y)) == integers(a) | integers(b)
    assert held_by(back(x & y)) == integers(a) & integers(b)
    assert held_by(back(x - y)) == integers(a) - integers(b)
    assert x.total == len(integers(a))


@given(rows, points, points)
def test_clip_and_complement(pairs: Pairs, low: int, high: int) -> None:
    found = made(pairs)
    assert held_by(found.clip(low, high)) == set(range(low, high)) & integers(pairs)
    assert held_by(found.complement().clip(low, high)) == set(range(low, high)) - integers(pairs)


@given(rows)
def test_complement_of_everything(pairs: Pairs) -> None:
    found = made(pairs).complement()
    assert found.hull == (LOWEST, HIGHEST)
    assert held_by(found & interval(-LIMIT, LIMIT)) == set(WORLD) - integers(pairs)
    assert found.complement() == made(pairs)


@given(rows)
def test_gaps_and_hull(pairs: Pairs) -> None:
    found = made(pairs)
    members = integers(pairs)
    if not members:
        assert found == EMPTY
        with pytest.raises(IndexError):
            _ = found.hull
        return
    assert found.hull == (min(members), max(members) + 1)
    assert held_by(found.gaps()) == set(range(min(members), max(members))) - members


@given(points, points)
def test_interval(start: int, end: int) -> None:
    assert held_by(interval(start, end)) == set(range(start, end))


@given(rows)
def test_locate(pairs: Pairs) -> None:
    found = made(pairs)
    where = found.locate(np.array(WORLD, np.int64))
    for point, index in zip(WORLD, where.tolist(), strict=True):
        expected = [i for i, run in enumerate(runs(integers(pairs))) if run[0] <= point < run[1]]
        assert index == (expected[0] if expected else -1)


@given(rows, rows)
def test_measure(pairs: Pairs, queries: Pairs) -> None:
    covered = made(pairs).measure(*columns(queries)).tolist()
    expected = [len(integers(pairs) & set(range(*query))) for query in queries]
    assert covered == expected


@st.composite
def disjoint(draw: st.DrawFn) -> Pairs:
    """Intervals in order that may touch, as the calls of one thread do."""
    cuts = sorted(draw(st.sets(points)))
    return [pair for pair in pairwise(cuts) if draw(st.booleans())]


@given(rows, disjoint())
def test_pairs_overlapping(queries: Pairs, others: Pairs) -> None:
    mine, theirs = pairs_overlapping(*columns(queries), IntervalSet(*columns(others)))
    expected = [
        (i, j)
        for i, query in enumerate(queries)
        for j, other in enumerate(others)
        if integers([query]) & integers([other])
    ]
    assert list(zip(mine.tolist(), theirs.tolist(), strict=True)) == expected


@given(disjoint())
def test_locate_among_touching_intervals(pairs: Pairs) -> None:
    where = locate(np.array(WORLD, np.int64), *columns(pairs)).tolist()
    for point, index in zip(WORLD, where, strict=True):
        assert [i for i, (s, e) in enumerate(pairs) if s <= point < e] == ([index] * (index >= 0))


@given(rows)
def test_earliest(pairs: Pairs) -> None:
    index, start, end = (column.tolist() for column in earliest(*columns(pairs)))
    owner: dict[int, int] = {}
    for i, s, e in zip(index, start, end, strict=True):
        assert s < e
        assert not owner.keys() & set(range(s, e)), "an instant is given twice"
        owner.update(dict.fromkeys(range(s, e), i))
    assert start == sorted(start)
    for instant in WORLD:
        candidates = [i for i, (s, e) in enumerate(pairs) if s <= instant < e]
        best = min(candidates, key=lambda i: (pairs[i][0], -pairs[i][1], i), default=None)
        assert owner.get(instant) == best


@given(rows, rows, rows)
def test_a_partition_is_exact(kernels: Pairs, copies: Pairs, window: Pairs) -> None:
    """What the whole analysis stands on: parts made by subtraction sum to the window."""
    k, c, w = made(kernels), made(copies), made(window)
    compute, exposed, idle = k & w, (c - k) & w, w - (k | c)
    assert compute.total + exposed.total + idle.total == w.total
    assert compute | exposed | idle == w
