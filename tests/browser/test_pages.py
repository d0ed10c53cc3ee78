"""Pages in headless Chromium: nothing goes wrong or out, and gaps explain themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.nsys.recording import open_recording
from tests.browser.conftest import Open, Opened, write_pages
from tests.traces.traps import TRAPS
from tests.traces.writer import TraceWriter

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

SAMPLES = sorted((Path(__file__).parents[2] / "reports/samples").glob("*.sqlite"))
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'`"
RIGHT_TO_LEFT = "\u202eright to left \u05d0\u05d1\u05d2"
NOT_UTF8 = b"caf\xe9 \xff\xfe"


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pages(tmp_path_factory.mktemp("samples") / "pages", *SAMPLES)


def reports(pages: Path) -> list[dict[str, Any]]:
    found = json.loads((pages.parent / f"{pages.name}.json").read_bytes())
    return found if isinstance(found, list) else [found]


def longest_gap(report: dict[str, Any]) -> dict[str, Any]:
    gaps = [gap for device in report["devices"] for gap in device["gaps"]]
    return max(gaps, key=lambda gap: gap["duration_ns"])


def cause(part: dict[str, Any]) -> str:
    if part["cause"] in ("cuda_api", "osrt"):
        return str(part["name"])
    return {"host": "host code", "queued": "queued work waits"}.get(part["cause"], part["cause"])


def assert_quiet(opened: Opened) -> None:
    assert opened.problems == []
    assert opened.requests == [opened.path.as_uri()]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_opens_and_its_longest_gap_explains_itself(
    sample: Path, samples: Path, open_page: Open
) -> None:
    opened = open_page(samples / f"{sample.stem}.html")
    assert opened.ready_ms < 2000
    page = opened.page
    report = reports(samples)[SAMPLES.index(sample)]
    assert report["verdict"] in page.inner_text("main")

    page.click("button[data-action=longest]")
    low, high = opened.view()
    detail = opened.detail()
    if any(device["gaps"] for device in report["devices"]):
        gap = longest_gap(report)
        assert low <= gap["start_ns"]
        assert gap["start_ns"] + gap["duration_ns"] <= high
        largest = gap["parts"][0]
        assert cause(largest) in detail
        if largest["held_by"]:
            assert f"thread {largest['held_by']['thread']}" in detail
            assert largest["held_by"]["name"] in detail
        assert f"thread {gap['feeding_thread']['thread']}" in detail
        assert gap["feeding_call"] in detail
        page.click("#timeline-detail a")
        assert page.url.endswith(f"#gap-0-{gap['start_ns']}")
        assert page.locator(f"#gap-0-{gap['start_ns']}").is_visible()
    else:
        assert "Idle gap" in detail
    assert_quiet(opened)


def test_a_million_events(million: Path, open_page: Open) -> None:
    assert million.stat().st_size < 6_000_000
    opened = open_page(million)
    assert opened.ready_ms < 2000
    gap = longest_gap(reports(million.parent)[0])
    opened.page.click("button[data-action=longest]")
    opened.view()
    assert cause(gap["parts"][0]) in opened.detail()
    assert_quiet(opened)


def test_a_million_events_stay_fluid(million: Path, open_page: Open) -> None:
    opened = open_page(million)
    frames = opened.page.evaluate(
        """async () => {
            const canvas = document.getElementById("timeline-canvas");
            const key = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", {key}));
            const frame = () => new Promise((done) => requestAnimationFrame(done));
            const spent = [];
            for (const pressed of "+++ddaa-+++ddd---+++++aaaa------") {
                await frame();
                const start = performance.now();
                key(pressed);
                await frame();
                await frame();
                spent.push(performance.now() - start);
            }
            return spent.sort((a, b) => a - b);
        }"""
    )
    # Two frames each, on a machine without a graphics card.
    assert frames[len(frames) // 2] < 100
    assert_quiet(opened)


def test_zooming_to_a_microsecond(million: Path, open_page: Open) -> None:
    opened = open_page(million)
    opened.page.click("button[data-action=longest]")
    opened.view()
    box = opened.canvas()
    opened.page.focus("#timeline-canvas")
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    for _ in range(120):
        opened.page.mouse.wheel(0, -300)
        low, high = map(
            float,
            opened.page.evaluate(
                "[document.getElementById('timeline-canvas').dataset.from,"
                " document.getElementById('timeline-canvas').dataset.to]"
            ),
        )
        if high - low <= 1000:
            break
    low, high = opened.view()
    assert high - low <= 1000
    gap = longest_gap(reports(million.parent)[0])
    assert gap["start_ns"] <= low < high <= gap["start_ns"] + gap["duration_ns"]
    assert_quiet(opened)


def test_clicking_a_gap_in_the_picture(samples: Path, open_page: Open) -> None:
    opened = open_page(samples / "d2h_workers.html")
    page = opened.page
    page.click("button[data-action=longest]")
    low, high = opened.view()
    page.click("#timeline-detail .close")
    assert page.locator("#timeline-detail").is_hidden()
    gap = longest_gap(reports(samples)[[s.stem for s in SAMPLES].index("d2h_workers")])
    gutter = 128
    middle = gap["start_ns"] + gap["duration_ns"] / 2
    for y in (30, 52):  # The gap and, below it, its cause.
        box = opened.canvas()
        x = box["x"] + gutter + (box["width"] - gutter) * (middle - low) / (high - low)
        page.mouse.move(x, box["y"] + y)
        assert page.locator("#timeline-tip").is_visible()
        page.mouse.click(x, box["y"] + y)
        low, high = opened.view()
        assert "Idle gap" in opened.detail()
        assert "posix_fallocate64" in opened.detail()
        page.click("#timeline-detail .close")
    assert_quiet(opened)


def test_clicking_work_of_the_device_shows_its_launch(samples: Path, open_page: Open) -> None:
    opened = open_page(samples / "pin_thread.html")
    page = opened.page
    trace, _ = open_recording(SAMPLES[-1])
    kernels, calls = trace.kernels, trace.api_calls
    longest = int((kernels.end - kernels.start).argmax())
    (call,) = (calls.correlation == kernels.correlation[longest]).nonzero()[0]
    low, high = opened.view()
    box = opened.canvas()
    gutter = 128
    middle = (kernels.start[longest] + kernels.end[longest]) / 2
    x = box["x"] + gutter + (box["width"] - gutter) * (middle - low) / (high - low)
    page.mouse.click(x, box["y"] + 73)
    name = trace.names[kernels.name[longest]]
    assert page.locator("#timeline-detail h3").inner_text() == name
    assert f"{trace.names[calls.name[call]]}, thread 747" in opened.detail()
    assert f"{calls.start[call] / 1e6:,.6f} ms" in opened.detail()
    page.mouse.click(x, box["y"] + box["height"] - 3)  # Where there is nothing.
    assert page.locator("#timeline-detail").is_hidden()
    assert_quiet(opened)


def test_findings_lead_to_copies_and_their_calls(samples: Path, open_page: Open) -> None:
    opened = open_page(samples / "d2h_workers.html")
    opened.page.get_by_role("link", name="show the longest").first.click()
    opened.view()
    assert opened.page.locator("#timeline-detail h3").inner_text() == "d2h copy of 1.4 GB"
    assert "launched by\ncudaMemcpyAsync, thread 1095" in opened.detail()
    assert_quiet(opened)


@pytest.mark.parametrize("width", [800, 1400])
def test_what_is_chosen_covers_no_lane(width: int, samples: Path, open_page: Open) -> None:
    viewport = {"width": width, "height": 900}
    for sample in ("d2h_workers", "pin_thread"):
        opened = open_page(samples / f"{sample}.html", viewport=viewport)
        opened.page.click("button[data-action=longest]")
        opened.view()
        lanes = opened.page.locator("#timeline-canvas").bounding_box()
        panel = opened.page.locator("#timeline-detail").bounding_box()
        assert lanes is not None
        assert panel is not None
        assert lanes["y"] >= 0
        assert lanes["y"] + lanes["height"] <= panel["y"] + 1
        assert panel["y"] + panel["height"] <= viewport["height"]


def test_a_window_that_was_away_shows_what_it_showed(samples: Path, open_page: Open) -> None:
    opened = open_page(samples / "d2h_workers.html", color_scheme="light")
    opened.page.click("button[data-action=longest]")
    before = opened.view()
    for display in ("none", "block"):
        opened.page.evaluate(f"document.querySelector('.frame').style.display = '{display}'")
        opened.page.wait_for_timeout(100)
    opened.page.set_viewport_size({"width": 900, "height": 700})
    assert opened.view() == pytest.approx(before)
    assert_quiet(opened)


def test_gaps_of_the_chosen_device_follow_each_other(tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "trace.sqlite"
    with TraceWriter(path) as w:
        for device in (0, 1):
            for step in range(4):
                at = step * 1_000_000 + device * 300_000
                w.kernel(at + 100_000, at + 200_000, call=w.api(at, at + 10_000), device=device)
    opened = open_page(write_pages(tmp_path / "pages", path) / "trace.html")
    title = opened.page.locator("#timeline-detail h3")
    when = opened.page.locator("#timeline-detail dd", has_text=" to ")
    opened.page.click("tr[id^=gap-1-] a")
    assert "GPU 1" in title.inner_text()
    times = [when.inner_text()]
    for button in ("Next gap", "Next gap", "Previous gap"):
        opened.page.locator("#timeline-detail").get_by_role("button", name=button).click()
        assert "GPU 1" in title.inner_text()
        times.append(when.inner_text())
    assert times == [
        "0.500000 ms to 1.400000 ms", "1.500000 ms to 2.400000 ms",
        "2.500000 ms to 3.400000 ms", "1.500000 ms to 2.400000 ms",
    ]  # fmt: skip


def test_tables_lead_into_the_timeline(samples: Path, open_page: Open) -> None:
    opened = open_page(samples / "d2h_baseline.html")
    report = reports(samples)[[s.stem for s in SAMPLES].index("d2h_baseline")]
    gap = longest_gap(report)
    opened.page.click(f"#gap-0-{gap['start_ns']} a")
    low, high = opened.view()
    assert low <= gap["start_ns"]
    assert high >= gap["start_ns"] + gap["duration_ns"]
    assert "Idle gap" in opened.detail()
    step = report["steps"]["rows"][1]
    opened.page.get_by_role("link", name=step["name"], exact=True).click()
    low, high = opened.view()
    assert low <= step["start_ns"]
    assert step["start_ns"] + step["period_ns"] <= high
    assert high - low < 1.2 * step["period_ns"]
    assert step["name"] in opened.detail()
    # Of a step, too: the causes of its idle time, and who fed and held up its longest gap.
    inside = [
        gap
        for gap in report["devices"][0]["gaps"]
        if step["start_ns"] <= gap["start_ns"] < step["start_ns"] + step["period_ns"]
    ]
    within = max(inside, key=lambda gap: gap["duration_ns"])
    assert cause(within["parts"][0]) in opened.detail()
    assert within["feeding_call"] in opened.detail()
    assert f"thread {within['feeding_thread']['thread']}" in opened.detail()
    opened.page.get_by_role("link", name="show the longest").first.click()
    opened.view()
    assert opened.page.locator("#timeline-detail").is_visible()
    assert_quiet(opened)


def test_the_keyboard_does_it_all(samples: Path, open_page: Open) -> None:
    opened = open_page(samples / "d2h_workers.html")
    keys = opened.page.keyboard
    opened.page.focus("#timeline-canvas")
    whole = opened.view()
    keys.press("+")
    closer = opened.view()
    assert closer[1] - closer[0] == pytest.approx((whole[1] - whole[0]) / 2)
    keys.press("ArrowRight")
    later = opened.view()
    assert later[0] == pytest.approx(closer[0] + (closer[1] - closer[0]) / 4)
    keys.press("ArrowLeft")
    assert opened.view() == pytest.approx(closer)
    keys.press("-")
    assert opened.view() == pytest.approx(whole)
    keys.press("g")
    opened.view()
    longest = opened.detail()
    assert "Idle gap" in longest
    keys.press("p")
    opened.view()
    assert opened.detail() != longest
    keys.press("n")
    opened.view()
    assert opened.detail() == longest
    keys.press("Escape")
    assert opened.page.locator("#timeline-detail").is_hidden()
    keys.press("Home")
    assert opened.view() == pytest.approx(whole)
    # The panel's buttons can be pressed again and again, and closing it leads back.
    keys.press("g")
    opened.view()
    focused = "document.activeElement.textContent || document.activeElement.id"
    for button in ("Previous gap", "Next gap"):
        opened.page.locator("#timeline-detail").get_by_role("button", name=button).focus()
        before = opened.detail()
        keys.press("Enter")
        opened.view()
        assert opened.detail() != before
        assert opened.page.evaluate(focused) == button
    assert opened.detail() == longest
    keys.press("Escape")
    assert opened.page.locator("#timeline-detail").is_hidden()
    assert opened.page.evaluate(focused) == "timeline-canvas"
    keys.press("Home")
    # The wheel belongs to the page until the timeline is chosen.
    opened.page.evaluate("document.activeElement.blur()")
    opened.page.hover("#timeline-canvas")
    opened.page.mouse.wheel(0, 50)
    assert opened.view() == pytest.approx(whole)
    assert opened.page.locator("#timeline-hint").is_visible()
    assert_quiet(opened)


@pytest.mark.parametrize("name", [HOSTILE, RIGHT_TO_LEFT, NOT_UTF8, "x" * 5000, "", "nul\0inside"])
def test_names_do_no_harm(name: str | bytes, tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "</title><script>alert(1)</script>.sqlite".replace("/", "_")
    with TraceWriter(path) as w:
        w.process(name)
        w.thread_name(name)
        for step in range(4):
            at = 1_000_000 * step
            w.push_pop(at, at + 900_000, name)
            w.osrt(at + 20_000, at + 300_000, name)
            w.kernel(at + 400_000, at + 600_000, name=name, call=w.api(at + 310_000, at + 320_000))
    folder = write_pages(tmp_path / "pages", path)
    (page,) = (file for file in folder.iterdir() if file.name != "index.html")
    opened = open_page(page)
    opened.page.click("button[data-action=longest]")
    opened.view()
    assert "Idle gap" in opened.detail()
    assert opened.page.title() != "owned"
    assert opened.page.locator("img").count() == 0
    assert_quiet(opened)
    index = open_page(folder / "index.html", timeline=False)
    assert index.page.locator("img").count() == 0
    assert_quiet(index)


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traps")
    for name, trap in TRAPS.items():
        trap.write(folder / f"{name}.sqlite")
    return write_pages(folder / "pages", *sorted(folder.glob("*.sqlite")))


@pytest.mark.parametrize("trap", TRAPS)
def test_every_trap_opens(trap: str, traps: Path, open_page: Open) -> None:
    opened = open_page(traps / f"{trap}.html", timeline=None)
    assert opened.page.locator("h1").inner_text() == f"{trap}.sqlite"
    assert_quiet(opened)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 480)])
def test_nothing_stands_in_anybodys_way(
    scheme: str, width: int, samples: Path, browser: Browser
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    # The checker is put into the page, which the page's own policy would rightly refuse.
    context = browser.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]
        bypass_csp=True,
        viewport={"width": width, "height": 800},
    )
    try:
        for name in ("d2h_workers.html", "h2d_baseline.html", "index.html"):
            page = context.new_page()
            page.goto((samples / name).as_uri())
            if name != "index.html":
                page.wait_for_selector("html[data-timeline=ready]")
                page.click("button[data-action=longest]")
                for summary in page.locator("summary").all():
                    summary.click()
            found = Axe().run(page)
            assert found.response["passes"], "the checker did not run"
            bad = [
                (violation["id"], [node["html"] for node in violation["nodes"][:3]])
                for violation in found.response["violations"]
                if violation["impact"] in ("serious", "critical", "moderate")
            ]
            assert bad == []
    finally:
        context.close()


def test_without_scripts_all_but_the_timeline_is_there(samples: Path, open_page: Open) -> None:
    opened = open_page(samples / "d2h_workers.html", timeline=False, java_script_enabled=False)
    assert opened.page.locator("noscript").is_visible()
    assert opened.page.locator("tr[id^=gap-]").count() == 2
    assert opened.page.locator("#timeline-tools").is_hidden()


def test_on_paper(samples: Path, open_page: Open) -> None:
    opened = open_page(samples / "d2h_workers.html", color_scheme="light")
    opened.page.emulate_media(media="print")
    assert opened.page.locator("#timeline-tools").is_hidden()
    assert opened.page.locator("#timeline-canvas").is_visible()
    assert opened.page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("name", ["d2h_workers.html", "pin_thread.html", "index.html"])
def test_large_text_and_a_narrow_window_need_no_sideways_scrolling(
    name: str, samples: Path, open_page: Open
) -> None:
    opened = open_page(samples / name, timeline=None, device_scale_factor=1)
    opened.page.set_viewport_size({"width": 400, "height": 700})
    opened.page.wait_for_timeout(200)
    script = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert opened.page.evaluate(script)
    opened.page.set_viewport_size({"width": 1280, "height": 700})
    opened.page.evaluate("document.documentElement.style.fontSize = '200%'")
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate(script)
    assert_quiet(opened)


def test_the_index_leads_to_each_page(samples: Path, open_page: Open) -> None:
    opened = open_page(samples / "index.html", timeline=False)
    # Each ladder on its own, the slowest rung first: the order in which the articles climb it.
    assert opened.page.locator("h2").all_inner_texts()[:3] == ["d2h", "h2d", "Others"]
    rungs = [
        opened.page.locator(f"section[aria-labelledby=group-{number}] .compare").first
        for number in (1, 2, 3)
    ]
    assert [rung.locator("tbody a").all_inner_texts() for rung in rungs] == [
        [f"d2h_{name}" for name in ("baseline", "workers", "pool", "async", "streams")],
        [f"h2d_{name}" for name in ("baseline", "workers", "async", "streams", "prefetch")],
        ["pin_thread"],
    ]
    assert rungs[0].locator("tr", has_text="d2h_streams").inner_text().split("\t")[1:4] == [
        "6.65", "14.42 x", "7.09",
    ]  # fmt: skip
    opened.page.get_by_role("link", name="d2h_async").first.click()
    opened.page.wait_for_selector("html[data-timeline=ready]")
    opened.page.get_by_role("link", name="All recordings").click()
    assert opened.page.url.endswith("/index.html")
    assert opened.problems == []
