"""Every field of KAI's kinds stands in a table, and docs/dialects/kai.md shows the tables.

`PHALANX_REWRITE=1 pytest tests/dialects/kai/test_tables.py` writes the page's tables anew; read the difference.
"""

from __future__ import annotations

import pytest

from phalanx.dialects.frame import unused
from phalanx.dialects.kai.dialect import KAI
from phalanx.dialects.kai.notes import notes
from phalanx.dialects.kai.tables import TABLES, WORDS
from tests.dialects.pages import PAGES, definitions, differences, with_tables

DEFINITIONS = definitions(KAI.crds)


def test_every_definition_has_a_table() -> None:
    assert set(DEFINITIONS) == set(TABLES)


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_every_field_of_every_definition_is_in_its_table(kind: str) -> None:
    missing, dead = differences(DEFINITIONS[kind], TABLES[kind])
    assert not missing, "say in tables.py what becomes of it"
    assert not dead, "there is no such field"


def test_the_page_shows_the_tables() -> None:
    before, now = with_tables(PAGES / "kai.md", {**TABLES, "Labels and annotations": WORDS})
    assert before == now, "PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/kai/test_tables.py"


def test_what_has_no_effect_is_said_of_the_object() -> None:
    spec = {"displayName": "A", "resources": {"cpu": {"quota": 1, "limit": -1}, "gpu": {"limit": 0}}}
    assert list(notes("Queue", {"metadata": {}, "spec": spec})) == [
        "spec.displayName has no effect: reasons name the queue",
        "spec.resources.memory.limit, spec.resources.gpu.limit: absent or 0 is no room at all for pods that ask for "
        "it; write -1 for no limit",
    ]
    words = {"kai.scheduler/segment-size": "4", "kai.scheduler/queue": "q", "kai.scheduler/odd": "1", "mps": "true"}
    assert [text.partition(":")[0] for text in notes("Pod", {"metadata": {"annotations": words}})] == [
        "kai.scheduler/segment-size has no effect",
        "kai.scheduler/odd is not known here, and has no effect",
        "mps has no effect",
    ]


def test_a_field_that_nobody_knows_is_said_too() -> None:
    assert list(unused({"nodeLabel": {}}, TABLES["Topology"])) == [
        "spec.nodeLabel is not known here, and has no effect"
    ]
