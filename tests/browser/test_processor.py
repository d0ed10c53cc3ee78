"""Perfetto's own trace processor reads what `--format perfetto` writes, and agrees with the SQLite.

Expected rows come from SQL on the recording, not from this project's reader.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis import cli
from tests.browser.processor import Processor
from tests.traces.traps import TRAPS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("processor")]

SAMPLES = sorted((Path(__file__).parents[2] / "reports/samples").glob("*.sqlite"))

_API = "CUPTI_ACTIVITY_KIND_RUNTIME"
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
#: Slices with the names of their track and of its group.
_SLICES = """
    SELECT g.name AS lanes, t.name AS track, s.id, s.ts, s.dur, s.depth, s.name, s.arg_set_id
    FROM slice s JOIN track t ON s.track_id = t.id JOIN track g ON t.parent_id = g.id
"""


@pytest.fixture(scope="module")
def processor(browser: Browser) -> Iterator[Processor]:
    context = browser.new_context()
    yield Processor(context)
    context.close()


def write(output: Path, *recordings: Path) -> bytes:
    arguments = ["analyze", *map(str, recordings), "--format", "perfetto", "-o", str(output)]
    assert cli.run(arguments) == 0
    return output.read_bytes()


@dataclass
class Loaded:
    """A recording in both: as SQLite, and in Perfetto's processor."""

    processor: Processor
    recording: sqlite3.Connection

    def shown(self, what: str, where: str, order: str = "") -> list[tuple[Any, ...]]:
        return self.processor.rows(f"SELECT {what} FROM ({_SLICES}) WHERE {where} {order}")

    def recorded(self, sql: str) -> list[tuple[Any, ...]]:
        return self.recording.execute(sql).fetchall()

    def tables(self) -> set[str]:
        return {name for (name,) in self.recorded("SELECT name FROM sqlite_master")}


@pytest.fixture(scope="module", params=SAMPLES, ids=lambda path: path.stem)
def loaded(
    request: pytest.FixtureRequest, processor: Processor, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Loaded]:
    sample = request.param
    processor.load(write(tmp_path_factory.mktemp("perfetto") / "trace.pftrace", sample))
    with closing(sqlite3.connect(f"file:{sample}?mode=ro", uri=True)) as recording:
        yield Loaded(processor, recording)


def assert_flawless(processor: Processor) -> None:
    """Nothing was dropped, misplaced, left open or cut short while Perfetto read the trace."""
    bad = "severity IN ('error', 'data_loss') AND value != 0"
    assert processor.rows(f"SELECT name, idx, value FROM stats WHERE {bad}") == []
    assert processor.rows("SELECT count(*) AS open FROM slice WHERE dur < 0") == [(0,)]
    assert processor.rows("SELECT count(*) AS nameless FROM slice WHERE name IS NULL") == [(0,)]
    # Slices of one depth of a track never overlap, and each lies inside its parent.
    assert processor.rows("""
        SELECT count(*) AS overlaps FROM (
          SELECT ts, lag(ts + dur) OVER (PARTITION BY track_id, depth ORDER BY ts, id) AS before
          FROM slice) WHERE before > ts""") == [(0,)]
    assert processor.rows("""
        SELECT count(*) AS outside FROM slice s JOIN slice p ON s.parent_id = p.id
        WHERE s.ts < p.ts OR s.ts + s.dur > p.ts + p.dur""") == [(0,)]


def test_perfetto_finds_no_fault(loaded: Loaded) -> None:
    assert_flawless(loaded.processor)


def test_every_row_is_a_slice(loaded: Loaded) -> None:
    tables = loaded.tables()

    def rows(table: str, name: str, where: str = "1") -> list[tuple[Any, ...]]:
        if table not in tables:
            return []
        return loaded.recorded(
            f"SELECT start, end - start, {name} FROM {table} e WHERE {where} ORDER BY 1, 2, 3"
        )

    def slices(track: str) -> list[tuple[Any, ...]]:
        return loaded.shown("ts, dur, name", f"track = '{track}'", "ORDER BY ts, dur, name")

    short = "(SELECT value FROM StringIds WHERE id = e.shortName)"
    assert slices("kernels") == rows(_KERNELS, short)
    assert slices("memsets") == rows(_MEMSETS, "'memset'")
    for kind, direction in ((1, "h2d"), (2, "d2h"), (8, "d2d")):
        assert slices(f"copies {direction}") == rows(
            _COPIES, f"'{direction}'", f"copyKind = {kind}"
        )
    # Of threads, those are shown that feed the GPU or hold one up that does.
    groups = loaded.processor.rows("SELECT name FROM track WHERE parent_id IS NULL")
    tids = [name.split()[1] for (name,) in groups if name.startswith("thread ")]
    assert tids
    of_shown = f"globalTid & 0xFFFFFF IN ({','.join(tids)})"
    text = "coalesce(text, (SELECT value FROM StringIds WHERE id = e.textId))"
    assert slices("NVTX ranges") == rows("NVTX_EVENTS", text, f"eventType = 59 AND {of_shown}")
    call = "(SELECT value FROM StringIds WHERE id = e.nameId)"
    assert slices("OS runtime calls") == rows("OSRT_API", call, f"eventClass = 27 AND {of_shown}")
    # nsys appends versions to the names of CUDA calls, which are left out.
    assert [row[:2] for row in slices("CUDA calls")] == [
        row[:2] for row in rows(_API, "''", of_shown)
    ]


def test_flows_join_each_call_to_what_it_launched(loaded: Loaded) -> None:
    flows = loaded.processor.rows(f"""
        SELECT call.ts AS called, work.ts AS started, call.track AS source, work.track AS target
        FROM flow f JOIN ({_SLICES}) call ON f.slice_out = call.id
        JOIN ({_SLICES}) work ON f.slice_in = work.id ORDER BY 1, 2""")
    assert {source for _, _, source, _ in flows} == {"CUDA calls"}
    expected: list[tuple[int, int]] = []
    for table in loaded.tables() & {_KERNELS, _COPIES, _MEMSETS}:
        expected += loaded.recorded(
            f"SELECT r.start, a.start FROM {table} a JOIN {_API} r ON "
            "r.correlationId = a.correlationId AND r.globalTid >> 24 = a.globalPid >> 24"
        )
    assert len(expected) > 100
    assert [(called, started) for called, started, _, _ in flows] == sorted(expected)


def test_gaps_are_where_the_gpu_does_nothing(loaded: Loaded) -> None:
    busy = " UNION ALL ".join(
        f"SELECT start, end FROM {table}"
        for table in sorted(loaded.tables() & {_KERNELS, _COPIES, _MEMSETS})
    )
    expected = loaded.recorded(f"""
        SELECT reached, start - reached FROM (
          SELECT start, max(end) OVER
            (ORDER BY start, end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
          FROM ({busy})) WHERE start > reached ORDER BY 1""")
    gaps = loaded.shown("ts, dur, name", "track = 'idle' AND depth = 0", "ORDER BY ts")
    assert [(ts, dur) for ts, dur, _ in gaps] == expected
    assert {name for *_, name in gaps} == {"idle gap"}
    # The parts fill their gap, to the nanosecond, and say what they are.
    assert loaded.processor.rows("""
        SELECT count(*) AS wrong FROM slice g WHERE g.name = 'idle gap' AND g.dur !=
          (SELECT sum(dur) FROM slice p WHERE p.parent_id = g.id)""") == [(0,)]
    parts = "track = 'idle' AND depth = 1"
    unexplained = (
        f"{parts} AND (extract_arg(arg_set_id, 'debug.cause') IS NULL OR "
        "extract_arg(arg_set_id, 'debug.nvtx') IS NULL)"
    )
    assert loaded.shown("count(*) AS n", unexplained) == [(0,)]


def test_the_query_of_the_documentation_lists_the_longest_gaps(loaded: Loaded) -> None:
    text = (Path(__file__).parents[2] / "docs/perfetto.md").read_text()
    (query,) = (line.strip() for line in text.splitlines() if line.startswith("    SELECT"))
    gaps = loaded.shown("ts, dur", "track = 'idle' AND depth = 0", "ORDER BY dur DESC LIMIT 10")
    assert loaded.processor.rows(query.rstrip(";")) == gaps


def test_gaps_name_the_call_that_fed_them(loaded: Loaded) -> None:
    gaps = loaded.shown(
        "ts + dur AS ends, extract_arg(arg_set_id, 'debug.feeding_call_start_ns') AS called",
        "track = 'idle' AND depth = 0 AND called IS NOT NULL",
    )
    assert gaps
    launched = set(
        loaded.processor.rows("""
        SELECT work.ts AS started, call.ts AS called FROM flow f
        JOIN slice call ON f.slice_out = call.id JOIN slice work ON f.slice_in = work.id""")
    )
    assert set(gaps) <= launched


def test_every_trap_at_once(processor: Processor, tmp_path: Path) -> None:
    for name, trap in TRAPS.items():
        trap.write(tmp_path / f"{name}.sqlite")
    recordings = sorted(tmp_path.glob("*.sqlite"))
    processor.load(write(tmp_path / "trace.pftrace", *recordings))
    assert_flawless(processor)
    roots = processor.rows("SELECT name FROM track WHERE parent_id IS NULL ORDER BY name")
    assert [name for (name,) in roots] == [str(path) for path in recordings]
