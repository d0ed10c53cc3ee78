"""``nsyslab compare``: what moved, what appeared, what is noise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis.cli import run
from tests.analysis.diagnosis.scene import Case, Scene
from tests.analysis.test_samples import SAMPLES


def compare(tmp_path: Path, *paths: Path, options: tuple[str, ...] = ()) -> dict[str, Any]:
    output = tmp_path / "comparison.json"
    arguments = ["compare", *map(str, paths), "--format", "json", "-o", str(output), "--force"]
    assert run([*arguments, *options]) == 0
    found: dict[str, Any] = json.loads(output.read_bytes())
    return found


def row(found: dict[str, Any], name: str) -> dict[str, Any]:
    (match,) = [row for row in found["rows"] if row["name"] == name]
    return dict(match)


def test_a_rung_and_the_next(tmp_path: Path) -> None:
    found = compare(tmp_path, SAMPLES / "d2h_workers.sqlite", SAMPLES / "d2h_pool.sqlite")
    assert [column["name"] for column in found["columns"]] == ["d2h_workers", "d2h_pool"]
    munmap = row(found, "munmap in Batch # / copy to CPU")
    # 70.0 ms in gaps and 30.9 ms at the edge, over three steps.
    assert munmap["values"][0] == pytest.approx(100_851_455 / 3)
    assert munmap["values"][1] is None
    assert munmap["change"] == -munmap["values"][0]
    assert any("went away: munmap" in line for line in found["summary"])
    assert found["summary"][0] == "6.03 x as fast: 1,529.77 to 253.73 ms per step"
    backwards = compare(tmp_path, SAMPLES / "d2h_pool.sqlite", SAMPLES / "d2h_workers.sqlite")
    assert any("appeared: munmap" in line for line in backwards["summary"])


def test_the_parts_of_a_step_sum_to_it(tmp_path: Path) -> None:
    found = compare(tmp_path, SAMPLES / "h2d_baseline.sqlite", SAMPLES / "h2d_streams.sqlite")
    for column in range(2):
        parts = [
            row(found, name)["values"][column]
            for name in ("compute", "exposed copies", "exposed memset", "idle")
        ]
        assert sum(parts) == pytest.approx(row(found, "period")["values"][column])
        causes = [r["values"][column] or 0 for r in found["rows"] if r["section"] == "causes"]
        # Idle at the edges of the window, before the steps, is no step's.
        assert sum(causes) == pytest.approx(row(found, "idle")["values"][column], rel=0.05)


def recording(path: Path, work_ms: float) -> None:
    def step(s: Scene, k: int) -> None:
        s.kernel(0.02, work_ms)
        s.range(work_ms + 0.01, 9.98, "alpha")

    Case(step, (), "", {}, 10.0).write(path)


def test_differences_within_the_spread_are_noise(tmp_path: Path) -> None:
    for version, works in (("before", (5.0, 5.4)), ("after", (5.3, 5.1)), ("faster", (8.0, 8.1))):
        (tmp_path / version).mkdir()
        for number, work in enumerate(works):
            recording(tmp_path / version / f"{number}.sqlite", work)
    same = compare(tmp_path, tmp_path / "before", tmp_path / "after")
    assert [column["count"] for column in same["columns"]] == [2, 2]
    assert row(same, "idle")["noise"] is True
    assert row(same, "idle")["spreads"][0] == pytest.approx(400_000, rel=0.05)
    other = compare(tmp_path, tmp_path / "before", tmp_path / "faster")
    assert row(other, "idle")["noise"] is False


def test_a_recording_without_steps_is_compared_by_its_window(tmp_path: Path) -> None:
    recording(tmp_path / "a.sqlite", 5)

    def step(s: Scene, k: int) -> None:
        s.kernel(0.02, 5)

    from tests.traces.writer import TraceWriter

    with TraceWriter(tmp_path / "b.sqlite") as writer:
        scene = Scene(writer)
        for k in range(3):
            step(scene, k)
            scene.now += 10
    found = compare(tmp_path, tmp_path / "a.sqlite", tmp_path / "b.sqlite")
    assert [column["per"] for column in found["columns"]] == ["window", "window"]
    # From the first kernel to the last one's end: 4 and 2 periods of 10 ms, and one kernel.
    assert row(found, "period")["values"] == [44_980_000, 24_980_000]


def test_three_versions_in_every_format(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    paths = [str(SAMPLES / f"h2d_{name}.sqlite") for name in ("baseline", "workers", "streams")]
    assert run(["compare", *paths, "--top", "3"]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert "7.64 x as fast" in text
    assert "more causes (--top)" in text
    assert run(["compare", *paths, "--format", "markdown"]) == 0
    lines = capsysbinary.readouterr().out.decode().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") - line.count("\\|") for line in table}) == 1


def test_recordings_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        shutil.copy(SAMPLES / "h2d_async.sqlite", tmp_path / folder / "run.sqlite")
    paths = [tmp_path / folder / "run.sqlite" for folder in ("old", "new")]
    found = compare(tmp_path, *paths)
    assert [column["name"] for column in found["columns"]] == [str(path) for path in paths]
    assert row(found, "period")["change"] == 0


def test_one_recording_is_no_comparison(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(SAMPLES / "h2d_async.sqlite")]) == 2
    assert "compare what with what?" in capfd.readouterr().err
