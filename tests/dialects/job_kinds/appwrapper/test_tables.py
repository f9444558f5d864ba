"""`dialects/job_kinds/appwrapper/tables.py`: what the tables say of a field is what happens with it.

`tests/dialects/test_tables.py` compares the tables with the definitions and with the page."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.frame.fields import Answered, Becomes, Ignored
from phalanx.dialects.job_kinds.appwrapper import kinds
from phalanx.dialects.job_kinds.appwrapper.dialect import APP_WRAPPER_DIALECT
from phalanx.dialects.job_kinds.appwrapper.tables import APP_WRAPPER, MCAD, QUOTA_SUBTREE, WORDS

TABLES = {"AppWrapper": APP_WRAPPER, "MCAD": MCAD, "QuotaSubtree": QUOTA_SUBTREE, "words": WORDS}
USES = [(name, field, use) for name, table in TABLES.items() for field, use in table.items()]


@pytest.mark.parametrize(("table", "field", "use"), USES, ids=lambda value: value if isinstance(value, str) else "")
def test_each_use_is_explained(table: str, field: str, use: Any) -> None:
    match use:
        case Ignored(why):
            assert why
            assert why[0].islower() or why.startswith(("MCAD", "Phalanx", "CodeFlare"))
        case Becomes():
            assert all(str(part) for part in vars_of(use)[:1])
        case Answered():
            assert field.startswith("status") or table in ("words", "MCAD")


def vars_of(use: Any) -> list[Any]:
    return [getattr(use, name) for name in type(use).__match_args__]


def test_only_controllers_write_the_status() -> None:
    for table in (APP_WRAPPER, MCAD, QUOTA_SUBTREE):
        assert not [field for field, use in table.items() if field.startswith("status") and isinstance(use, Becomes)]


def notes(spec: Any, **meta: Any) -> str:
    obj = {"apiVersion": kinds.APP_WRAPPERS.api_version, "kind": "AppWrapper", "metadata": {"name": "a", **meta}}
    return "\n".join(APP_WRAPPER_DIALECT.notes("AppWrapper", {**obj, "spec": spec}))


def test_users_are_told_of_fields_without_an_effect_and_only_of_these() -> None:
    component = {"template": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}}
    assert notes({"suspend": True, "components": [component]}) == ""
    told = notes({"components": [{**component, "podSets": [{"path": "a", "annotations": {"k": "v"}}]}]})
    ignored = APP_WRAPPER["spec.components[].podSets[].annotations"]
    assert isinstance(ignored, Ignored)
    assert vars_of(ignored)[0] in told
    assert "podSets[].path" not in told


def test_users_are_told_of_annotations_without_an_effect() -> None:
    key = f"{kinds.PREFIX}tas-pod-index-label"
    assert "Kueue's topologies" in notes({"components": []}, annotations={key: "x"})
    assert key not in notes({"components": []}, annotations={f"{kinds.PREFIX}retryLimit": "1"})
