"""The recorded ladders in reports/h200 tell the story of the articles."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import analysis
from analysis import cli
from analysis.intervals import interval
from analysis.metrics.timelines import Timelines
from analysis.nsys.export import sqlite_for
from analysis.renderers import Style, renderer
from workloads import registry

H200 = Path(__file__).parents[2] / "reports" / "h200"

# Verdict, memory of the copies to and from the device, and the compute's share of the window, %.
RUNGS = {
    "d2h_baseline": ("host-bound", "pinned", "pageable", (5, 10)),
    "d2h_workers": ("copy-bound", "pinned", "pageable", (5, 15)),
    "d2h_pool": ("copy-bound", "pinned", "pageable", (50, 65)),
    "d2h_async": ("copy-bound", "pinned", "pinned", (80, 90)),
    # Of three steps; the last copy is what is missing, as a test below says.
    "d2h_streams": ("compute-bound", "pinned", "pinned", (93, 96)),
    "d2h_slices": ("compute-bound", "pinned", "pinned", (96, 100)),
    "d2h_argmax": ("compute-bound", "pinned", "pinned", (98, 100)),
    "h2d_baseline": ("host-bound", "pageable", None, (22, 42)),
    "h2d_workers": ("copy-bound", "pageable", None, (43, 50)),
    "h2d_async": ("host-bound", "pinned", None, (60, 80)),
    "h2d_pool": ("copy-bound", "pinned", None, (92, 95)),
    "h2d_streams": ("compute-bound", "pinned", None, (98, 100)),
    "h2d_prefetch": ("compute-bound", "pinned", None, (98, 100)),
    "h2d_events": ("compute-bound", "pinned", None, (98, 100)),
    "h2d_bytes": ("compute-bound", "pinned", None, (96, 100)),
    "encdec_serial": ("launch-bound", None, None, (95, 98)),
    "encdec_streams": ("compute-bound", None, None, (98, 100)),
    "augment_cpu": ("host-bound", "pinned", None, (18, 30)),
    "augment_gpu": ("launch-bound", "pinned", None, (95, 98)),
    "augment_streams": ("compute-bound", "pinned", None, (96, 100)),
    "vector_add_numba": ("compute-bound", None, None, (98, 100)),
}
LADDERS = ("d2h", "h2d", "encdec", "augment", "vector_add")


@cache
def report(name: str) -> dict[str, Any]:
    """Of the redacted export."""
    built = analysis.analyze(H200 / name / f"{name}.sqlite")
    found: dict[str, Any] = json.loads(renderer("json")([built], Style()))
    return found


def memory(found: dict[str, Any], direction: str) -> str | None:
    """Of all copies in a direction."""
    kinds = {
        row["memory"]
        for row in found["devices"][0]["transfers"]
        if row["direction"] == direction and row["bytes"] >= 1_000_000
    }
    assert len(kinds) <= 1
    return kinds.pop() if kinds else None


def test_every_rung_is_here() -> None:
    names = {entry.name for ladder in LADDERS for entry in registry.ladder(ladder)}
    assert names == {*RUNGS, "vector_add_cpu"}
    for name in names:
        assert (H200 / name / f"{name}.nsys-rep").stat().st_size < 1_000_000
        about = json.loads((H200 / name / "run.json").read_text())
        assert about["throughput"]["gpu"] == about["run"]["gpu"] == "NVIDIA H200"


@pytest.mark.parametrize(("name", "expected"), RUNGS.items(), ids=RUNGS)
def test_rung(name: str, expected: tuple[str, str | None, str | None, tuple[int, int]]) -> None:
    verdict, h2d, d2h, (low, high) = expected
    found = report(name)
    assert found["verdict"] == verdict
    assert (memory(found, "h2d"), memory(found, "d2h")) == (h2d, d2h)
    (device,) = found["devices"]
    share = 100 * device["partition"]["compute_ns"] / device["window"]["duration_ns"]
    assert low <= share <= high


def test_without_a_gpu_there_is_nothing_to_judge(capsys: pytest.CaptureFixture[str]) -> None:
    name = "vector_add_cpu"
    assert report(name)["devices"] == []
    assert cli.run(["analyze", str(H200 / name)]) == 3
    capsys.readouterr()


@pytest.mark.parametrize(
    ("baseline", "ceiling", "last"),
    [
        ("d2h_baseline", "pinned_per_second", "d2h_streams"),
        # It has no pinned copy to take the rate from; all its copies can be hidden as they are.
        ("h2d_baseline", "overlapped_per_second", "h2d_prefetch"),
    ],
)
def test_the_baseline_foretells_the_last_rung(baseline: str, ceiling: str, last: str) -> None:
    promised = report(baseline)["ceiling"][ceiling]
    assert report(last)["steps"]["per_second"] == pytest.approx(promised, rel=0.1)


CLIMBS = {
    "d2h": ["baseline", "workers", "pool", "async", "streams", "argmax"],
    "h2d": ["baseline", "workers", "async", "pool", "streams", "bytes"],
    "augment": ["cpu", "gpu", "streams"],
}


@pytest.mark.parametrize("ladder", CLIMBS)
def test_each_rung_is_faster_recorded_or_not(ladder: str) -> None:
    """Those that differ in more than the code; h2d_prefetch and h2d_events are as h2d_streams."""
    names = [f"{ladder}_{rung}" for rung in CLIMBS[ladder]]
    recorded = [report(name)["steps"]["per_second"] for name in names]
    assert recorded == sorted(recorded)
    runs = [json.loads((H200 / name / "run.json").read_text())["throughput"] for name in names]
    rates = [run["steps_per_second"] for run in runs]
    assert rates == sorted(rates)


@pytest.mark.parametrize(
    ("name", "following"),
    [
        ("d2h_baseline", "d2h_workers"),
        ("d2h_workers", "d2h_pool"),
        ("d2h_pool", "d2h_async"),
        ("d2h_async", "d2h_streams"),
        ("d2h_streams", None),
        ("h2d_baseline", "h2d_workers"),
        ("h2d_workers", "h2d_async"),
        ("h2d_async", "h2d_pool"),
        ("h2d_pool", "h2d_streams"),
        ("h2d_streams", None),
        ("augment_cpu", "augment_gpu"),
        ("augment_gpu", None),
    ],
)
def test_what_costs_most_in_a_rung_leads_to_the_next(name: str, following: str | None) -> None:
    assert report(name)["findings"][0]["demonstrated_by"] == following


@pytest.mark.parametrize("name", ["h2d_async", "augment_cpu"])
def test_a_slow_loader_is_as_slow_in_its_recording(name: str) -> None:
    """Nothing lay ready when it began."""
    about = json.loads((H200 / name / "run.json").read_text())
    rate = report(name)["steps"]["per_second"]
    assert rate == pytest.approx(about["throughput"]["steps_per_second"], rel=0.2)


def test_what_keeps_d2h_streams_from_more_compute_is_the_copy_behind_the_last_kernel() -> None:
    (device,) = report("d2h_streams")["devices"]
    rows = report("d2h_streams")["steps"]["rows"]
    exposed = [row["exposed_copy_ns"]["d2h"] for row in rows]
    assert exposed[-1] > 0.97 * sum(exposed)
    without = device["window"]["duration_ns"] - exposed[-1]
    assert device["partition"]["compute_ns"] > 0.99 * without


@pytest.mark.parametrize("ladder", LADDERS)
def test_table(ladder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made again of the recordings, it says what the shipped one says."""
    for entry in registry.ladder(ladder):
        (tmp_path / entry.name).symlink_to(H200 / entry.name)
    assert cli.run(["ladder", ladder, "--from-recordings", "-o", str(tmp_path)]) == 0
    capsys.readouterr()
    made, shipped = (
        json.loads((folder / f"ladder_{ladder}.json").read_text()) for folder in (tmp_path, H200)
    )
    assert [row["name"] for row in made["rungs"]] == [row["name"] for row in shipped["rungs"]]
    for now, then in zip(made["rungs"], shipped["rungs"], strict=True):
        assert now["per_second"] == then["per_second"]
        if then["numbers"] is None:
            assert now["numbers"] is None
            continue
        for key in ("verdict", "compute_ns", "exposed_copy_ns", "idle_ns", "compute_percent"):
            assert now["numbers"][key] == then["numbers"][key], key


def test_the_readme_says_what_was_recorded() -> None:
    """Its table, and figures of its text; on failure the table is in the message."""
    readme = (H200.parents[1] / "README.md").read_text()
    table = "".join(map(_line, (row for ladder in LADDERS for row in _rows(ladder))))
    assert table in readme, table
    text = " ".join(readme.split())
    d2h, h2d = (report(f"{ladder}_baseline")["ceiling"] for ladder in ("d2h", "h2d"))
    rungs = {row["name"]: row for ladder in ("d2h", "h2d") for row in _rows(ladder)}
    assert (
        f"the ceiling of d2h with every copy hidden and pinned is {d2h['pinned_per_second']:.2f} "
        f"steps/s, that of h2d {h2d['overlapped_per_second']:.2f}; the last rungs of the articles "
        f"run at {rungs['d2h_streams']['per_second']:.2f} and "
        f"{rungs['h2d_prefetch']['per_second']:.2f}."
    ) in text
    (device,) = report("d2h_streams")["devices"]
    window = device["window"]["duration_ns"]
    last = report("d2h_streams")["steps"]["rows"][-1]["exposed_copy_ns"]["d2h"]
    share = 100 * device["partition"]["compute_ns"]
    assert f"has compute for {share / window:.1f} % of the window" in text
    assert f"{last / 1e6:.0f} of {window / 1e6:.0f} ms, with no kernel left to hide it" in text
    assert f"without that the share is {share / (window - last):.1f} %" in text
    busy, rate = _pinning()
    assert f"busy {busy:.0f} % of the time at {rate:.1f} batches per second" in text
    slices = rungs["d2h_slices"]["numbers"]["compute_percent"]
    assert f"reaches {slices:.1f} %: its kernels are smaller" in text


def test_the_recordings_page_says_how_long_three_steps_took() -> None:
    """Of recordings with more steps, the share of three."""
    page = (H200.parent / "README.md").read_text()
    columns = ("baseline", "workers", "pool", "async", "streams", "prefetch")
    for ladder in ("d2h", "h2d"):
        found = {row["name"]: row["numbers"] for row in _rows(ladder)}
        names = [name for name in (f"{ladder}_{column}" for column in columns) if name in found]
        times = [3 * found[name]["window_ns"] / found[name]["steps"] / 1e6 for name in names]
        assert f"| {ladder}, here | " + " | ".join(f"{time:.0f}" for time in times) in page


def _pinning() -> tuple[float, float]:
    """How much of the window pt_data_pin is in no wait, %, and batches per second, in h2d_async."""
    trace = analysis.load(H200 / "h2d_async" / "h2d_async.sqlite")
    (index,) = [i for i, thread in enumerate(trace.threads) if thread.name == "pt_data_pin"]
    found = report("h2d_async")
    window = found["devices"][0]["window"]
    whole = interval(window["start_ns"], window["end_ns"])
    idle = (Timelines(trace).thread(index).blocked & whole).total
    return 100 * (1 - idle / whole.total), found["steps"]["per_second"]


def _rows(ladder: str) -> list[dict[str, Any]]:
    rungs: list[dict[str, Any]] = json.loads((H200 / f"ladder_{ladder}.json").read_text())["rungs"]
    return rungs


def _line(row: dict[str, Any]) -> str:
    """A line of the README's table."""
    rate, found, article = _rate(row["per_second"]), row["numbers"], ""
    if row["published"] is not None:
        article = f"{row['published']:g}"
    if row["published_speedup"] is not None:
        rate += f" ({row['against_baseline']:.0f} times)"
        article = f"{row['published_speedup']:g} times"
    if article and (row["rung"] == 1 or row["published_speedup"] is not None):
        article += f" ({row['published_on']})"
    recorded = share = ""
    verdict = "no GPU activity"
    if found is not None:
        recorded, share = _rate(found["per_second"]), f"{found['compute_percent']:.1f} %"
        verdict = found["verdict"]
    cells = (row["name"], rate, recorded, share, verdict, article)
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells) + "\n"


def _rate(per_second: float) -> str:
    return f"{per_second:.{2 if per_second < 50 else 1 if per_second < 1000 else 0}f}"


@pytest.mark.parametrize("name", [*RUNGS, "vector_add_cpu"])
def test_a_report_is_read_through_its_redacted_export(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without nsys, although the clone gave the report another time than it had when exported."""
    monkeypatch.setenv("NSYS", "/nonexistent/nsys")
    use = sqlite_for(H200 / name / f"{name}.nsys-rep")
    assert use.sqlite == H200 / name / f"{name}.sqlite"
    assert use.notes == ()


@pytest.mark.parametrize("name", [*RUNGS, "vector_add_cpu"])
def test_nothing_names_the_machine(name: str) -> None:
    """In what is shipped as it was recorded, too; the host was renamed before."""
    for path in (H200 / name).iterdir():
        content = path.read_bytes()
        for word in (b"/home/", b"_proxy=", b"_PROXY=", b"CA_BUNDLE", b"SSL_CERT", b"PIP_"):
            assert word not in content, f"{word!r} in {path.name}"
    assert b"gpu-host" not in (H200 / name / f"{name}.sqlite").read_bytes()
