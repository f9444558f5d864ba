"""Every field of Koordinator's kinds stands in a table, and docs/dialects/koordinator.md shows them.

`PHALANX_REWRITE=1 pytest tests/dialects/koordinator/test_tables.py` writes the page's tables anew.
"""

from __future__ import annotations

import pytest

from phalanx.dialects.koordinator.dialect import KOORDINATOR
from phalanx.dialects.koordinator.tables import NODE_WORDS, POD_WORDS, QUOTA_WORDS, TABLES
from tests.dialects.pages import PAGES, definitions, differences, with_tables

DEFINITIONS = definitions(KOORDINATOR.crds)
WORDS = {
    "Labels and annotations of pods and PodGroups": POD_WORDS,
    "Labels and annotations of ElasticQuotas": QUOTA_WORDS,
    "Labels and annotations of nodes": NODE_WORDS,
}


def test_every_definition_has_a_table() -> None:
    assert set(DEFINITIONS) == set(TABLES)


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_every_field_of_every_definition_is_in_its_table(kind: str) -> None:
    missing, dead = differences(DEFINITIONS[kind], TABLES[kind])
    assert not missing, "say in tables.py what becomes of it"
    assert not dead, "there is no such field"


def test_the_page_shows_the_tables() -> None:
    before, now = with_tables(PAGES / "koordinator.md", {**TABLES, **WORDS})
    assert before == now, "PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/koordinator/test_tables.py"


def test_what_has_no_effect_is_said_of_the_object() -> None:
    def said(kind: str, **obj: object) -> list[str]:
        return [text.partition(":")[0] for text in KOORDINATOR.notes(kind, {"metadata": {}, **obj})]

    assert said("PodGroup", spec={"minMember": 1, "scheduleTimeoutSeconds": 5}) == [
        "spec.scheduleTimeoutSeconds has no effect"
    ]
    assert said("PodGroup", metadata={"annotations": {"gang.scheduling.koordinator.sh/groups": "[]"}}) == [
        "gang.scheduling.koordinator.sh/groups has no effect on a PodGroup"
    ]
    assert said("Reservation", spec={}) == ["it has no effect"]
    assert said("ClusterColocationProfile", spec={"qosClass": "BE"}) == ["it has no effect"]
    notes = {"gang.scheduling.koordinator.sh/mode": "Strict", "koordinator.sh/odd": "1", "app": "a"}
    assert said("Pod", metadata={"annotations": notes}) == [
        "gang.scheduling.koordinator.sh/mode has no effect",
        "koordinator.sh/odd is not known here, and has no effect",
    ]
    quota = {"labels": {"quota.scheduling.koordinator.sh/tree-id": "t"}}
    assert said("ElasticQuota", metadata=quota) == ["quota.scheduling.koordinator.sh/tree-id has no effect"]
    assert said("Node", metadata={"annotations": {"node.koordinator.sh/reservation": "{}"}}) == [
        "node.koordinator.sh/reservation has no effect"
    ]
