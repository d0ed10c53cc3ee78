"""A folder of pages: one for each recording, and an index that compares them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from analysis.errors import InputError
from analysis.output import write_output
from analysis.renderers.html import GENERATOR, Strip, comparison, page, strip

if TYPE_CHECKING:
    from analysis.renderers import Style
    from analysis.report import Report

INDEX = "index.html"


class Pages:
    """Writes pages into a folder, which is made; pages written before are replaced.

    Args:
        folder: The folder.
        recordings: What gets pages, in order.

    Raises:
        InputError: The folder cannot be made, or holds a file in the way that is no such page.
    """

    def __init__(self, folder: Path, recordings: Sequence[Path]) -> None:
        self._folder = folder
        self._strips: list[Strip | None] = [None] * len(recordings)
        self._names = _names(recordings)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{folder} cannot be made a folder: {error.strerror}",
                hint="choose another place with --html",
            ) from None
        for name in (*self._names, INDEX):
            path = folder / name
            if path.exists() and not _is_ours(path):
                raise InputError(
                    f"{path} is in the way, and no page of nsyslab",
                    hint="choose another folder with --html",
                )

    def write(self, number: int, report: Report, style: Style) -> None:
        """Write the page of one recording.

        Args:
            number: Its index among the recordings.
            report: Its report, with lanes.
            style: How many rows tables have.
        """
        text = page(report, style, index=INDEX)
        self._strips[number] = strip(report)
        write_output(self._folder / self._names[number], text, force=True)

    def finish(self, reports: Sequence[Report]) -> Path:
        """Write the index.

        Returns:
            Where it is.
        """
        index = self._folder / INDEX
        addresses = [quote(name) for name in self._names]
        text = comparison(reports, self._strips, addresses, slowest_first=True)
        write_output(index, text, force=True)
        return index


def _names(recordings: Sequence[Path]) -> list[str]:
    """A file name for each recording, after it; distinct also where case does not count."""
    taken = {INDEX}
    names = []
    for recording in recordings:
        name, number = f"{recording.stem}.html", 2
        while name.lower() in taken:
            name, number = f"{recording.stem}-{number}.html", number + 1
        taken.add(name.lower())
        names.append(name)
    return names


def _is_ours(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f'name="generator" content="{GENERATOR}"'.encode() in file.read(4096)
