"""Every field of the kinds of four dialects stands in a table, and their pages of docs/dialects show the tables.

`PHALANX_REWRITE=1 pytest tests/dialects/test_tables.py` writes the pages' tables anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from phalanx.dialects.job_kinds.appwrapper import tables as appwrapper
from phalanx.dialects.job_kinds.appwrapper.dialect import APP_WRAPPER_DIALECT
from phalanx.dialects.kai import fields as kai
from phalanx.dialects.kai.dialect import KAI
from phalanx.dialects.kube_scheduler.koordinator.dialect import KOORDINATOR
from phalanx.dialects.kube_scheduler.koordinator.fields import tables as koordinator
from phalanx.dialects.kube_scheduler.scheduler_plugins import tables as scheduler_plugins
from phalanx.dialects.kube_scheduler.scheduler_plugins.dialect import SCHEDULER_PLUGINS
from tests.dialects.pages import PAGES, Tables, definitions, differences, with_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the docs. `crds`: the file of its dialect's definitions. `kinds`: the table of each kind. `parts`: the
    tables that the page shows, by the title of their part."""

    name: str
    crds: str
    kinds: Tables
    parts: Tables

    def __str__(self) -> str:
        return self.name


_OF_PODS = "Labels and annotations of pods and PodGroups"
SHOWN = (
    Page(name="kai.md", crds=KAI.crds, kinds=kai.TABLES, parts={**kai.TABLES, "Labels and annotations": kai.WORDS}),
    Page(
        name="koordinator.md",
        crds=KOORDINATOR.crds,
        kinds=koordinator.TABLES,
        parts={
            **koordinator.TABLES,
            _OF_PODS: koordinator.POD_WORDS,
            "Labels and annotations of ElasticQuotas": koordinator.QUOTA_WORDS,
            "Labels of Reservations": koordinator.RESERVATION_WORDS,
            "Labels and annotations of nodes": koordinator.NODE_WORDS,
            "Annotations of NodeResourceTopologies": koordinator.TOPOLOGY_WORDS,
            "Annotations of ClusterColocationProfiles": koordinator.PROFILE_WORDS,
        },
    ),
    Page(
        name="scheduler-plugins.md",
        crds=SCHEDULER_PLUGINS.crds,
        kinds=scheduler_plugins.TABLES,
        parts={**scheduler_plugins.TABLES, "Labels": scheduler_plugins.WORDS},
    ),
    Page(
        name="appwrapper.md",
        crds=APP_WRAPPER_DIALECT.crds,
        kinds={
            "AppWrapper": {**appwrapper.APP_WRAPPER, **appwrapper.MCAD},
            "QuotaSubtree": appwrapper.QUOTA_SUBTREE,
        },
        parts={
            "AppWrapper": appwrapper.APP_WRAPPER,
            "Annotations": appwrapper.WORDS,
            "AppWrapper v1beta1": appwrapper.MCAD,
            "QuotaSubtree": appwrapper.QUOTA_SUBTREE,
        },
    ),
)


def defined() -> Iterator[Any]:
    for page in SHOWN:
        for kind, body in definitions(page.crds).items():
            yield pytest.param(page, kind, body, id=f"{page}-{kind}")


@pytest.mark.parametrize("page", SHOWN, ids=str)
def test_every_definition_has_a_table(page: Page) -> None:
    assert set(definitions(page.crds)) == set(page.kinds)


@pytest.mark.parametrize(("page", "kind", "body"), list(defined()))
def test_every_field_of_every_definition_is_in_its_table(page: Page, kind: str, body: dict[str, Any]) -> None:
    missing, dead = differences(body, page.kinds[kind])
    assert not missing, "say in tables.py what becomes of it"
    assert not dead, "there is no such field"


@pytest.mark.parametrize("page", SHOWN, ids=str)
def test_the_page_shows_the_tables(page: Page) -> None:
    before, now = with_tables(PAGES / page.name, page.parts)
    assert before == now, "PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/test_tables.py"
