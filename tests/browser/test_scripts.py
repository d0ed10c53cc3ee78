"""The parts of the page's scripts that need no page: decoding, searching, reducing, wording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from analysis.metrics.attribution import CAUSES
from analysis.renderers import _words
from analysis.renderers.html._shared import asset
from analysis.renderers.html._timeline import payload
from tests.analysis.test_html import SAMPLES, decoded, lanes_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def scripts(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    for name in ("vendor/d3.min.js", "data.js", "words.js"):
        page.add_script_tag(content=asset(name))
    yield page
    page.close()


def events(seed: int) -> tuple[list[int], list[int]]:
    """Events of a track as starts, each from the one before, and lengths: of all sizes."""
    random = np.random.default_rng(seed)
    lengths = (10 ** random.uniform(0, 6, 3000)).astype(int)
    holes = np.where(random.random(3000) < 0.5, 0, 10 ** random.uniform(0, 6, 3000)).astype(int)
    starts = holes + np.append(0, lengths[:-1])
    return starts.tolist(), lengths.tolist()


#: A track as `decode` makes it, and a scale of some pixels for a stretch of time.
TRACK = """([starts, lengths, from, to, width]) => {
    const track = NsysData.complete({
        kind: "gaps", rows: starts.length,
        start: Float64Array.from(starts), length: Float64Array.from(lengths),
    });
    const x = d3.scaleLinear([from, to], [0, width]);
"""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("part", [1.0, 0.3, 0.01, 1e-5])
def test_bars_leave_nothing_out(seed: int, part: float, scripts: Page) -> None:
    starts, lengths = events(seed)
    end = sum(starts) + lengths[-1]
    start = np.cumsum(starts)
    stop = start + lengths
    low = float(start[1200]) * (1 - part)
    high, width = low + part * end, 900
    drawn = scripts.evaluate(
        TRACK + "return [...NsysData.bars(track, x, from, to)]; }",
        [starts, lengths, low, high, width],
    )
    left, right = (np.array([bar[side] for bar in drawn]) for side in ("left", "right"))
    assert (left[1:] >= left[:-1]).all()
    assert len(drawn) <= 2 * width + 2
    seen = (stop > low) & (start < high)
    assert seen.any()
    # The first pixel of each event, however short, is inside a bar.
    first = (start[seen] - low) / (high - low) * width
    holds = (left[None, :] <= first[:, None] + 1e-6) & (right[None, :] >= first[:, None] - 1e-6)
    assert holds.any(axis=1).all()
    assert all(0 < bar["covers"] <= 1 for bar in drawn)


@pytest.mark.parametrize(
    ("starts", "lengths", "bars"),
    [
        # One pixel is 100 ns. What is shorter than a pixel is one wide, and as high as it is long.
        ([250], [20], [(2, 3, 0.2)]),
        # Two in a pixel are one bar, and so are those that touch over several.
        ([210, 50], [10, 30], [(2, 3, 0.4)]),
        ([220, 120, 120], [120, 120, 120], [(2, 4, 1), (3, 5, 1), (4, 6, 1)]),
        # From one and a half on they stand alone, where they are.
        ([250, 150], [150, 20], [(2.5, 4, 1), (4, 5, 0.2)]),
    ],
)
def test_bars_say_how_much_they_cover(
    starts: list[int], lengths: list[int], bars: list[tuple[float, ...]], scripts: Page
) -> None:
    found = scripts.evaluate(
        TRACK
        + """return [...NsysData.bars(track, x, from, to)].map(
            ({ left, right, covers }) => [left, right, covers]); }""",
        [starts, lengths, 0, 90_000, 900],
    )
    assert [tuple(bar) for bar in found] == [pytest.approx(bar) for bar in bars]


def test_the_cause_that_fills_most_speaks_for_a_stretch(scripts: Page) -> None:
    found = scripts.evaluate(
        TRACK
        + """track.cause = Float64Array.from([0, 1, 1, 1, 0]);
            return [NsysData.mainIn(track, 0, 5), NsysData.longestIn(track, 0, 5)]; }""",
        [[0, 50, 30, 31, 30], [50, 30, 31, 30, 10], 0, 1000, 1000],
    )
    assert found == [2, 0]  # 60 ns of one cause in two pieces, 91 ns of the other in three.


@pytest.mark.parametrize("seed", range(3))
def test_searches_agree_with_looking_at_all(seed: int, scripts: Page) -> None:
    starts, lengths = events(seed)
    start = np.cumsum(starts)
    stop = start + lengths
    random = np.random.default_rng(seed)
    times = np.sort(random.uniform(0, stop[-1], (50, 2)), axis=1)
    found = scripts.evaluate(
        TRACK.replace("from, to, width", "times").replace(
            "const x = d3.scaleLinear([from, to], [0, width]);", ""
        )
        + """return times.map(([low, high]) => {
            const first = NsysData.endsAfter(track, low), last = NsysData.startsFrom(track, high);
            return [first, last, first < last ? NsysData.longestIn(track, first, last) : -1];
        }); }""",
        [starts, lengths, times.tolist()],
    )
    for (low, high), (first, last, longest) in zip(times, found, strict=True):
        assert first == int((stop <= low).sum())
        assert last == int((start < high).sum())
        if longest >= 0:
            assert lengths[longest] == max(lengths[first:last])


def test_the_payload_is_read_as_it_was_written(scripts: Page) -> None:
    lanes, window = lanes_of(SAMPLES / "d2h_workers.sqlite")
    text = payload(lanes, window)
    expected = decoded(text)
    found = scripts.evaluate(
        """async (text) => {
            const data = NsysData.decode(await NsysData.inflate(text));
            const plain = ({ start, end, count, ...track }) => ({
                ...track, ...(count && { count: [...count] }), start: [...start], end: [...end],
            });
            const groups = data.groups.map((group) => group.tracks.map(plain));
            return [data.low, groups, data.gaps.map(plain)];
        }""",
        text,
    )
    low, groups, gaps = found
    assert low == expected["low"]
    pairs = [*zip(gaps, expected["gaps"], strict=True)]
    for tracks, group in zip(groups, expected["groups"], strict=True):
        pairs += zip(tracks, group["tracks"], strict=True)
    assert len(pairs) > 10
    for track, wanted in pairs:
        assert track["kind"] == wanted["kind"]
        # Times count from the first one.
        assert track["start"] == (wanted["start"] - low).tolist()
        assert track["end"] == (wanted["end"] - low).tolist()


TIMES = (0, 1, 999, 1_000, 1_234, 9_990, 12_340, 123_400, 999_900, 1_000_000, 45_670_000, 10**9,
         12_345_600_000, 1_234_567_000_000)  # fmt: skip


def test_figures_read_as_in_the_tables(scripts: Page) -> None:
    times, sizes = list(TIMES), [0, 999, 1_000, 1_440_000, 5_600_000_000]
    parts = [(0, 10), (1, 100_000), (1, 3), (10, 10)]
    found = scripts.evaluate(
        """([times, sizes, parts]) => [times.map(NsysWords.duration), sizes.map(NsysWords.size),
            parts.map(([part, whole]) => NsysWords.share(part, whole))]""",
        [times, sizes, parts],
    )
    assert found == [
        [_words.duration(time) for time in times],
        [_words.size(size) for size in sizes],
        [_words.share(part, whole) for part, whole in parts],
    ]


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0, 4_560_000_000, "0.00 s to 4.56 s (4.56 s)"),
        (2_844_701_604, 3_363_287_563, "2,845 ms to 3,363 ms (518.6 ms)"),
        (1_000_000, 1_001_000, "1.00000 ms to 1.00100 ms (1.00 us)"),
    ],
)
def test_a_stretch_is_told_in_as_many_digits_as_it_takes(
    low: int, high: int, text: str, scripts: Page
) -> None:
    found = scripts.evaluate("([low, high]) => NsysWords.stretch(low, high)", [low, high])
    assert found == text


def test_causes_read_as_in_the_tables(scripts: Page) -> None:
    lanes, window = lanes_of(SAMPLES / "pin_thread.sqlite")
    found: list[tuple[Any, ...]] = scripts.evaluate(
        """async (text) => {
            const data = NsysData.decode(await NsysData.inflate(text));
            const words = NsysWords.of(data);
            const idle = data.groups[0].tracks.find((track) => track.kind === "idle");
            return Array.from({ length: idle.rows }, (_, i) => words.cause(idle, i));
        }""",
        payload(lanes, window),
    )
    segments, names = lanes.devices[0].gaps.segments, lanes.trace.names
    expected = [
        _words.cause_text(
            CAUSES[cause], names[name] if name >= 0 else "", names[via] if via >= 0 else None
        )
        for cause, name, via in zip(
            segments.cause.tolist(), segments.name.tolist(), segments.via.tolist(), strict=True
        )
    ]
    assert found == expected
    assert len(set(found)) > 3
