"""Objects that messages quote have the order of Go: fields as in the structs, keys of maps sorted."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.schema.schema import type_of
from phalanx.embedded.apiserver.transport.struct_order import in_go_order

CORE = "io.k8s.api.core.v1."


@pytest.mark.parametrize(
    ("name", "value", "keys"),
    [
        (
            f"{CORE}Pod",
            {"spec": {}, "metadata": {}, "apiVersion": "v1", "kind": "Pod"},
            "kind apiVersion metadata spec",
        ),
        (f"{CORE}ServicePort", {"port": 1, "appProtocol": "h", "name": "p"}, "name appProtocol port"),
        (f"{CORE}PodSpec", {"containers": [], "initContainers": []}, "initContainers containers"),
        ("io.k8s.api.rbac.v1.PolicyRule", {"resources": [], "verbs": []}, "verbs resources"),
        (f"{CORE}ObjectReference", {"apiVersion": "v1", "name": "n", "kind": "K"}, "kind name apiVersion"),
        (f"{CORE}Pod", {"unknown": 1, "spec": {}}, "spec unknown"),
    ],
)
def test_fields_have_the_order_of_their_struct(name: str, value: Any, keys: str) -> None:
    assert list(in_go_order(value, type_of(name))) == keys.split()


def test_keys_of_maps_and_of_unknown_types_are_sorted() -> None:
    metadata = {"labels": {"b": "1", "a": "2"}, "name": "x"}
    found = in_go_order({"metadata": metadata}, type_of(f"{CORE}Pod"))
    assert list(found["metadata"]) == ["name", "labels"]
    assert list(found["metadata"]["labels"]) == ["a", "b"]
    assert list(in_go_order([{"b": 1, "a": 2}], None)[0]) == ["a", "b"]
