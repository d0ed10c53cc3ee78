"""Takes the pictures of the documentation: pages of the samples, and a trace in Perfetto.

After ``make test-browser``: ``.venv/bin/python -m docs.screenshot-page``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from analysis import cli
from tests.browser.conftest import FLAGS, executable
from tests.browser.processor import ORIGIN, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HERE = Path(__file__).parent
SAMPLES = HERE.parent / "reports/samples"
RUNGS = ("baseline", "workers", "pool", "async", "streams")


def write(output: Path, format_: str, *samples: str) -> Path:
    """Samples in a format."""
    paths = [str(SAMPLES / f"{sample}.sqlite") for sample in samples]
    code = cli.run(["analyze", *paths, "--format", format_, "--output", str(output)])
    if code:
        raise SystemExit(code)
    return output


def timeline(browser: Browser, folder: Path) -> None:
    """The longest gap of a recording."""
    page = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme="light")
    page.goto(write(folder / "page.html", "html", "d2h_workers").as_uri())
    page.wait_for_selector("html[data-timeline=ready]")
    page.click("button[data-action=longest]")
    page.wait_for_timeout(600)
    page.evaluate("document.getElementById('timeline-keys').hidden = true")
    page.locator("#timeline").screenshot(path=HERE / "timeline.png")
    page.close()


def ladder(browser: Browser, folder: Path) -> None:
    """A ladder, rung by rung."""
    page = browser.new_page(viewport={"width": 1200, "height": 1000}, color_scheme="light")
    rungs = [f"d2h_{rung}" for rung in RUNGS]
    page.goto(write(folder / "ladder.html", "html", *rungs).as_uri())
    page.locator("section").first.screenshot(path=HERE / "ladder.png")
    page.close()


def perfetto(browser: Browser, folder: Path) -> None:
    """The same gap in Perfetto."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    serve(context)
    page = context.new_page()
    page.goto(ORIGIN)
    # This build of Perfetto first looks for a trace of its own viewer, and complains.
    page.wait_for_selector(".pf-modal-dialog, [role=dialog]")
    page.keyboard.press("Escape")
    trace = write(folder / "trace.pftrace", "perfetto", "d2h_workers")
    page.locator("input[type=file]").first.set_input_files(trace)
    page.wait_for_function("self.app.trace?.timeline")
    page.wait_for_timeout(5000)
    page.evaluate("self.app.commands.runCommand('dev.perfetto.ExpandAllGroups')")
    page.evaluate("""async () => {
        const { trace } = self.app;
        const found = await trace.engine.query(
            "SELECT id FROM slice WHERE name = 'idle gap' ORDER BY dur DESC LIMIT 1");
        const { id } = found.firstRow({ id: 0 });
        trace.selection.selectSqlEvent("slice", id, { scrollToSelection: true });
    }""")
    page.wait_for_timeout(1500)
    page.keyboard.press("f")
    page.wait_for_timeout(2500)
    page.screenshot(path=HERE / "perfetto.png")
    context.close()


def main() -> None:
    """Writes all pictures."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=FLAGS)
        for picture in (timeline, ladder, perfetto):
            picture(browser, Path(name))
        browser.close()


if __name__ == "__main__":
    main()
