"""`dialects/kueue/tree/workload.py`: every field that is read is a field of the definition, with the same type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from phalanx.dialects.kueue.tree.workload import WorkloadView

TYPES = {str: "string", int: "integer", float: "integer", bool: "boolean"}


def schema() -> dict[str, Any]:
    """Return the schema of Workload in the definition that is installed."""
    definitions = msgspec.json.decode(files("phalanx.dialects.kueue").joinpath("definitions.json").read_bytes())
    (workloads,) = (one for one in definitions if one["metadata"]["name"] == "workloads.kueue.x-k8s.io")
    return next(each["schema"]["openAPIV3Schema"] for each in workloads["spec"]["versions"] if each["storage"])


def wrong(sort: Any, said: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the fields of the type that are not in the schema, or are there with another type."""
    if isinstance(sort, UnionType):
        (sort,) = (each for each in get_args(sort) if each is not NoneType)
    if is_typeddict(sort):
        for name, each in get_type_hints(sort).items():
            if path or name != "metadata":
                inner = said.get("properties", {}).get(name)
                yield from [f"{path}.{name} is not there"] if inner is None else wrong(each, inner, f"{path}.{name}")
    elif get_origin(sort) is list:
        yield from wrong(get_args(sort)[0], said.get("items", {}), f"{path}[]")
    elif sort in TYPES and said.get("type") != TYPES[sort]:
        yield f"{path} is {said.get('type')}"


def test_the_fields_that_are_read_are_those_of_the_definition() -> None:
    assert list(wrong(WorkloadView, schema(), "")) == []


def test_a_field_that_is_not_there_is_found() -> None:
    found = schema()
    del found["properties"]["spec"]["properties"]["active"]
    found["properties"]["status"]["properties"]["clusterName"]["type"] = "integer"
    assert list(wrong(WorkloadView, found, "")) == [".spec.active is not there", ".status.clusterName is integer"]
