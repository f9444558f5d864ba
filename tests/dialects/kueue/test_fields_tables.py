"""Every field of Kueue's kinds stands in a table, and docs/dialects/kueue.md shows the tables.

`PHALANX_REWRITE=1 pytest tests/dialects/kueue/test_fields_tables.py` writes the tables of the page. Read what changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from phalanx.dialects.frame.fields import Answered, Becomes, Ignored, Use, unused
from phalanx.dialects.kueue.fields.tables import CONFIGURATION, TABLES, WORDS, notes

PAGE = Path(__file__).parents[3] / "docs" / "dialects" / "kueue.md"
DEFINITIONS = json.loads(resources.files("phalanx.dialects").joinpath("kueue/definitions.json").read_text())


def fields(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The innermost ones."""
    for name, inner in (schema.get("properties") or {}).items():
        here = f"{path}.{name}" if path else name
        items = inner.get("items") or {}
        if inner.get("properties"):
            yield from fields(inner, here)
        elif items.get("properties"):
            yield from fields(items, f"{here}[]")
        else:
            yield here


@pytest.mark.parametrize("body", DEFINITIONS, ids=lambda body: body["spec"]["names"]["kind"])
def test_every_field_of_every_definition_is_in_its_table(body: Any) -> None:
    table = TABLES[body["spec"]["names"]["kind"]]
    found = {
        field
        for version in body["spec"]["versions"]
        for field in fields(version["schema"]["openAPIV3Schema"])
        if field.partition(".")[0] not in {"apiVersion", "kind", "metadata"}
    }
    missing = {field for field in found if not any(field == own or inside(field, own) for own in table)}
    assert not missing, "say in tables.py what becomes of it"
    dead = {own for own in table if not any(field == own or inside(field, own) for field in found)}
    assert not dead, "there is no such field"


def inside(field: str, own: str) -> bool:
    return field.startswith((f"{own}.", f"{own}[]"))


def test_every_definition_has_a_table() -> None:
    assert {body["spec"]["names"]["kind"] for body in DEFINITIONS} == set(TABLES)


def test_what_has_no_effect_is_said_of_the_object() -> None:
    spec = {"cohortName": "all", "concurrentAdmissionPolicy": {}}
    assert list(notes("ClusterQueue", {"metadata": {}, "spec": spec})) == [
        "spec.concurrentAdmissionPolicy has no effect: it is an alpha feature of Kueue; "
        "Phalanx chooses the flavors again at each start"
    ]
    managed = {"metadata": {"labels": {"kueue.x-k8s.io/managed": "true"}}, "spec": {}}
    assert list(notes("ProvisioningRequest", managed)) == [], "Phalanx wrote the label itself"
    (said,) = notes("Workload", {"metadata": {}, "spec": {"preemptionGates": [{"name": "g"}]}})
    assert said.startswith("spec.preemptionGates has no effect: ")
    words = {"kueue.x-k8s.io/queue-name": "l", "kueue.x-k8s.io/pod-group-serving": "true", "kueue.x-k8s.io/odd": "1"}
    assert [text.partition(":")[0] for text in notes("Job", {"metadata": {"annotations": words}})] == [
        "kueue.x-k8s.io/pod-group-serving has no effect",
        "kueue.x-k8s.io/odd is unknown to Phalanx, and has no effect",
    ]
    template = {"metadata": {"annotations": {"kueue.x-k8s.io/priority-boost": "1"}}}
    job = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "l"}}, "spec": {"template": template}}
    assert [text.partition(" ")[0] for text in notes("Job", job)] == ["kueue.x-k8s.io/priority-boost"]


def test_what_the_definition_fills_in_on_a_workload_of_ours_is_no_news() -> None:
    """Every job has one: an event on each would be as many writes."""
    spec = {"queueName": "l", "podSets": [{"name": "main", "count": 1, "template": {}}], "priorityClassSource": ""}
    assert list(notes("Workload", {"metadata": {}, "spec": {"active": True, "priority": 0, **spec}})) == []


def test_a_field_that_nobody_knows_is_said_too() -> None:
    assert list(unused({"nodeLabel": {}}, TABLES["ResourceFlavor"])) == [
        "spec.nodeLabel is unknown to Phalanx, and has no effect"
    ]


def row(path: str, use: Use) -> str:
    match use:
        case Becomes(field, how):
            return f"| `{path}` | `{field}` | {how} |"
        case Answered(how):
            return f"| `{path}` | written | {how} |"
        case Ignored(why):
            return f"| `{path}` | – | {why} |"


def test_the_page_shows_the_tables() -> None:
    page = now = PAGE.read_text()
    for kind, table in {**TABLES, "Labels and annotations": WORDS, "Configuration": CONFIGURATION}.items():
        lines = ["| field | becomes | how |", "|---|---|---|", *(row(path, use) for path, use in table.items())]
        before, found, after = now.partition(f"### {kind}\n\n")
        assert found, f"the page has no part {kind}"
        now = before + found + "\n".join(lines) + "\n\n" + after.partition("\n\n")[2]
    now = now.rstrip("\n") + "\n"
    if os.environ.get("PHALANX_REWRITE"):
        PAGE.write_text(now)
    assert page == now, (
        "the tables have changed: PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/kueue/test_fields_tables.py"
    )
