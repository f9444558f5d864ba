"""One wrong field in an otherwise valid object, and the causes with which Kubernetes refuses it.

`refused_fields.json` was recorded at a kube-apiserver 1.36.2. It has a valid object of each kind, and rows: the kind,
the path of a field, its value (or ABSENT) and the causes of the refusal. No causes: the object is accepted.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import Object
from tests.embedded.apiserver.registry.kinds.writes import refusal

RECORDED = json.loads((Path(__file__).parent / "refused_fields.json").read_text())


def changed(body: Object, path: str, value: Any) -> Object:
    """Return a copy of the object with another value at a path, or without the field if the value is ABSENT."""
    found = copy.deepcopy(body)
    *way, last = (int(part) if part.isdigit() else part for part in path.split("/"))
    at: Any = found
    for part in way:
        at = at[part]
    if value == "ABSENT":
        del at[last]
    else:
        at[last] = value
    return found


@pytest.mark.parametrize(("kind", "path", "value", "causes"), RECORDED["rows"])
def test_a_wrong_field_gets_the_causes_of_kubernetes(kind: str, path: str, value: Any, causes: list[str]) -> None:
    plural, _, group = kind.partition(".")
    body = changed(RECORDED["bases"][kind], path, value)
    assert sorted(refusal(plural, body, group=group)) == sorted(causes)


@pytest.mark.parametrize("kind", RECORDED["bases"])
def test_the_object_itself_is_accepted(kind: str) -> None:
    plural, _, group = kind.partition(".")
    assert refusal(plural, RECORDED["bases"][kind], group=group) == []
