"""notebooks/explore.ipynb runs from top to bottom, on recordings of every kind."""

import base64
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.traces.traps import TRAPS

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "explore.ipynb"


def execute(folder: Path, monkeypatch: pytest.MonkeyPatch, recording: Path | None = None) -> str:
    """Run the notebook in a checkout of its own; its text, and how many pictures it drew."""
    (folder / "notebooks").mkdir()
    (folder / "reports").mkdir(exist_ok=True)
    (folder / "reports" / "samples").symlink_to(ROOT / "reports" / "samples")
    if recording is None:
        monkeypatch.delenv("RECORDING", raising=False)
    else:
        monkeypatch.setenv("RECORDING", str(recording))
    notebook = nbformat.read(NOTEBOOK, 4)
    NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(folder / "notebooks")}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [o["data"]["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    assert all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)
    text = "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in outputs)
    return f"{text}\n{len(pictures)} pictures"


def test_a_fresh_checkout_shows_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = execute(tmp_path, monkeypatch)
    assert text.startswith("d2h_workers.sqlite: copy-bound\n")
    # The samples' reference: 420.596875 ms of compute, 649.738298 ms idle.
    assert "420.60" in text
    assert "649.74" in text
    assert text.endswith("3 pictures")


def test_the_newest_recording_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "reports" / "h2d_async"
    own.mkdir(parents=True)
    shutil.copy(ROOT / "reports" / "samples" / "h2d_async.sqlite", own / "mine.sqlite")
    assert execute(tmp_path, monkeypatch).startswith("mine.sqlite: ")


@pytest.mark.parametrize(
    ("trap", "pictures"), [("no_cuda_at_all", 1), ("two_gpus_both_ordinal_0", 5), ("no_nvtx", 3)]
)
def test_other_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str, pictures: int
) -> None:
    recording = tmp_path / "trap.sqlite"
    TRAPS[trap].write(recording)
    text = execute(tmp_path, monkeypatch, recording)
    assert text.startswith("trap.sqlite: ")
    assert text.endswith(f"{pictures} pictures")


def test_it_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, 4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [(cell.execution_count, cell.outputs) for cell in code] == [(None, [])] * len(code)
