"""Every field of scheduler-plugins' kinds stands in a table, and docs/dialects/scheduler-plugins.md shows them.

`PHALANX_REWRITE=1 pytest tests/dialects/scheduler_plugins/test_tables.py` writes the page's tables anew.
"""

from __future__ import annotations

import pytest

from phalanx.dialects.scheduler_plugins.dialect import SCHEDULER_PLUGINS
from phalanx.dialects.scheduler_plugins.tables import TABLES, WORDS
from tests.dialects.pages import PAGES, definitions, differences, with_tables

DEFINITIONS = definitions(SCHEDULER_PLUGINS.crds)


def test_every_definition_has_a_table() -> None:
    assert set(DEFINITIONS) == set(TABLES)


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_every_field_of_every_definition_is_in_its_table(kind: str) -> None:
    missing, dead = differences(DEFINITIONS[kind], TABLES[kind])
    assert not missing, "say in tables.py what becomes of it"
    assert not dead, "there is no such field"


def test_the_page_shows_the_tables() -> None:
    before, now = with_tables(PAGES / "scheduler-plugins.md", {**TABLES, "Labels": WORDS})
    assert before == now, "PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/scheduler_plugins/test_tables.py"


def test_what_has_no_effect_is_said_of_the_object() -> None:
    group = {"metadata": {}, "spec": {"minMember": 2, "minResources": {"cpu": "1"}, "odd": 1}}
    assert list(SCHEDULER_PLUGINS.notes("PodGroup", group)) == [
        "spec.minResources has no effect: the pods themselves are looked at, all of the group at once",
        "spec.odd is not known here, and has no effect",
    ]
    (said,) = SCHEDULER_PLUGINS.notes("ElasticQuota", {"metadata": {}, "spec": {"max": {"cpu": 1}}})
    assert said.startswith("spec.max does not name memory, which is 0 then")
    (said,) = SCHEDULER_PLUGINS.notes("NodeResourceTopology", {"metadata": {}, "zones": []})
    assert said.startswith("it has no effect: zones of nodes")
    pod = {"metadata": {"labels": {"appgroup.diktyo.x-k8s.io": "a", "app": "b"}}}
    assert [text.partition(":")[0] for text in SCHEDULER_PLUGINS.notes("Pod", pod)] == [
        "appgroup.diktyo.x-k8s.io has no effect"
    ]
