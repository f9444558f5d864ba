"""`kube/install/queue_schema.py`: what a Queue object may say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from phalanx.kube.install.queue_schema import SPEC, Schema
from phalanx.kube.read.queue import read_queue
from tests.dialects.test_queue import EVERYTHING

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


def fields(schema: Schema) -> dict[str, Any]:
    """The names that a schema has, nested."""
    inner = schema.get("items", schema)
    return {name: fields(one) for name, one in (inner.get("properties") or {}).items()}


def test_the_schema_has_the_fields_that_are_read() -> None:
    found = fields(SPEC)
    assert found.keys() == EVERYTHING.keys()
    assert found["preemption"].keys() == EVERYTHING["preemption"].keys()
    assert found["fungibility"].keys() == EVERYTHING["fungibility"].keys()
    assert found["quotas"].keys() == EVERYTHING["quotas"][0].keys()
    assert found["limits"].keys() == EVERYTHING["limits"].keys()


def test_the_guide_shows_every_field_of_a_queue() -> None:
    shown = yaml.safe_load((GUIDE / "queues.md").read_text().rpartition("```yaml\n")[2].partition("```")[0])
    assert without(fields(SPEC), shown["spec"]) == []
    assert read_queue(shown).gang


def without(named: dict[str, Any], shown: Any) -> list[str]:
    """The fields that are not shown."""
    inner = shown[0] if isinstance(shown, list) else shown
    missing = [name for name in named if name not in inner]
    below = (f"{name}.{each}" for name in named if name in inner for each in without(named[name], inner[name] or {}))
    return [*missing, *below]


def test_every_field_has_a_description() -> None:
    def bare(schema: Schema, path: str) -> Iterator[str]:
        if not schema.get("description"):
            yield path
        for name, one in (schema.get("items", schema).get("properties") or {}).items():
            yield from bare(one, f"{path}.{name}")

    assert list(bare(SPEC, "spec")) == []
