"""`embedded/apiserver/registry/crd/replicas.py`: the fields that `/scale` reads, in a custom resource."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apiserver.registry.crd.replicas import replica_causes

SCALE = {
    "specReplicasPath": ".spec.n",
    "statusReplicasPath": ".status.n",
    "labelSelectorPath": ".status.s",
}


@pytest.mark.parametrize(
    ("obj", "lines"),
    [
        ({}, []),
        ({"spec": {"n": 2}, "status": {"n": 0, "s": "a=b"}}, []),
        ({"spec": {"n": -1}}, [".spec.n: Invalid value: -1: should be a non-negative integer"]),
        (
            {"spec": {"n": "3"}},
            [".spec.n: Invalid value: 0: .spec.n accessor error: 3 is of the type string, expected int64"],
        ),
        (
            {"spec": {"n": 2.0}},
            [".spec.n: Invalid value: 0: .spec.n accessor error: 2 is of the type float64, expected int64"],
        ),
        (
            {"spec": [1, {"b": True}]},
            [
                ".spec.n: Invalid value: 0: .spec.n accessor error: [1 map[b:true]] is of the type []interface {}, "
                "expected map[string]interface{}"
            ],
        ),
        (
            {"status": {"s": 5}},
            ['.status.s: Invalid value: "": .status.s accessor error: 5 is of the type int64, expected string'],
        ),
    ],
)
def test_wrong_replicas_are_named(obj: Any, lines: list[str]) -> None:
    assert [cause.line() for cause in replica_causes(obj, SCALE)] == lines
