"""The timeline as a Perfetto trace (protobuf), for ui.perfetto.dev.

Tracks are those of the page's timeline: per GPU its idle gaps with the causes inside, kernels,
copies and memsets; per thread its NVTX ranges and calls. Flows lead from a CUDA call to what it
launched. Times are nanoseconds since the start of the nsys session; where something is older than
that, since the oldest, for Perfetto knows no negative times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from analysis.metrics.attribution import CAUSES
from analysis.renderers import Style
from analysis.renderers import _words as words
from analysis.renderers._kinds import LANE_KINDS
from analysis.trace import MEMORY_KINDS

if TYPE_CHECKING:
    from analysis.metrics.gaps import Gaps
    from analysis.metrics.lanes import DeviceLanes, Lane, Lanes
    from analysis.report import Report

#: The report must hold what is shown.
NEEDS_LANES = True

#: All packets are one sequence.
_SEQUENCE = 1
#: Packets that are serialized at a time.
_CHUNK = 20_000

_BEGIN = proto.TrackEvent.TYPE_SLICE_BEGIN
_END = proto.TrackEvent.TYPE_SLICE_END

#: What a slice says besides its name: annotation and value.
Facts = Sequence[tuple[str, int | str]]


def render(reports: Sequence[Report], _style: Style) -> bytes:
    """One trace; of several recordings each has a group of its own, from its own zero on."""
    writer = _Writer()
    for report in reports:
        if report.lanes is not None:
            root = 0
            if len(reports) > 1:
                root = writer.track(words.one_line(report.trace.path))
            _recording(writer, report.lanes, root)
    return writer.finish()


class _Writer:
    """Packets of one sequence, with names interned."""

    def __init__(self) -> None:
        self._done: list[bytes] = []
        self._trace = proto.Trace()
        self._names: dict[str, int] = {}
        self._annotations: dict[str, int] = {}
        self._tracks = 0
        self._flows = 0
        #: What is added to all times, ns.
        self.shift = 0
        first = self._packet()
        first.sequence_flags = proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        first.first_packet_on_sequence = True

    def finish(self) -> bytes:
        self._flush()
        return b"".join(self._done)

    def track(self, name: str, parent: int = 0, rank: int = 0) -> int:
        """A new track; those of one name and parent are shown as one. Returns its id."""
        self._tracks += 1
        track = self._packet().track_descriptor
        track.uuid = self._tracks
        track.name = _utf8(name)
        if parent:
            track.parent_uuid = parent
        track.sibling_order_rank = rank
        track.child_ordering = proto.TrackDescriptor.EXPLICIT
        return self._tracks

    def new_flows(self, count: int) -> int:
        """Reserves ids of flows; the first of them."""
        first = self._flows + 1
        self._flows += count
        return first

    def begin(
        self,
        track: int,
        time: int,
        name: str,
        facts: Facts = (),
        starts: Sequence[int] = (),
        ends: Sequence[int] = (),
    ) -> None:
        """A slice begins.

        Args:
            track: Its track.
            time: When, ns.
            name: Its name.
            facts: Annotations.
            starts: Ids of the flows that start in it.
            ends: Ids of the flows that end in it.
        """
        packet = self._packet()
        packet.timestamp = time + self.shift
        event = packet.track_event
        event.type = _BEGIN
        event.track_uuid = track
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = len(self._names) + 1
            packet.interned_data.event_names.add(iid=known, name=_utf8(name))
        event.name_iid = known
        for label, value in facts:
            annotation = event.debug_annotations.add()
            iid = self._annotations.get(label)
            if iid is None:
                iid = self._annotations[label] = len(self._annotations) + 1
                packet.interned_data.debug_annotation_names.add(iid=iid, name=label)
            annotation.name_iid = iid
            if isinstance(value, int):
                annotation.int_value = value
            else:
                annotation.string_value = _utf8(value)
        event.flow_ids.extend(starts)
        event.terminating_flow_ids.extend(ends)

    def end(self, track: int, time: int) -> None:
        """The innermost open slice of a track ends."""
        packet = self._packet()
        packet.timestamp = time + self.shift
        event = packet.track_event
        event.type = _END
        event.track_uuid = track

    def _packet(self) -> proto.TracePacket:
        if len(self._trace.packet) >= _CHUNK:
            self._flush()
        packet = self._trace.packet.add()
        packet.trusted_packet_sequence_id = _SEQUENCE
        packet.sequence_flags = proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        return packet

    def _flush(self) -> None:
        # A trace is its packets one after the other, so that parts can be joined.
        self._done.append(self._trace.SerializeToString())
        self._trace = proto.Trace()


def _utf8(text: str) -> str:
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def _recording(writer: _Writer, lanes: Lanes, root: int) -> None:
    flows = _flows(writer, lanes)
    trace = lanes.trace
    writer.shift = -min(_oldest(lanes), 0)
    for rank, shown in enumerate(lanes.devices):
        device = trace.devices[shown.device]
        name = f"GPU {device.id}" + (f" {words.one_line(device.name)}" if device.name else "")
        group = writer.track(name, root, rank)
        _idle(writer, lanes, shown, group)
        for order, lane in enumerate(shown.lanes, 1):
            _slices(writer, lanes, lane, group, order, flows)
    for rank, threads in enumerate(lanes.threads, len(lanes.devices)):
        thread = trace.threads[threads.thread]
        name = f"thread {thread.tid} {words.one_line(thread.name)}".rstrip()
        if len(trace.processes) > 1:
            name += f", process {thread.pid}"
        group = writer.track(name, root, rank)
        for order, lane in enumerate(threads.lanes):
            _slices(writer, lanes, lane, group, order, flows)


def _oldest(lanes: Lanes) -> int:
    """The earliest time of anything shown, ns."""
    shown = [lane for device in lanes.devices for lane in device.lanes]
    shown += [lane for thread in lanes.threads for lane in thread.lanes]
    times = [getattr(lanes.trace, lane.table).start[lane.rows] for lane in shown]
    times += [device.gaps.idle.start for device in lanes.devices]
    return min((int(start.min()) for start in times if len(start)), default=0)


class _Flows:
    """Flows from calls that are shown to what they launched."""

    def __init__(self) -> None:
        self.of_call: dict[int, list[int]] = {}
        self.of_activity: dict[tuple[str, int], int] = {}


def _flows(writer: _Writer, lanes: Lanes) -> _Flows:
    flows = _Flows()
    drawn: set[int] = set()
    for thread in lanes.threads:
        for lane in thread.lanes:
            if lane.kind == "cuda":
                drawn.update(lane.rows.tolist())
    for device in lanes.devices:
        for lane in device.lanes:
            calls = lane.calls.tolist() if lane.calls is not None else []
            first = writer.new_flows(len(calls))
            for flow, (row, call) in enumerate(zip(lane.rows.tolist(), calls, strict=True), first):
                if call in drawn:
                    flows.of_call.setdefault(call, []).append(flow)
                    flows.of_activity[lane.table, row] = flow
    return flows


def _slices(
    writer: _Writer, lanes: Lanes, lane: Lane, group: int, order: int, flows: _Flows
) -> None:
    table = getattr(lanes.trace, lane.table)
    start, end = table.start[lane.rows].tolist(), table.end[lane.rows].tolist()
    tracks = [
        writer.track(LANE_KINDS[lane.kind], group, order) for _ in range(int(lane.depth.max()) + 1)
    ]
    for row, depth, begins, ends, name, facts in zip(
        lane.rows.tolist(),
        lane.depth.tolist(),
        start,
        end,
        _names(lanes, lane),
        _facts(lanes, lane),
        strict=False,  # lanes without facts repeat none for ever
    ):
        flow = flows.of_activity.get((lane.table, row))
        writer.begin(
            tracks[depth],
            begins,
            name,
            facts,
            starts=flows.of_call.get(row, ()) if lane.kind == "cuda" else (),
            ends=(flow,) if flow else (),
        )
        writer.end(tracks[depth], ends)


def _names(lanes: Lanes, lane: Lane) -> Iterator[str]:
    names = lanes.trace.names
    table = getattr(lanes.trace, lane.table)
    if lane.table in ("copies", "memsets"):
        return repeat(lane.kind.rstrip("s"), len(lane.rows))
    return (names[name] if name >= 0 else "" for name in table.name[lane.rows].tolist())


def _facts(lanes: Lanes, lane: Lane) -> Iterator[Facts]:
    table = getattr(lanes.trace, lane.table)
    if lane.calls is None:
        return repeat(())
    streams = table.stream[lane.rows].tolist()
    if lane.table != "copies":
        return ((("stream", stream),) for stream in streams)
    return (
        (("stream", stream), ("bytes", size), ("memory", MEMORY_KINDS[memory]))
        for stream, size, memory in zip(
            streams,
            table.bytes[lane.rows].tolist(),
            table.memory[lane.rows].tolist(),
            strict=True,
        )
    )


def _idle(writer: _Writer, lanes: Lanes, device: DeviceLanes, group: int) -> None:
    """The gaps of a device, and inside each its parts in order of time."""
    gaps, segments = device.gaps, device.gaps.segments
    track = writer.track("idle", group, 0)
    end = gaps.idle.end.tolist()
    open_ = -1
    texts = _causes(lanes, device)
    for owner, begins, ends, (name, facts) in zip(
        segments.owner.tolist(), segments.start.tolist(), segments.end.tolist(), texts, strict=True
    ):
        if owner != open_:
            if open_ >= 0:
                writer.end(track, end[open_])
            open_ = owner
            writer.begin(track, int(gaps.idle.start[owner]), "idle gap", _gap(lanes, gaps, owner))
        writer.begin(track, begins, name, facts)
        writer.end(track, ends)
    if open_ >= 0:
        writer.end(track, end[open_])


def _causes(lanes: Lanes, device: DeviceLanes) -> Iterator[tuple[str, Facts]]:
    """Name and annotations of each part of idle time."""
    segments, names = device.gaps.segments, lanes.trace.names
    for code, name, via, path, holder, held in zip(
        segments.cause.tolist(), segments.name.tolist(), segments.via.tolist(),
        segments.path.tolist(), segments.holder.tolist(), segments.held_ns.tolist(),
        strict=True,
    ):  # fmt: skip
        cause = CAUSES[code]
        text = words.cause_text(
            cause, names[name] if name >= 0 else "", names[via] if via >= 0 else None
        )
        facts: list[tuple[str, int | str]] = [("cause", cause), ("nvtx", lanes.paths[path])]
        if holder >= 0:
            found = lanes.holders[holder]
            what = f"{found.name} via {found.via}" if found.via else found.name
            facts += [
                ("overlaps_thread", lanes.trace.threads[found.thread].tid),
                ("overlaps_call", what),
                ("overlaps_ns", held),
            ]
        yield text, facts


def _gap(lanes: Lanes, gaps: Gaps, owner: int) -> Facts:
    trace = lanes.trace
    thread, call = int(gaps.idle.thread[owner]), int(gaps.idle.call[owner])
    facts: list[tuple[str, int | str]] = []
    if thread >= 0:
        facts.append(("feeding_thread", trace.threads[thread].tid))
    if call >= 0:
        facts.append(("feeding_call", trace.names[trace.api_calls.name[call]]))
        facts.append(("feeding_call_start_ns", int(trace.api_calls.start[call])))
    if gaps.feeders.inferred[owner]:
        facts.append(("inferred", "yes"))
    return facts
