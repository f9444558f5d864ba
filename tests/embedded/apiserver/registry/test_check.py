"""`embedded/apiserver/registry/crd/check.py`: what is wrong with a CustomResourceDefinition."""

from __future__ import annotations

from phalanx.embedded.apiserver.registry.crd.check import schema_causes


def test_a_list_says_how_its_items_are_told_apart() -> None:
    items = {"type": "object", "properties": {"name": {"type": "string"}}}
    plain = {"type": "array", "x-kubernetes-list-type": "map", "items": items}
    found = [cause.line() for cause in schema_causes({"type": "object", "properties": {"l": plain}}, "s", root=True)]
    assert found == [
        "s.properties[l].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map"
    ]
    keyed = plain | {"x-kubernetes-list-map-keys": ["name"]}
    [cause] = schema_causes(keyed, "s")
    assert cause.message.endswith("so it must have a default or be a required property")
