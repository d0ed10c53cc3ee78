"""Every report validates against the JSON Schema that ships with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import analysis
from analysis.cli import run
from tests.analysis.test_samples import NAMES, SAMPLES
from tests.traces.traps import TRAPS

SCHEMA: dict[str, Any] = json.loads(
    (Path(analysis.__file__).parent / "report.schema.json").read_text()
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def closed(schema: Any) -> Any:
    """The schema with unknown fields forbidden: what the package writes, it documents."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        result.setdefault("additionalProperties", False)
    return result


STRICT = jsonschema.Draft202012Validator(closed(SCHEMA))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def report(path: Path, tmp_path: Path, *options: str) -> Any:
    output = tmp_path / "report.json"
    code = run(["analyze", str(path), "--format", "json", "--output", str(output), *options])
    assert code in (0, 3)
    return json.loads(output.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str, tmp_path: Path) -> None:
    found = report(SAMPLES / f"{name}.sqlite", tmp_path, "--min-gap", "0")
    VALIDATOR.validate(found)
    STRICT.validate(found)


@pytest.mark.parametrize("name", TRAPS)
def test_traps(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "trap.sqlite"
    expected = TRAPS[name].write(trace)
    STRICT.validate(report(trace, tmp_path, *expected.options))
