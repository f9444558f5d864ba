"""The tables about Go's structs name fields that the published definitions have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from phalanx.embedded.apimachinery.schema.gotypes import go_fields
from phalanx.embedded.apimachinery.schema.schema import decode, definitions, type_of


@cache
def published() -> dict[str, set[str]]:
    """The fields of each kind, by the last part of the definition's name."""
    found = defaultdict[str, set[str]](set)
    for name, body in definitions().items():
        found[name.rpartition(".")[2]] |= set(body.get("properties", ()))
    return found


def missing(named: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The fields that no definition has."""
    return (f"{kind}.{field}" for kind, field in named if field not in published().get(kind, ()))


@pytest.mark.parametrize("table", ["POINTERS", "BY_VALUE", "NULL_TIMES", "NULLS", "NO_OMITEMPTY", "NOT_FILLED"])
def test_every_field_of_a_table_is_published(table: str) -> None:
    named = [(kind, field) for kind, fields in getattr(go_fields, table).items() for field in fields]
    assert named
    assert list(missing(named)) == []


def test_a_field_that_nobody_publishes_is_found() -> None:
    assert list(missing([("PodSpec", "hostname"), ("PodSpec", "hostnam"), ("NoKind", "a")])) == [
        "PodSpec.hostnam",
        "NoKind.a",
    ]


def test_a_zero_value_is_kept_where_the_field_is_a_pointer() -> None:
    job = {"spec": {"parallelism": 0, "template": {"spec": {"containers": [], "hostNetwork": False}}}}
    assert decode(type_of("io.k8s.api.batch.v1.Job"), job) == []
    assert job["spec"]["parallelism"] == 0
    assert "hostNetwork" not in job["spec"]["template"]["spec"]
