"""A headless Chromium, and the pages that tests open in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis import cli
from benchmarks.generate import generate

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: As root there is no sandbox; and nothing of Chromium's own calls home.
FLAGS = [
    "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
VIEWPORT = {"width": 1280, "height": 800}


def executable() -> str:
    """The browser: that of the variable BROWSER, else the first that is found."""
    found = os.environ.get("BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no Chromium is installed; make test-browser installs one"
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page, and what went wrong or out of it."""

    page: Page
    path: Path
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    ready_ms: float = 0.0

    def detail(self) -> str:
        return self.page.inner_text("#timeline-detail")

    def canvas(self) -> FloatRect:
        """Where the timeline is, scrolled to the top of the window."""
        self.page.evaluate("document.getElementById('timeline').scrollIntoView()")
        box = self.page.locator("#timeline-canvas").bounding_box()
        assert box is not None
        return box

    def view(self) -> tuple[float, float]:
        """What the timeline shows, ns of the session; when it has come to rest."""
        script = """async () => {
            const canvas = document.getElementById("timeline-canvas");
            let last = "";
            for (const _ of "12") await new Promise(requestAnimationFrame);
            for (;;) {
                await new Promise((done) => setTimeout(done, 60));
                const now = canvas.dataset.from + " " + canvas.dataset.to;
                if (now === last) return now.split(" ").map(Number);
                last = now;
            }
        }"""
        low, high = self.page.evaluate(script)
        return low, high


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def tab(browser: Browser) -> Iterator[Page]:
    """One tab for the tests that leave it as they found it: a new one costs more than a page."""
    # Without transitions nothing is still under way when a test looks.
    context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    yield context.new_page()
    context.close()


@pytest.fixture
def open_page(browser: Browser, tab: Page) -> Iterator[Open]:
    """Opens a page from disk and waits for its timeline; with options in a tab of its own."""
    contexts = []
    heard: dict[str, Callable[..., None]] = {}

    def open_(path: Path, *, timeline: bool | None = True, **options: object) -> Opened:
        page = tab
        if options:
            contexts.append(browser.new_context(**{"viewport": VIEWPORT} | options))  # type: ignore[arg-type]
            page = contexts[-1].new_page()
        opened = Opened(page, path)
        handlers: dict[str, Callable[..., None]] = {
            "console": lambda message: opened.problems.append(message.text),
            "pageerror": lambda error: opened.problems.append(str(error)),
            "dialog": lambda dialog: opened.problems.append(f"dialog {dialog.message}"),
            "request": lambda request: opened.requests.append(request.url),
        }
        for event, handler in heard.items():
            tab.remove_listener(event, handler)
        heard.clear()
        for event, handler in handlers.items():
            page.on(event, handler)  # type: ignore[call-overload]
        if page is tab:
            heard.update(handlers)
        page.set_default_timeout(15_000)
        page.goto(path.as_uri())
        if timeline is None:
            timeline = page.locator("#timeline-data").count() > 0
        if timeline:
            page.wait_for_selector("html[data-timeline=ready]")
            opened.ready_ms = page.evaluate("performance.now()")
        return opened

    yield open_
    for event, handler in heard.items():
        tab.remove_listener(event, handler)
    for context in contexts:
        context.close()


def write_pages(folder: Path, *recordings: Path) -> Path:
    """Pages of recordings, by the command line."""
    listing = folder.parent / f"{folder.name}.json"
    arguments = ["analyze", *map(str, recordings), "--html", str(folder), "--format", "json"]
    assert cli.run([*arguments, "--output", str(listing)]) == 0
    return folder


@pytest.fixture(scope="session")
def million(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a trace with a million kernels and as many calls."""
    folder = tmp_path_factory.mktemp("million")
    generate(folder / "million.sqlite", kernels=1_000_000, seed=0)
    return write_pages(folder / "pages", folder / "million.sqlite") / "million.html"
