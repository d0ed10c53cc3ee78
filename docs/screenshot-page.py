"""Takes docs/timeline.png: the timeline of a page with its longest gap chosen.

Run it after make test-browser has installed what it needs, from the top of the repository:
``PYTHONPATH=. python docs/screenshot-page.py reports/samples/d2h_workers.sqlite``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from analysis import cli
from tests.browser.conftest import FLAGS, executable

TARGET = Path(__file__).with_name("timeline.png")


def main(recording: str) -> None:
    """Writes the picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        output = Path(folder, "page.html")
        code = cli.run(["analyze", recording, "--format", "html", "--output", str(output)])
        if code:
            raise SystemExit(code)
        browser = playwright.chromium.launch(executable_path=executable(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme="light")
        page.goto(output.as_uri())
        page.wait_for_selector("html[data-timeline=ready]")
        page.click("button[data-action=longest]")
        page.wait_for_timeout(600)
        page.locator("#timeline").screenshot(path=TARGET)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
