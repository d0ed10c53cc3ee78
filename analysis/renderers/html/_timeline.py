"""The timeline of a page: lanes as compressed columns, reduced where there are too many events.

Layout of the payload (zlib, then base64): the length of a JSON header as four bytes, big-endian,
the header, then the columns of all tracks one after the other as LEB128 numbers. The header names
the columns of each track; `timeline.js` reads it.

Reduction joins neighbours that are both shorter than a resolution, as are the holes between them,
into blocks that keep how many events they stand for and how much of the block these cover. Longer
events and longer holes stay as they are. Around the longest gaps nothing is reduced.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from analysis.intervals import Int64, IntervalSet, union
from analysis.metrics.attribution import CAUSES
from analysis.metrics.lanes import DeviceLanes, Lane, Lanes
from analysis.metrics.launches import TABLES
from analysis.renderers._kinds import CAUSE_KINDS, LANE_KINDS
from analysis.renderers._words import one_line
from analysis.trace import COPY_DIRECTIONS, MEMORY_KINDS
from analysis.words import OUTSIDE

#: Events that are embedded at most, and the size of what they are embedded as.
MOST_EVENTS = 400_000
MOST_BYTES = 3_900_000
#: Longer names are cut.
NAME_LENGTH = 240
#: Gaps around which everything is kept, and that can be clicked one by one in reduced traces.
DETAILED_GAPS = 200
MOST_GAPS = 20_000
#: Colour alone tells nothing apart: the patterns of kinds of time, by class of the style sheet.
PATTERNS = {
    "d2h": "rising", "h2d": "falling", "memset": "dots", "launch": "vertical",
    "cuda_api": "rising", "osrt": "falling", "queued": "horizontal", "overhead": "cross",
    "unknown": "dots",
}  # fmt: skip
#: A block ends where this many resolutions end, so that density shows.
_BLOCK = 64


@dataclass(eq=False)
class _Track:
    """Events of one row, in order and without overlap.

    Attributes:
        extra: Further columns, non-negative; those of a block are the longest event's.
        count: How many events each stands for; None where nothing was joined.
        hole: How much of each no event covers; None where nothing was joined.
    """

    kind: str
    depth: int
    start: Int64
    end: Int64
    extra: dict[str, Int64]
    count: Int64 | None = None
    hole: Int64 | None = None

    def __len__(self) -> int:
        return len(self.start)

    def blocks(self, resolution: int, detail: IntervalSet) -> NDArray[np.bool_]:
        """Where a block begins, when events are joined at a resolution; shape (n,)."""
        start, end = self.start, self.end
        small = (end - start) < resolution
        if len(detail):
            ends_after = np.searchsorted(detail.end, start, side="right")
            begins_before = np.searchsorted(detail.start, end, side="left")
            small &= ends_after >= begins_before
        cell = start // (resolution * _BLOCK)
        joined = small[1:] & small[:-1] & (start[1:] - end[:-1] < resolution)
        begins: NDArray[np.bool_] = np.ones(len(self), bool)
        begins[1:] = ~(joined & (cell[1:] == cell[:-1]))
        return begins

    def reduced(self, resolution: int, detail: IntervalSet) -> _Track:
        """The track with what is too small joined to blocks."""
        if not len(self):
            return self
        first = np.flatnonzero(self.blocks(resolution, detail))
        count = np.diff(np.append(first, len(self)))
        last = first + count - 1
        length = self.end - self.start
        start, end = self.start[first], self.end[last]
        block = np.repeat(np.arange(len(first)), count)
        order = np.lexsort((length, block))
        longest = order[last]
        return _Track(
            self.kind,
            self.depth,
            start,
            end,
            {name: values[longest] for name, values in self.extra.items()},
            count,
            end - start - np.add.reduceat(length, first),
        )


@dataclass(eq=False)
class _Names:
    """Texts of the page, each once; 0 is no name."""

    texts: list[str] = field(default_factory=lambda: [""])
    index: dict[str, int] = field(default_factory=lambda: {"": 0})

    def of(self, text: str) -> int:
        text = one_line(text)
        if len(text) > NAME_LENGTH:
            text = text[: NAME_LENGTH - 1] + "\u2026"
        if text not in self.index:
            self.index[text] = len(self.texts)
            self.texts.append(text)
        return self.index[text]

    def column(self, values: NDArray[np.integer], texts: Iterable[str]) -> Int64:
        """A column of indices into `texts`, -1 for none, as indices into the page's names."""
        if not len(values):
            return np.empty(0, np.int64)
        table = list(texts)
        found = np.unique(values)
        lookup: Int64 = np.zeros(int(found[-1]) + 2, np.int64)
        for value in found[found >= 0].tolist():
            lookup[value] = self.of(table[value])
        column: Int64 = lookup[values]  # -1 is the last element, which is 0
        return column


@dataclass(eq=False)
class _Group:
    title: str
    tracks: list[_Track]
    device: int | None = None
    thread: int | None = None


def payload(lanes: Lanes, window: tuple[int, int], most_bytes: int = MOST_BYTES) -> str:
    """The lanes as base64 text of at most a given size.

    Args:
        lanes: What is shown.
        window: Where the timeline begins and ends at first, ns.
        most_bytes: Size that it must not exceed, characters.
    """
    limit = MOST_EVENTS
    while True:
        text = _payload(lanes, window, limit)
        if len(text) <= most_bytes or limit < 1_000:
            return text
        limit = int(limit * min(0.7, most_bytes / len(text)))


def _payload(lanes: Lanes, window: tuple[int, int], limit: int) -> str:
    names = _Names()
    groups = [_device(lanes, device, names) for device in lanes.devices]
    groups += [_thread(lanes, index, names) for index in range(len(lanes.threads))]
    tracks = [track for group in groups for track in group.tracks]
    resolution, detail = _resolution(lanes, tracks, limit)
    gaps = [_gaps(lanes, device, names, min(limit, MOST_GAPS)) for device in lanes.devices]
    low = min([window[0], *(int(t.start[0]) for t in tracks if len(t))])
    high = max([window[1], *(int(t.end.max()) for t in tracks if len(t))])

    columns: list[Int64] = []
    described = []
    for group in groups:
        rows = []
        for track in group.tracks:
            shown = track.reduced(resolution, detail) if resolution else track
            rows.append(_describe(shown, low, columns))
        described.append(
            {"title": group.title, "device": group.device, "thread": group.thread, "tracks": rows}
        )
    header = {
        "low": low,
        "high": high,
        "window": window,
        "resolution": resolution,
        "events": sum(map(len, tracks)),
        "causes": CAUSES,
        "words": {"causes": CAUSE_KINDS, "lanes": LANE_KINDS, "outside": OUTSIDE},
        "patterns": PATTERNS | {"memsets": PATTERNS["memset"]},
        "threads": [
            {"tid": t.tid, "pid": t.pid, "name": one_line(t.name)[:NAME_LENGTH]}
            for t in lanes.trace.threads
        ],
        "groups": described,
        "gaps": [_describe(track, low, columns) for track in gaps],
        "names": names.texts,
    }
    head = orjson.dumps(header)
    body = _leb128(np.concatenate(columns) if columns else np.empty(0, np.int64))
    data = len(head).to_bytes(4, "big") + head + body
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def _describe(track: _Track, low: int, columns: list[Int64]) -> dict[str, Any]:
    """What the header says of a track, whose columns are appended."""
    named = {
        "start": np.diff(track.start, prepend=low),
        "length": track.end - track.start,
        **track.extra,
    }
    if track.count is not None and track.hole is not None:
        named |= {"count": track.count - 1, "hole": track.hole}
    columns.extend(named.values())
    return {
        "kind": track.kind,
        "depth": track.depth,
        "rows": len(track),
        "columns": list(named),
    }


def _leb128(values: Int64) -> bytes:
    """Non-negative numbers as bytes of seven bits, the lowest first; the last has no high bit."""
    if not len(values):
        return b""
    rest = values.astype(np.uint64)
    size = np.ones(len(rest), np.int64)
    for bits in range(7, 64, 7):
        size += rest >= np.uint64(1 << bits)
    at = np.cumsum(size) - size
    out = np.empty(int(size.sum()), np.uint8)
    for place in range(int(size.max())):
        here = size > place
        more = size[here] > place + 1
        out[at[here] + place] = (rest[here] & np.uint64(0x7F)).astype(np.uint8) | (more << 7)
        rest >>= np.uint64(7)
    return out.tobytes()


def _resolution(lanes: Lanes, tracks: list[_Track], limit: int) -> tuple[int, IntervalSet]:
    """The resolution at which there are few enough events, 0 for all, and where all are kept."""
    nowhere = union(np.empty(0, np.int64), np.empty(0, np.int64))
    total = sum(map(len, tracks))
    if total <= limit:
        return 0, nowhere
    detail = _around_gaps(lanes, tracks, limit // 2)
    resolution = 256
    while True:
        left = sum(int(t.blocks(resolution, detail).sum()) for t in tracks if len(t))
        if left <= limit or resolution >= 1 << 44:
            return resolution, detail
        resolution *= 2 if left < 4 * limit else 4


def _around_gaps(lanes: Lanes, tracks: list[_Track], limit: int) -> IntervalSet:
    """Stretches around the longest gaps that hold no more events than a limit."""
    start = np.concatenate([d.gaps.idle.start for d in lanes.devices] or [np.empty(0, np.int64)])
    end = np.concatenate([d.gaps.idle.end for d in lanes.devices] or [np.empty(0, np.int64)])
    longest = np.argsort(start - end, kind="stable")[:DETAILED_GAPS]
    margin = np.maximum((end - start)[longest] // 4, 50_000)
    low, high = start[longest] - margin, end[longest] + margin
    held = np.zeros(len(longest), np.int64)
    for track in tracks:
        held += np.searchsorted(track.start, high) - np.searchsorted(track.end, low)
    keep = np.cumsum(np.maximum(held, 0)) <= limit
    return union(low[keep], high[keep])


def _split(lane: Lane, start: Int64, end: Int64, extra: dict[str, Int64]) -> list[_Track]:
    """A lane as one track for each of its rows."""
    tracks = []
    for depth in range(int(lane.depth.max()) + 1):
        keep = lane.depth == depth
        of_row = {name: values[keep] for name, values in extra.items()}
        tracks.append(_Track(lane.kind, depth, start[keep], end[keep], of_row))
    return tracks


def _device(lanes: Lanes, device: DeviceLanes, names: _Names) -> _Group:
    trace = lanes.trace
    tracks = [_idle(lanes, device, names)]
    for lane in device.lanes:
        table = getattr(trace, lane.table)
        extra = {"stream": np.maximum(table.stream[lane.rows], 0)}
        if lane.table in ("kernels", "graphs"):
            extra["name"] = names.column(table.name[lane.rows], trace.names)
        elif lane.table == "copies":
            extra["bytes"] = np.maximum(table.bytes[lane.rows], 0)
            extra["name"] = names.column(table.memory[lane.rows], MEMORY_KINDS)
        start = table.start[lane.rows]
        if lane.calls is not None:
            called = np.flatnonzero(lane.calls >= 0)
            calls = lane.calls[called]
            extra |= {"caller": np.zeros(len(start), np.int64), "callAt": np.zeros_like(start)}
            extra["caller"][called] = trace.api_calls.thread[calls] + 1
            extra["callAt"][called] = _beside(trace.api_calls.start[calls], start[called])
        tracks += _split(lane, start, table.end[lane.rows], extra)
    described = trace.devices[device.device]
    title = f"GPU {described.id}" + (f" {one_line(described.name)}" if described.name else "")
    return _Group(title, tracks, device=described.id)


def _thread(lanes: Lanes, index: int, names: _Names) -> _Group:
    trace, shown = lanes.trace, lanes.threads[index]
    tracks = []
    for lane in shown.lanes:
        table = getattr(trace, lane.table)
        extra = {"name": names.column(table.name[lane.rows], trace.names)}
        if lane.table == "ranges":
            # Opaque, and one more, so that 0 is a range without a colour.
            color = table.color[lane.rows]
            extra["color"] = np.where(color >= 0, (color & 0xFFFFFF) + 1, 0)
        tracks += _split(lane, table.start[lane.rows], table.end[lane.rows], extra)
    thread = trace.threads[shown.thread]
    title = f"thread {thread.tid} {one_line(thread.name)}".rstrip()
    if len(trace.processes) > 1:
        title += f", process {thread.pid}"
    return _Group(title, tracks, thread=shown.thread)


def _idle(lanes: Lanes, device: DeviceLanes, names: _Names) -> _Track:
    """The idle time of a device in pieces of one cause."""
    segments, trace = device.gaps.segments, lanes.trace
    calls = [f"{h.name} via {h.via}" if h.via else h.name for h in lanes.holders]
    threads = np.array([h.thread + 1 for h in lanes.holders] + [0], np.int64)
    return _Track(
        "idle",
        0,
        segments.start,
        segments.end,
        {
            "cause": segments.cause.astype(np.int64),
            "name": names.column(segments.name, trace.names),
            "via": names.column(segments.via, trace.names),
            "path": names.column(segments.path, lanes.paths),
            "holder": threads[segments.holder],
            "held": names.column(segments.holder, calls),
        },
    )


def _gaps(lanes: Lanes, device: DeviceLanes, names: _Names, limit: int) -> _Track:
    """The longest gaps of a device, in order, with who should have ended them."""
    trace, found = lanes.trace, device.gaps
    rows = np.sort(np.argsort(-found.length, kind="stable")[:limit])
    call = found.idle.call[rows]
    called = call >= 0
    start = found.idle.start[rows]
    api = trace.api_calls
    call_start, call_end, call_name = (np.zeros(len(rows), np.int64) for _ in range(3))
    call_start[called] = api.start[call[called]]
    call_end[called] = api.end[call[called]]
    call_name[called] = names.column(api.name[call[called]], trace.names)
    return _Track(
        "gaps",
        0,
        start,
        found.idle.end[rows],
        {
            "thread": found.idle.thread[rows].astype(np.int64) + 1,
            "inferred": found.feeders.inferred[rows].astype(np.int64),
            "call": call_name,
            "callAt": np.where(called, _beside(call_start, start), 0),
            "callLength": call_end - call_start,
            "ended": names.column(*_ended(lanes, device, rows)),
        },
    )


def _beside(time: Int64, start: Int64) -> Int64:
    """Times on either side of a start: even numbers for those after it, odd ones before."""
    after = time - start
    return np.where(after >= 0, 2 * after, -2 * after - 1)


def _ended(
    lanes: Lanes, device: DeviceLanes, rows: NDArray[np.intp]
) -> tuple[Int64, tuple[str, ...]]:
    """What ended each gap: a column of indices, and the texts."""
    trace, feeders = lanes.trace, device.gaps.feeders
    table, row = feeders.table[rows], feeders.row[rows]
    plain = (*(f"{direction} copy" for direction in COPY_DIRECTIONS), "memset")
    ended = np.full(len(rows), -1, np.int64)
    for code, kind in enumerate(TABLES):
        here = table == code
        if kind == "copies":
            ended[here] = trace.copies.direction[row[here]]
        elif kind == "memsets":
            ended[here] = len(COPY_DIRECTIONS)
        elif here.any():
            ended[here] = getattr(trace, kind).name[row[here]] + len(plain)
    return ended, plain + trace.names
