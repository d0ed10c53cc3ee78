"""Large traces are read and attributed in pieces; that changes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from analysis import cli
from analysis.metrics import attribution
from analysis.nsys import columns

SAMPLES = Path(__file__).parents[2] / "reports" / "samples"
#: Waits with holders, of which some last longer than a gap; many short gaps; several threads.
NAMES = ("d2h_workers", "pin_thread", "h2d_prefetch")


def report(trace: Path, output: Path) -> bytes:
    arguments = ["analyze", str(trace), "--format", "json", "--min-gap", "0"]
    assert cli.run([*arguments, "--output", str(output)]) == 0
    return output.read_bytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("module", "constant"), [(attribution, "_BLOCK"), (columns, "_PIECE_ROWS")]
)
def test_pieces_change_nothing(
    name: str, module: object, constant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = SAMPLES / f"{name}.sqlite"
    whole = report(trace, tmp_path / "whole.json")
    monkeypatch.setattr(module, constant, 97)
    assert report(trace, tmp_path / "pieces.json") == whole


@pytest.mark.parametrize("far", [500, 1 << 50])
def test_row_ids_may_have_holes(far: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are moved to higher ids: pieces without rows, and spans beyond any memory."""
    monkeypatch.setattr(columns, "_PIECE_ROWS", 97)
    folders = tmp_path / "with", tmp_path / "without"
    for folder in folders:
        folder.mkdir()
        (folder / "trace.sqlite").write_bytes((SAMPLES / "d2h_workers.sqlite").read_bytes())
    with closing(sqlite3.connect(folders[0] / "trace.sqlite")) as database, database:
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "OSRT_API", "NVTX_EVENTS"):
            (last,) = database.execute(f"SELECT max(rowid) FROM {table}").fetchone()
            moved = database.execute(
                f"UPDATE {table} SET rowid = rowid + ? WHERE rowid > ?",
                (far, last // 2),
            )
            assert moved.rowcount > 0
    monkeypatch.chdir(folders[0])
    found = report(Path("trace.sqlite"), tmp_path / "with.json")
    monkeypatch.chdir(folders[1])
    assert found == report(Path("trace.sqlite"), tmp_path / "without.json")
