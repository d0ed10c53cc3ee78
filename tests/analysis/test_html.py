"""Pages as files: self-contained, policed, small, and no gap lost in their timeline."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from analysis import cli
from analysis.build import build
from analysis.intervals import interval, union
from analysis.metrics.lanes import Lanes
from analysis.nsys.recording import open_recording
from analysis.renderers.html._strips import COLUMNS, Strip, boxes
from analysis.renderers.html._timeline import _leb128, payload
from analysis.report import Options
from benchmarks.generate import generate
from tests.traces.writer import TraceWriter

SAMPLES = Path(__file__).parents[2] / "reports/samples"

Track = dict[str, Any]


class Document(HTMLParser):
    """What a page holds: the text of elements, and all attributes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.data: dict[str, str] = {}
        self.attributes: list[tuple[str, str, str]] = []
        self.policy = ""
        self._inside: tuple[str, dict[str, str]] | None = None
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.attributes += [(tag, name, value) for name, value in named.items()]
        if named.get("http-equiv") == "Content-Security-Policy":
            self.policy = named["content"]
        if tag in ("script", "style"):
            self._inside = tag, named

    def handle_endtag(self, _tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            return
        tag, named = self._inside
        if tag == "style":
            self.styles.append(data)
        elif "type" in named:
            self.data[named["id"]] = data
        else:
            self.scripts.append(data)


def page(path: Path, out: Path, *options: str) -> Document:
    output = out / "page.html"
    arguments = ["analyze", str(path), "--format", "html", "--output", str(output), *options]
    assert cli.run(arguments) == 0
    return Document(output)


def source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_a_page_holds_all_it_needs_and_allows_nothing_else(tmp_path: Path) -> None:
    document = page(SAMPLES / "d2h_workers.sqlite", tmp_path)
    (style,) = document.styles
    assert len(document.scripts) == 5
    assert document.policy.split("; ") == [
        "default-src 'none'",
        f"script-src {' '.join(map(source, document.scripts))}",
        f"style-src {source(style)}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    for tag, name, value in document.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name != "style", tag  # The policy would drop it.
        if name in ("src", "href", "xlink:href"):
            assert value.startswith("#") or value == "data:,", (tag, name, value)
    assert not re.search(r"url\(|@import", style)


def test_the_library_is_what_it_says(tmp_path: Path) -> None:
    document = page(SAMPLES / "d2h_workers.sqlite", tmp_path)
    text = (tmp_path / "page.html").read_text()
    library = document.scripts[0].encode()
    assert hashlib.sha256(library).hexdigest() == (
        "912111098ea99503a6f4967361d2bbdc9dbf58cf9c678c8e27e5b02d1a07f0c1"
    )
    assert "d3js.org v7.9.2" in document.scripts[0]
    assert "Permission to use, copy, modify, and/or distribute this software" in text


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>\"'<b onclick=x>"
    path = tmp_path / "trace.sqlite"
    with TraceWriter(path) as w:
        w.push_pop(0, 10_000_000, hostile)
        w.osrt(300, 900_000, hostile)
        w.kernel(100, 200, call=w.api(10, 20))
        w.kernel(1_000_000, 1_000_100, name=hostile, call=w.api(950_000, 950_010))
    document = page(path, tmp_path)
    assert len(document.scripts) == 5
    assert "onclick" not in {name for _, name, _ in document.attributes}
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in (tmp_path / "page.html").read_text()


def test_a_recording_without_gpu_work_has_a_page(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with TraceWriter(path) as w:
        w.osrt(0, 1_000, "read")
    output = tmp_path / "page.html"
    assert cli.run(["analyze", str(path), "--format", "html", "--output", str(output)]) == 3
    assert "GPU metrics: not traced" in output.read_text()
    assert set(Document(output).data) == {"timeline-data"}


@pytest.mark.parametrize(
    ("options", "window"),
    [
        (("--from", "1.4s", "--to", "1.6s"), "1,400.000 ms to 1,600.000 ms."),
        (
            ("--nvtx", "get batch"),
            "32.492 ms to 3,276.940 ms, in pieces that make up 17.7 % of it.",
        ),
    ],
)
def test_the_window_is_told(options: tuple[str, ...], window: str, tmp_path: Path) -> None:
    page(SAMPLES / "d2h_workers.sqlite", tmp_path, *options)
    assert f"Window: {window}" in (tmp_path / "page.html").read_text().replace("\u00a0", " ")


def test_untraced_calls_are_no_zero(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with TraceWriter(path, traced=("cuda",)) as w:
        w.kernel(100, 200, call=w.api(10, 20))
        w.kernel(1_000_000, 1_000_100, call=w.api(950_000, 950_010))
    page(path, tmp_path)
    text = (tmp_path / "page.html").read_text()
    assert "munmap: not traced" in text
    assert "osrt was not traced" in text


# --- The timeline's data ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "data"),
    [([], b""), ([0], b"\0"), ([127, 128], b"\x7f\x80\x01"), ([300], b"\xac\x02")],
)
def test_numbers_of_any_length(values: list[int], data: bytes) -> None:
    assert _leb128(np.array(values, np.int64)) == data


def test_the_largest_number() -> None:
    assert len(_leb128(np.array([2**63 - 1]))) == 9


def decoded(text: str) -> dict[str, Any]:
    """The payload as `timeline.js` reads it."""
    data = zlib.decompress(base64.b64decode(text))
    size = int.from_bytes(data[:4], "big")
    header: dict[str, Any] = orjson.loads(data[4 : 4 + size])
    raw = np.frombuffer(data, np.uint8, offset=4 + size)
    last = np.flatnonzero(raw < 128)
    first = np.append(0, last[:-1] + 1)
    values = np.zeros(len(last), np.int64)
    for place in range(9):
        at = first + place
        some = at <= last
        values[some] |= (raw[at[some]].astype(np.int64) & 127) << (7 * place)
    at = 0
    for track in [t for group in header["groups"] for t in group["tracks"]] + header["gaps"]:
        for name in track["columns"]:
            track[name] = values[at : at + track["rows"]]
            at += track["rows"]
        track["start"] = header["low"] + np.cumsum(track["start"])
        track["end"] = track["start"] + track["length"]
    assert at == len(values)
    return header


def lanes_of(path: Path) -> tuple[Lanes, tuple[int, int]]:
    trace, _ = open_recording(path)
    report = build(trace, Options(lanes=True))
    assert report.lanes is not None
    window = report.devices[0].window
    return report.lanes, (window.start_ns, window.end_ns)


def tracks(header: dict[str, Any], group: int, kind: str) -> list[Track]:
    return [track for track in header["groups"][group]["tracks"] if track["kind"] == kind]


def test_small_recordings_are_embedded_whole() -> None:
    lanes, window = lanes_of(SAMPLES / "d2h_workers.sqlite")
    header = decoded(payload(lanes, window))
    trace = lanes.trace
    assert header["resolution"] == 0
    kernels = tracks(header, 0, "kernels")
    assert sorted(t for track in kernels for t in track["start"]) == sorted(trace.kernels.start)
    (idle,) = tracks(header, 0, "idle")
    segments = lanes.devices[0].gaps.segments
    assert (idle["start"] == segments.start).all()
    assert (idle["end"] == segments.end).all()
    assert (idle["cause"] == segments.cause).all()
    assert sum(track["rows"] for track in tracks(header, 1, "nvtx")) == 15


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lanes, tuple[int, int]]:
    path = tmp_path_factory.mktemp("large") / "large.sqlite"
    generate(path, kernels=50_000, seed=1)
    return lanes_of(path)


@pytest.mark.parametrize("size", [300_000, 60_000])
def test_reduction_hides_no_gap(large: tuple[Lanes, tuple[int, int]], size: int) -> None:
    lanes, window = large
    text = payload(lanes, window, size)
    assert len(text) <= size
    header = decoded(text)
    resolution = header["resolution"]
    assert resolution > 0
    gaps = lanes.devices[0].gaps
    (idle,) = tracks(header, 0, "idle")
    # Each gap, however short, is idle time in the picture; the amount is kept to the nanosecond.
    shown = union(idle["start"], idle["end"])
    assert (shown.measure(gaps.idle.start, gaps.idle.end) == gaps.length).all()
    assert int((idle["length"] - idle["hole"]).sum()) == int(gaps.length.sum())
    # What is long stays as it is, in every lane.
    long = gaps.length >= resolution
    kernels = tracks(header, 0, "kernels")
    busy = union(
        np.concatenate([track["start"] for track in kernels]),
        np.concatenate([track["end"] for track in kernels]),
    )
    assert long.any()
    assert not busy.measure(gaps.idle.start[long], gaps.idle.end[long]).any()
    work = sum(int((track["length"] - track["hole"]).sum()) for track in kernels)
    table = lanes.trace.kernels
    assert work == int((table.end - table.start).sum())
    events = sum(int((track["count"] + 1).sum()) for track in kernels)
    assert events == len(table)


def test_around_the_longest_gaps_nothing_is_reduced(large: tuple[Lanes, tuple[int, int]]) -> None:
    lanes, window = large
    header = decoded(payload(lanes, window, 300_000))
    gaps = lanes.devices[0].gaps
    longest = int(np.argmax(gaps.length))
    start, end = gaps.idle.start[longest], gaps.idle.end[longest]
    seen = 0
    for group in header["groups"]:
        for track in group["tracks"]:
            near = (track["end"] > start) & (track["start"] < end)
            assert (track["count"][near] == 0).all(), track["kind"]
            seen += int(near.sum())
    assert seen > 10


def test_many_long_names_do_not_make_a_large_page(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    rng = np.random.default_rng(0)
    with TraceWriter(path) as w:
        for i in range(30_000):
            name = rng.bytes(150).hex()
            at = i * 1_000
            w.kernel(at + 100, at + 500, name=name, call=w.api(at, at + 50))
    page(path, tmp_path)
    assert (tmp_path / "page.html").stat().st_size < 6_000_000


# --- A folder of pages -----------------------------------------------------------------------


def test_a_folder_of_pages(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "pages"
    recordings = [SAMPLES / "d2h_workers.sqlite", SAMPLES / "d2h_async.sqlite"]
    arguments = ["analyze", *map(str, recordings), "--html", str(folder)]
    assert cli.run(arguments) == 0
    captured = capfd.readouterr()
    assert "copy-bound" in captured.out  # The report that was asked for is not lost.
    assert str(folder / "index.html") in captured.err
    names = ["d2h_async.html", "d2h_workers.html", "index.html"]
    assert sorted(path.name for path in folder.iterdir()) == names
    links = [v for t, n, v in Document(folder / "index.html").attributes if (t, n) == ("a", "href")]
    assert links == ["d2h_workers.html", "d2h_async.html"] * 3  # The slowest first.
    assert cli.run(arguments) == 0  # Pages are replaced.
    assert sorted(path.name for path in folder.iterdir()) == names


def test_recordings_of_one_name_get_pages_of_their_own(tmp_path: Path) -> None:
    data = (SAMPLES / "d2h_async.sqlite").read_bytes()
    recordings = [tmp_path / "a/run.sqlite", tmp_path / "b/Run.sqlite", tmp_path / "b/index.sqlite"]
    for recording in recordings:
        recording.parent.mkdir(exist_ok=True)
        recording.write_bytes(data)
    folder = tmp_path / "pages"
    assert cli.run(["analyze", *map(str, recordings), "--html", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "Run-2.html", "index-2.html", "index.html", "run.html",
    ]  # fmt: skip


def test_no_other_file_is_replaced(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "index.html"
    mine.write_text("<title>mine</title>")
    sample = str(SAMPLES / "d2h_async.sqlite")
    assert cli.run(["analyze", sample, "--html", str(tmp_path)]) == 2
    assert "index.html is in the way" in capfd.readouterr().err
    assert mine.read_text() == "<title>mine</title>"
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


def test_several_recordings_are_compared(tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    recordings = sorted(map(str, SAMPLES.glob("d2h_*.sqlite")))
    arguments = ["analyze", *recordings, "--format", "html", "--output", str(output)]
    assert cli.run(arguments) == 0
    document = Document(output)
    assert document.scripts == []
    text = output.read_text()
    order = [text.index(Path(path).stem) for path in recordings]
    assert order == sorted(order)
    # All strips have the slowest one's scale: two of its steps, in which a fast one makes more.
    begins = re.findall(r"(\d+) steps begin in 4.48\s+s", text)
    # The recordings hold three steps each.
    assert begins == ["3"] * len(recordings)


def test_a_strip_shows_what_was_busy_when() -> None:
    empty = union(np.empty(0, np.int64), np.empty(0, np.int64))
    unit = COLUMNS * 10
    rows = (("idle", interval(3 * unit, 4 * unit)), ("compute", interval(2 * unit, 3 * unit)))
    drawn = boxes(Strip(2 * unit, 2 * unit, (*rows, ("d2h", empty)), (0,)), 4 * unit)
    assert [(box.name, box.x, box.width) for box in drawn] == [
        ("idle", "25.000", "25.000"),
        ("compute", "0.000", "25.000"),
    ]
    # A nanosecond is seen, too, in a column that stands for a thousand.
    tick = (("idle", interval(700, 701)),)
    (seen,) = boxes(Strip(0, COLUMNS * 1000, tick, ()), COLUMNS * 1000)
    assert (seen.x, float(seen.height)) == ("0.000", pytest.approx(92 / 8))
