"""From reports to the table of a ladder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import analysis
from analysis import cli
from analysis.renderers import Style, renderer
from workloads import ladder, table
from workloads.ladder import Numbers, Rung

SAMPLES = Path(__file__).parents[2] / "reports" / "samples"

MS = 1_000_000


def copies(d2h: int = 0, h2d: int = 0) -> dict[str, int]:
    return {"d2h": d2h, "h2d": h2d, "d2d": 0, "p2p": 0, "other": 0}


def part(cause: str, name: str, nvtx: str, ns: int, held_by: str | None = None) -> dict[str, Any]:
    holder = held_by and {"thread": 2, "process": 1, "name": held_by, "ns": ns}
    return {
        "cause": cause, "name": name, "via": None, "nvtx": nvtx, "ns": ns, "held_by": holder,
    }  # fmt: skip


def report(**changed: Any) -> dict[str, Any]:
    device = {
        "id": 0,
        "window": {"duration_ns": 100 * MS},
        "partition": {
            "compute_ns": 60 * MS, "exposed_copy_ns": copies(20 * MS, 5 * MS), "idle_ns": 15 * MS,
        },
        "overlap": {"all": {"percent": 12.5}},
        "gaps": [
            {"duration_ns": 3 * MS, "parts": [part("launch", "cudaLaunchKernel", "B", 3 * MS)]},
            {
                "duration_ns": 9 * MS,
                "parts": [
                    part("osrt", "munmap", "Batch 1 / copy to CPU", 4 * MS),
                    part("osrt", "pthread_cond_timedwait", "Batch 2 / get batch", 3 * MS, "mmap"),
                    part("osrt", "pthread_cond_timedwait", "Batch 3 / get batch", 2 * MS, "mmap"),
                ],
            },
        ],
    }  # fmt: skip
    rows = [
        {"compute_ns": 30 * MS, "exposed_copy_ns": copies(10 * MS, 2 * MS), "idle_ns": 8 * MS},
        {"compute_ns": 30 * MS, "exposed_copy_ns": copies(10 * MS, 3 * MS), "idle_ns": 12 * MS},
    ]
    return {
        "devices": [device],
        "steps": {"count": 2, "device": 0, "per_second": 0.52, "rows": rows},
        "findings": [],
        "verdict": "copy-bound",
    } | changed


def test_numbers_are_per_step_and_count_what_the_loop_adds_around_the_window() -> None:
    assert ladder.numbers(report(), steps=3) == Numbers(
        steps=2,
        per_second=0.52,
        window_ns=100 * MS,
        compute_percent=60.0,
        compute_ns=30 * MS,
        exposed_copy_ns=12 * MS + MS // 2,
        idle_ns=10 * MS,
        overlap_percent=12.5,
        longest_gap_ns=9 * MS,
        longest_gap_cause="pthread_cond_timedwait in get batch, held up by mmap",
        verdict="copy-bound",
    )


def test_without_ranges_the_window_is_shared_among_the_recorded_steps() -> None:
    found = ladder.numbers(report(steps=None), steps=4)
    assert found is not None
    assert (found.steps, found.compute_ns, found.idle_ns) == (4, 15 * MS, 15 * MS // 4)
    assert found.per_second is None


def test_no_gpu_activity_is_no_number() -> None:
    assert ladder.numbers(report(devices=[]), steps=3) is None


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([part("host", "x", "Batch 1 / process output", 5)], "host code in process output"),
        ([part("cuda_api", "cudaFree", "Batch 1", 5)], "cudaFree in Batch 1"),
        ([part("queued", "cudaLaunchKernel", "Batch 1", 5)], "queued"),
        (
            [
                part("osrt", "read", "a", 3),
                part("host", "x", "Batch 1 / b", 2),
                part("host", "x", "Batch 2 / b", 2),
            ],
            "host code in b",
        ),
    ],
)
def test_cause_of_a_gap(parts: list[dict[str, Any]], words: str) -> None:
    device = report()["devices"][0] | {"gaps": [{"duration_ns": 5, "parts": parts}]}
    found = ladder.numbers(report(devices=[device]), steps=1)
    assert found is not None
    assert found.longest_gap_cause == words


def test_predictions_add_up_the_findings_that_rungs_remove() -> None:
    findings = [
        {"demonstrated_by": "b", "cost_ns": 40},
        {"demonstrated_by": "b", "cost_ns": 10},
        {"demonstrated_by": "c", "cost_ns": 25},
        {"demonstrated_by": None, "cost_ns": 5},
    ]
    found = report(findings=findings, ceiling={"overlapped_ratio": 6.0, "pinned_ratio": 8.0})
    found["steps"] = {"span_ns": 100}
    assert ladder.predicted(found, 0.5, ["b"]) == 1.0
    assert ladder.predicted(found, 0.5, ["c"]) == pytest.approx(0.5 / 0.75)
    assert ladder.predicted(found, 0.5, ["d"]) is None
    assert ladder.predicted(found | {"steps": None}, 0.5, ["b"]) is None
    rungs = ["a", "b", "c", "d"]
    assert ladder.predicted_from_first(found, 0.5, rungs, "b") == 1.0
    assert ladder.predicted_from_first(found, 0.5, rungs, "c") == 2.0
    assert ladder.predicted_from_first(found, 0.5, rungs, "d") == 4.0
    unknown = found | {"ceiling": {"overlapped_ratio": 6.0, "pinned_ratio": None}}
    assert ladder.predicted_from_first(unknown, 0.5, rungs, "d") == 3.0
    assert ladder.predicted_from_first(found | {"ceiling": None}, 0.5, rungs, "d") is None


def test_the_samples_keep_what_they_promise() -> None:
    """Promised by one recording, measured in another."""
    found = {
        name: json.loads(renderer("json")([analysis.analyze(SAMPLES / f"{name}.sqlite")], Style()))
        for name in ("d2h_baseline", "d2h_workers", "d2h_pool", "d2h_async", "d2h_streams",
                     "h2d_baseline", "h2d_workers", "h2d_async", "h2d_streams")
    }  # fmt: skip
    for chain in (
        ["d2h_baseline", "d2h_workers", "d2h_pool", "d2h_async", "d2h_streams"],
        ["h2d_baseline", "h2d_workers", "h2d_async", "h2d_streams"],
    ):
        measured = [found[name]["steps"]["per_second"] for name in chain]
        first = found[chain[0]]
        for at in range(1, len(chain)):
            promised = ladder.predicted(found[chain[at - 1]], measured[at - 1], [chain[at]])
            assert promised is not None
            if chain[at].endswith("_workers"):
                # Handing batches between processes costs new memory, which was no loss before.
                assert 0.7 * promised < measured[at] < promised
            else:
                assert measured[at] == pytest.approx(promised, rel=0.1), chain[at]
        last = ladder.predicted_from_first(first, measured[0], chain, chain[-1])
        assert last == pytest.approx(measured[-1], rel=0.1)


RUNGS = [
    Rung(1, "d2h_baseline", "t", 0.5, 4, True, ladder.numbers(report(), 3),
         published=0.45, published_on="L40S"),
    Rung(2, "d2h_workers", "t", failure="it fell over"),
    Rung(3, "d2h_pool", "t", 4.0, 30, False, None, predicted=3.0,
         predicted_from_first=3.5),
    Rung(4, "d2h_async", "t", 6.0, 50),
]  # fmt: skip


def test_markdown() -> None:
    text = ladder.render(RUNGS, "markdown", "Ladder d2h: H200")
    assert text == (
        "Ladder d2h: H200\n"
        "\n"
        "| rung | steps/s | recorded | vs baseline | vs before | compute ms | exposed copy ms "
        "| idle ms | overlap | compute share | longest gap | verdict | predicted | from the first "
        "| article | outputs |\n"
        "| --- |" + " ---: |" * 15 + "\n"
        "| d2h_baseline | 0.50 | 0.52 | 1.00x | - | 30.0 | 12.5 | 10.0 | 12 % | 60.0 % "
        "| 9.0 ms, pthread_cond_timedwait in get batch, held up by mmap | copy-bound | - | - "
        "| 0.45 (L40S) | verified |\n"
        "| d2h_workers | failed | - | - | - | - | - | - | - | - | - | - | - | - | - | - |\n"
        "| d2h_pool | 4.00 | - | 8.00x | - | - | - | - | - | - | - | - | 3.00 | 3.50 | - "
        "| WRONG |\n"
        "| d2h_async | 6.00 | - | 12.00x | 1.50x | - | - | - | - | - | - | - | - | - | - | - |\n"
        "\n"
        "d2h_workers failed: it fell over\n"
    )


@pytest.mark.parametrize(("recorded", "doubted"), [(0.56, True), (0.54, False), (0.44, True)])
def test_a_recording_that_is_not_like_the_run_is_doubted(*, recorded: float, doubted: bool) -> None:
    found = report()
    found["steps"]["per_second"] = recorded
    rung = Rung(1, "a", "t", 0.5, numbers=ladder.numbers(found, 3))
    for format_ in ("markdown", "terminal"):
        text = ladder.render([rung], format_, "Ladder")
        said = f"\na: {recorded:.2f} steps/s when recorded, 0.50 without a profiler" in text
        assert said is doubted


@pytest.mark.parametrize("width", [60, 80, 120, 400])
def test_a_table_keeps_to_the_terminal(width: int) -> None:
    """Cut between columns, not into letters; every part says which rung a row is of."""
    header, cells = ladder.rows(RUNGS)
    text = table.terminal(header, cells, width=width)
    assert max(map(len, text.splitlines())) <= width
    parts = [part.splitlines() for part in text.split("\n\n")]
    assert len(parts) == {60: 6, 80: 4, 120: 3, 400: 1}[width]
    seen: list[str] = []
    for heading, _, *rows in parts:
        seen += re.split(r" {2,}", heading.strip())[1:]
        starts = [row.split()[0] for row in rows if not row.startswith(" ")]
        assert starts == [rung.name for rung in RUNGS]
    assert seen == header[1:]


def test_columns_that_nobody_fills_are_left_out() -> None:
    header, cells = ladder.rows([Rung(1, "a", "t", 2.0), Rung(2, "b", "t", 3.0)])
    assert header == ["rung", "steps/s", "vs baseline", "vs before"]
    assert cells == [["a", "2.00", "1.00x", "-"], ["b", "3.00", "1.50x", "1.50x"]]


def test_json() -> None:
    found = ladder.as_json("d2h", RUNGS, {"gpu": "H200"})
    assert found["schema"] == "nsyslab.ladder/1"
    assert found["gpu"] == "H200"
    assert [row["against_baseline"] for row in found["rungs"]] == [1.0, None, 8.0, 12.0]
    assert [row["against_previous"] for row in found["rungs"]] == [None, None, None, 1.5]
    assert found["rungs"][0]["numbers"]["compute_ns"] == 30 * MS
    json.dumps(found, allow_nan=False)


def test_wrong_outputs_fail_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = dict.fromkeys(("gpu", "driver", "cuda", "torch", "python", "cpus", "commit"))
    run = {"steps": 3, "steps_per_second": 1.0, "parameters": {"batch_size": 1, "image_size": 32}}
    for name, passed in (("encdec_serial", True), ("encdec_streams", False)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "it.sqlite").symlink_to(SAMPLES / "d2h_streams.sqlite")
        about = {
            "schema": "nsyslab.recording/1",
            "profiler": "nsys",
            "workload": name,
            "sqlite": "it.sqlite",
            "run": run | shared,
            "throughput": run | shared,
            "comparison": {"passed": passed},
        }
        (folder / "run.json").write_text(json.dumps(about))
    command = ["ladder", "encdec", "--from-recordings", "--format", "markdown"]
    assert cli.run([*command, "-o", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("| encdec_")]
    assert [row.split(" | ")[-1] for row in rows] == ["verified |", "WRONG |"]


def test_table_of_real_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From folders as `nsyslab ladder` leaves them, without a GPU; the rest of the rungs fail."""
    expected = {
        # steps/s as a run without a profiler would give it; the others as in the shipped reports
        "d2h_baseline": (0.5, "host-bound", "host code in process output"),
        "d2h_workers": (0.7, "copy-bound", "pthread_cond_timedwait in get batch, held up by "
                                           "posix_fallocate64"),
        "d2h_streams": (7.0, "compute-bound", None),
    }  # fmt: skip
    shared = dict.fromkeys(("gpu", "driver", "cuda", "torch", "python", "cpus", "commit"))
    parameters = {"batch_size": 64, "image_size": 512}
    for name, (per_second, _, _) in expected.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.sqlite").symlink_to(SAMPLES / f"{name}.sqlite")
        run = {"steps": 3, "steps_per_second": per_second, "parameters": parameters, **shared}
        about = {
            "schema": "nsyslab.recording/1",
            "profiler": "nsys",
            "workload": name,
            "sqlite": f"{name}.sqlite",
            "run": run,
            "throughput": run,
        }
        (folder / "run.json").write_text(json.dumps(about))
    # What else may lie in a folder of that name.
    others = {
        "d2h_async": about | {"profiler": "torch", "workload": "d2h_async", "sqlite": None},
        "d2h_slices": about | {"workload": None, "run": None},
        "d2h_argmax": ["no object"],
    }
    for name, content in others.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps(content))

    assert cli.run(["ladder", "d2h", "--from-recordings", "-o", str(tmp_path)]) == 4

    capsys.readouterr()
    table = json.loads((tmp_path / "ladder_d2h.json").read_text())
    rows = {row["name"]: row for row in table["rungs"]}
    assert len(rows) == 7
    for name, (per_second, verdict, cause) in expected.items():
        assert rows[name]["per_second"] == per_second
        assert rows[name]["numbers"]["verdict"] == verdict
        assert rows[name]["numbers"]["longest_gap_cause"] == cause
        assert rows[name]["failure"] is None
    assert "cannot be read" in rows["d2h_pool"]["failure"]
    assert "not one of d2h_async with nsys" in rows["d2h_async"]["failure"]
    assert "not one of d2h_slices with nsys" in rows["d2h_slices"]["failure"]
    assert "not written by this version" in rows["d2h_argmax"]["failure"]
    assert "| d2h_streams | 7.00 |" in (tmp_path / "ladder_d2h.md").read_text()
