"""`embedded/apiserver/registry/crd/structure.py`: what keeps a schema from being structural."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apiserver.registry.crd.structure import structure_causes, unreadable

KEPT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"type": "object", "properties": {"x": {"x-kubernetes-int-or-string": True}}}, []),
        ({"type": "array"}, [
            "s.items: Required value: must be specified", 's.type: Invalid value: "array": must be object at the root'
        ]),
        (KEPT | {"anyOf": [{"properties": {"x": {"minimum": 1}}}]}, [
            "s.properties[x]: Required value: because it is defined in s.anyOf[0].properties[x]"
        ]),
        (KEPT | {"not": {"default": 1}}, ["s.not.default: Forbidden: must be undefined to be structural"]),
        (KEPT | {"properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}}}, []),
        (KEPT | {"properties": {"metadata": {"type": "object", "required": ["labels"]}}}, [
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified"
        ]),
        (KEPT | {"properties": {"x": {"type": "string", "x-kubernetes-embedded-resource": True}}}, [
            "s.properties[x].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields",
            's.properties[x].type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true',
        ]),
    ],
)  # fmt: skip
def test_the_root_of_a_schema(schema: Any, found: list[str]) -> None:
    assert [cause.line() for cause in structure_causes(schema, "s", root=True)] == found


def test_references_leave_the_structure_unread() -> None:
    assert unreadable({"type": "object", "properties": {"x": {"$ref": "#/y"}}})
    assert not unreadable(KEPT)
