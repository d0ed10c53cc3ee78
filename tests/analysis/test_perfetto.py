"""The Perfetto trace, read back with Perfetto's own schema, tells what the recording does."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Packets
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

from analysis import cli
from analysis.build import build
from analysis.nsys.recording import open_recording
from analysis.report import Options
from analysis.trace import COPY_DIRECTIONS
from tests.traces.traps import TRAPS
from tests.traces.writer import TraceWriter

SAMPLES = sorted((Path(__file__).parents[2] / "reports/samples").glob("*.sqlite"))


@dataclass
class Slice:
    track: str
    group: str
    name: str
    start: int
    end: int
    depth: int
    facts: dict[str, int | str]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


@dataclass
class Read:
    """A trace as Perfetto understands it: strict, where its processor would count an error."""

    slices: list[Slice] = field(default_factory=list)
    tracks: dict[int, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes) -> Read:
        found = cls()
        packets = Packets.FromString(data).packet
        assert packets[0].sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        names: dict[int, str] = {}
        labels: dict[int, str] = {}
        open_: dict[int, list[Slice]] = {}
        last: dict[int, int] = {}
        for packet in packets:
            assert packet.trusted_packet_sequence_id == 1
            for entry in packet.interned_data.event_names:
                assert entry.iid not in names
                names[entry.iid] = entry.name
            for entry in packet.interned_data.debug_annotation_names:
                labels[entry.iid] = entry.name
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid not in found.tracks
                found.tracks[track.uuid] = track.name, track.parent_uuid
            if not packet.HasField("track_event"):
                continue
            event = packet.track_event
            stack = open_.setdefault(event.track_uuid, [])
            # Events of a track come in order, so that those of one instant nest as they should.
            assert packet.timestamp >= last.get(event.track_uuid, 0)
            last[event.track_uuid] = packet.timestamp
            if event.type == TrackEvent.TYPE_SLICE_END:
                stack.pop().end = packet.timestamp
                continue
            assert event.type == TrackEvent.TYPE_SLICE_BEGIN
            name, parent = found.tracks[event.track_uuid]
            facts = {
                labels[a.name_iid]: a.int_value if a.HasField("int_value") else a.string_value
                for a in event.debug_annotations
            }
            group = found.tracks[parent][0]
            stack.append(
                Slice(name, group, names[event.name_iid], packet.timestamp, -1, len(stack),
                      facts, tuple(event.flow_ids), tuple(event.terminating_flow_ids))
            )  # fmt: skip
            found.slices.append(stack[-1])
        assert not any(open_.values())
        return found

    def on(self, track: str) -> list[Slice]:
        return sorted((s for s in self.slices if s.track == track), key=lambda s: (s.start, -s.end))


def perfetto(path: Path, out: Path, *options: str, code: int = 0) -> Read:
    output = out / "trace.pftrace"
    output.unlink(missing_ok=True)
    arguments = ["analyze", str(path), "--format", "perfetto", "--output", str(output), *options]
    assert cli.run(arguments) == code
    return Read.of(output.read_bytes())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_slices_and_counts_are_those_of_the_trace(sample: Path, tmp_path: Path) -> None:
    found = perfetto(sample, tmp_path)
    trace, _ = open_recording(sample)
    lanes = build(trace, Options(lanes=True)).lanes
    assert lanes is not None

    def times(track: str) -> list[tuple[int, int]]:
        return [(s.start, s.end) for s in found.on(track)]

    def rows(table: str, keep: object = slice(None)) -> list[tuple[int, int]]:
        events = getattr(trace, table)
        pairs = zip(events.start[keep].tolist(), events.end[keep].tolist(), strict=True)
        return sorted(pairs, key=lambda pair: (pair[0], -pair[1]))

    assert times("kernels") == rows("kernels")
    assert times("memsets") == rows("memsets")
    for code, direction in enumerate(COPY_DIRECTIONS[:3]):
        assert times(f"copies {direction}") == rows("copies", trace.copies.direction == code)
    shown = [thread.thread for thread in lanes.threads]
    for track, table in (
        ("NVTX ranges", "ranges"),
        ("CUDA calls", "api_calls"),
        ("OS runtime calls", "os_calls"),
    ):
        keep = [int(thread) in shown for thread in getattr(trace, table).thread]
        assert times(track) == rows(table, keep)
    names = sorted(trace.names[name] for name in trace.kernels.name)
    assert sorted(s.name for s in found.on("kernels")) == names


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_flows_lead_from_calls_to_what_they_launched(sample: Path, tmp_path: Path) -> None:
    found = perfetto(sample, tmp_path)
    trace, _ = open_recording(sample)
    calls = {flow: slice_ for slice_ in found.slices for flow in slice_.starts}
    work = {flow: slice_ for slice_ in found.slices for flow in slice_.ends}
    assert calls.keys() == work.keys()
    assert len(work) == len(trace.kernels) + len(trace.copies) + len(trace.memsets)
    correlation = {
        (start, trace.names[name]): id_
        for start, name, id_ in zip(
            trace.api_calls.start.tolist(), trace.api_calls.name.tolist(),
            trace.api_calls.correlation.tolist(), strict=True,
        )
    }  # fmt: skip
    kernels = dict(
        zip(trace.kernels.start.tolist(), trace.kernels.correlation.tolist(), strict=True)
    )
    checked = 0
    for flow, call in calls.items():
        assert call.track == "CUDA calls"
        assert call.start <= work[flow].start
        if work[flow].track == "kernels":
            assert correlation[call.start, call.name] == kernels[work[flow].start]
            checked += 1
    assert checked == len(trace.kernels)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_gaps_hold_their_causes(sample: Path, tmp_path: Path) -> None:
    found = perfetto(sample, tmp_path)
    trace, _ = open_recording(sample)
    (device,) = build(trace, Options(min_gap_ns=0)).devices
    idle = found.on("idle")
    gaps = [s for s in idle if s.depth == 0]
    parts = [s for s in idle if s.depth == 1]
    assert [(s.start, s.end - s.start) for s in gaps] == [
        (gap.start_ns, gap.duration_ns) for gap in device.gaps
    ]
    assert sum(s.end - s.start for s in parts) == device.idle.total_ns
    by_cause: dict[str, int] = {}
    for part in parts:
        cause = str(part.facts["cause"])
        by_cause[cause] = by_cause.get(cause, 0) + part.end - part.start
    expected: dict[str, int] = {}
    for cause_ in device.idle.by_cause:
        expected[cause_.cause] = expected.get(cause_.cause, 0) + cause_.ns
    assert by_cause == expected
    for slice_, gap in zip(gaps, device.gaps, strict=True):
        assert slice_.facts.get("feeding_call") == gap.feeding_call
        assert gap.feeding_thread is not None
        assert slice_.facts["feeding_thread"] == gap.feeding_thread.thread


def test_a_holder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with TraceWriter(path) as w:
        w.kernel(100, 200, call=w.api(10, 20))
        w.osrt(200, 800, "pthread_cond_wait")
        w.osrt(210, 790, "posix_fallocate64", tid=101)
        w.kernel(1000, 1100, call=w.api(900, 910))
    (wait,) = (s for s in perfetto(path, tmp_path).on("idle") if s.name == "pthread_cond_wait")
    assert (wait.start, wait.end) == (200, 800)
    assert wait.facts == {
        "cause": "osrt", "nvtx": "outside any range", "overlaps_thread": 101,
        "overlaps_call": "posix_fallocate64", "overlaps_ns": 580,
    }  # fmt: skip


def test_one_call_launches_many(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with TraceWriter(path) as w:
        call = w.api(10, 20, "cudaGraphLaunch")
        w.kernel(100, 200, call=call)
        w.kernel(150, 300, call=call, stream=9)
    found = perfetto(path, tmp_path)
    (launch,) = found.on("CUDA calls")
    kernels = found.on("kernels")
    assert sorted(launch.starts) == sorted(flow for kernel in kernels for flow in kernel.ends)
    assert len(set(launch.starts)) == 2


@pytest.mark.parametrize("trap", TRAPS)
def test_every_trap_is_written(trap: str, tmp_path: Path) -> None:
    expected = TRAPS[trap].write(tmp_path / "trap.sqlite")
    found = perfetto(tmp_path / "trap.sqlite", tmp_path, *expected.options, code=expected.exit_code)
    trace, _ = open_recording(tmp_path / "trap.sqlite")
    if expected.exit_code == 0 and "--device" not in expected.options:
        assert len(found.on("kernels")) == len(trace.kernels)


def test_several_recordings_stand_apart(tmp_path: Path) -> None:
    output = tmp_path / "trace.pftrace"
    arguments = ["analyze", *map(str, SAMPLES[:2]), "--format", "perfetto", "-o", str(output)]
    assert cli.run(arguments) == 0
    found = Read.of(output.read_bytes())
    roots = [name for name, parent in found.tracks.values() if not parent]
    assert roots == [str(path) for path in SAMPLES[:2]]
    flows = [flow for slice_ in found.slices for flow in slice_.starts]
    assert len(flows) == len(set(flows))


def test_times_before_the_session_are_shifted(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with TraceWriter(path) as w:
        w.push_pop(-500, 100, "early")
        w.kernel(100, 200, call=w.api(10, 20))
        w.kernel(1000, 1100, call=w.api(900, 910))
    found = perfetto(path, tmp_path)
    assert [(s.start, s.end) for s in found.on("NVTX ranges")] == [(0, 600)]
    assert [(s.start, s.end) for s in found.on("kernels")] == [(600, 700), (1500, 1600)]
