"""Every field of Volcano's kinds stands in a table, and docs/dialects/volcano.md shows them.

`PHALANX_REWRITE=1 pytest tests/dialects/volcano/test_tables.py` writes the page's tables anew.
"""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.volcano.dialect import VOLCANO
from phalanx.dialects.volcano.settings import SETTINGS
from phalanx.dialects.volcano.tables import TABLES, WORDS
from tests.dialects.pages import PAGES, definitions, differences, with_tables

DEFINITIONS = definitions(VOLCANO.crds)


def test_every_definition_has_a_table() -> None:
    assert set(DEFINITIONS) == set(TABLES)


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_every_field_of_every_definition_is_in_its_table(kind: str) -> None:
    missing, dead = differences(DEFINITIONS[kind], TABLES[kind])
    assert not missing, "say in tables.py what becomes of it"
    assert not dead, "there is no such field"


def test_the_page_shows_the_tables() -> None:
    before, now = with_tables(
        PAGES / "volcano.md", {**TABLES, "Labels and annotations": WORDS, "The scheduler's configuration": SETTINGS}
    )
    assert before == now, "PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/volcano/test_tables.py"


def of(group: str) -> dict[str, Any]:
    return {"apiVersion": f"{group}.volcano.sh/v1"}


def test_a_job_of_another_group_has_other_fields() -> None:
    assert list(VOLCANO.notes("Job", {"apiVersion": "batch/v1", "metadata": {}, "spec": {"template": {}}})) == []


def test_what_has_no_effect_is_said_of_the_object() -> None:
    group = {
        **of("scheduling"),
        "metadata": {},
        "spec": {"minMember": 2, "networkTopology": {"mode": "hard"}, "subGroupPolicy": [{"name": "a"}], "odd": 1},
    }
    assert list(VOLCANO.notes("PodGroup", group)) == [
        "spec.subGroupPolicy[].name has no effect: a subgroup is named after the task that labelSelector selects",
        "spec.odd is unknown to Phalanx, and has no effect",
    ]
    tasks = [{"name": "a", "odd": "restricted", "template": {"spec": {}}}]
    notes = {"volcano.sh/sla-waiting-time": "1h", "volcano.sh/preemptable": "true"}
    job = {**of("batch"), "metadata": {"annotations": notes}, "spec": {"minAvailable": 1, "tasks": tasks}}
    assert [text.partition(" ")[0] for text in VOLCANO.notes("Job", job)] == [
        "spec.tasks[].odd",
        "volcano.sh/sla-waiting-time",
    ]
    (said,) = VOLCANO.notes("NodeShard", {**of("shard"), "metadata": {}, "spec": {"tier": 1}})
    assert said.startswith("it has no effect: one Phalanx scheduler")
    flow = {**of("flow"), "metadata": {}, "spec": {"flows": [{"name": "a", "patch": {"jobSpec": {}}}]}}
    assert [text.partition(" has")[0] for text in VOLCANO.notes("JobFlow", flow)] == ["spec.flows[].patch"]
