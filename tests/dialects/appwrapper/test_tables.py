"""Every field of AppWrapper stands in a table, and docs/dialects/appwrapper.md shows the tables.

`PHALANX_REWRITE=1 pytest tests/dialects/appwrapper/test_tables.py` writes the page's tables anew; read the difference.
"""

from __future__ import annotations

from phalanx.dialects.appwrapper.dialect import APP_WRAPPER_DIALECT
from phalanx.dialects.appwrapper.tables import APP_WRAPPER, WORDS
from tests.dialects.pages import PAGES, definitions, differences, with_tables

DEFINITIONS = definitions(APP_WRAPPER_DIALECT.crds)


def test_every_field_of_the_definition_is_in_its_table() -> None:
    assert set(DEFINITIONS) == {"AppWrapper"}
    missing, dead = differences(DEFINITIONS["AppWrapper"], APP_WRAPPER)
    assert not missing, "say in tables.py what becomes of it"
    assert not dead, "there is no such field"


def test_the_page_shows_the_tables() -> None:
    before, now = with_tables(PAGES / "appwrapper.md", {"AppWrapper": APP_WRAPPER, "Annotations": WORDS})
    assert before == now, "PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/appwrapper/test_tables.py"


def test_what_has_no_effect_is_said_of_the_object() -> None:
    components = [{"template": {}, "annotations": {"a": "b"}}]
    notes = {"workload.codeflare.dev.appwrapper/retryLimit": "1", "workload.codeflare.dev.appwrapper/odd": "1"}
    obj = {"metadata": {"annotations": notes}, "spec": {"components": components}}
    assert [text.partition(" ")[0] for text in APP_WRAPPER_DIALECT.notes("AppWrapper", obj)] == [
        "spec.components[].annotations",
        "workload.codeflare.dev.appwrapper/odd",
    ]
