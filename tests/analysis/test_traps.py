"""Each trap of tests/traces/traps says what it must, through the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.traces.expect import broken_sums, differences
from tests.traces.schema import VERSIONS
from tests.traces.traps import TRAPS
from tests.traces.traps.registry import Trap
from tests.traces.traps.tables import everything

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Analyze

#: All gaps are listed, however short, unless a trap is about that.
ALL_GAPS = ("--min-gap", "0")


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name: str, tmp_path: Path, analyze: Analyze) -> None:
    trace = tmp_path / "trap.sqlite"
    expected = TRAPS[name].write(trace)
    threshold = () if "--min-gap" in expected.options else ALL_GAPS
    found = analyze(trace, *threshold, *expected.options)
    assert differences(expected.report, found.report) == []
    assert broken_sums(found.report) == []
    assert found.exit_code == expected.exit_code, found.stderr
    quality = found.report["quality"]
    assert quality["dropped_rows"] == expected.dropped
    if expected.warns is not None:
        assert any(expected.warns in warning for warning in quality["warnings"])


@pytest.mark.parametrize("lazy", [True, False], ids=["lazy", "not-lazy"])
@pytest.mark.parametrize("schema", VERSIONS, ids=str)
def test_every_schema_version_reads_the_same(
    schema: str | None, lazy: bool, tmp_path: Path, analyze: Analyze
) -> None:
    trap = Trap("everything", everything, {"schema": schema, "lazy": lazy})
    expected = trap.write(tmp_path / "version.sqlite")
    found = analyze(tmp_path / "version.sqlite", *ALL_GAPS)
    assert differences(expected.report, found.report) == []
    assert broken_sums(found.report) == []
    assert found.report["trace"]["schema_version"] == schema
    assert found.exit_code == 0
