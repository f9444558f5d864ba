"""Every field of PodGroup and Workload stands in a table, and docs/dialects/kubernetes.md shows the tables.

`PHALANX_REWRITE=1 pytest tests/dialects/kube_scheduler/kubernetes/test_tables.py` writes the page's tables anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from phalanx.dialects.kube_scheduler.kubernetes.dialect import KUBERNETES
from phalanx.dialects.kube_scheduler.kubernetes.tables import TABLES
from tests.dialects.kueue.test_fields_tables import inside
from tests.dialects.pages import PAGES, with_tables

ALL_FIELDS = sorted(
    (Path(__file__).parents[2] / "job_kinds" / "examples" / "kubernetes-workload").glob("allfields-*.yaml")
)
POD_GROUP = {
    "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
    "schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}},
    "schedulingConstraints": {"topology": [{"key": "zone"}]},
    "resourceClaims": [{"name": "c", "resourceClaimName": "d"}],
    "disruptionMode": "PodGroup",
    "priorityClassName": "p",
    "priority": 1,
}


def paths(value: Any, path: str) -> Iterator[str]:
    """Where something stands; of a list, in each of its items."""
    items = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        for one in value:
            yield from paths(one, f"{path}[]")
    elif not items:
        yield path
    for name, inner in items:
        yield from paths(inner, f"{path}.{name}")


@pytest.mark.parametrize("file", ALL_FIELDS, ids=lambda file: file.stem[:17])
def test_every_field_of_a_workload_is_in_its_table(file: Path) -> None:
    table = TABLES["Workload"]
    found = list(paths(yaml.safe_load(file.read_text())["spec"], "spec"))
    assert len(found) > 3
    assert [path for path in found if not any(path == own or inside(path, own) for own in table)] == []


def test_every_field_of_a_pod_group_is_in_its_table() -> None:
    missing = [path for path in paths(POD_GROUP, "spec") if path not in TABLES["PodGroup"]]
    assert [one for one in missing if not any(inside(one, own) for own in TABLES["PodGroup"])] == []


def test_what_has_no_effect_is_said_of_the_object() -> None:
    assert list(KUBERNETES.notes("PodGroup", {"metadata": {}, "spec": POD_GROUP})) == [
        "spec.resourceClaims has no effect: Phalanx schedules devices only as resources that pods request"
    ]


def test_the_page_shows_the_tables() -> None:
    before, now = with_tables(PAGES / "kubernetes.md", TABLES)
    assert before == now, "PHALANX_REWRITE=1 .venv/bin/pytest tests/dialects/kube_scheduler/kubernetes/test_tables.py"
