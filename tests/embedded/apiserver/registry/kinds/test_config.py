"""ConfigMaps and Secrets: default values, and invalid objects."""

from __future__ import annotations

import base64

import pytest

from tests.embedded.apiserver.registry.kinds.writes import Object, create, named, refusal, stored, update_refusal

FROZEN = "Forbidden: field is immutable when `immutable` is set"


def test_an_immutable_config_map_stays() -> None:
    old = stored("configmaps", named(data={"k": "v"}, immutable=True))
    assert update_refusal("configmaps", old, {"data": {"k": "w"}}) == [f"data: {FROZEN}"]
    assert update_refusal("configmaps", old, {"immutable": None}) == [f"immutable: {FROZEN}"]
    assert update_refusal("configmaps", old, {"metadata": {"labels": {"a": "b"}}}) == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"data": {"a/b": "v"}}, "data[a/b]"),
        ({"data": {"k": "v"}, "binaryData": {"k": "aGk="}}, "data[k]"),
        ({"data": {"k": "x" * 1048577}}, ""),
    ],
)
def test_wrong_config_maps_are_refused(fields: Object, field: str) -> None:
    assert [line.split(":")[0] for line in refusal("configmaps", named(**fields))] == [field]


def test_texts_of_a_secret_become_bytes() -> None:
    obj = create("secrets", named(stringData={"k": "v"}, data={"l": "bA=="}))
    assert obj["data"] == {"k": base64.b64encode(b"v").decode(), "l": "bA=="}
    assert "stringData" not in obj
    assert obj["type"] == "Opaque"


@pytest.mark.parametrize(
    ("sort", "lines"),
    [
        ("kubernetes.io/tls", ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        ("kubernetes.io/ssh-auth", ["data[ssh-privatekey]: Required value"]),
        ("kubernetes.io/dockerconfigjson", ["data[.dockerconfigjson]: Required value"]),
        ("example.com/own", []),
    ],
)
def test_a_type_of_secret_says_what_it_holds(sort: str, lines: list[str]) -> None:
    assert refusal("secrets", named(type=sort)) == lines


def test_the_type_of_a_secret_is_fixed() -> None:
    assert update_refusal("secrets", stored("secrets", named()), {"type": "x"}) == [
        'type: Invalid value: "x": field is immutable'
    ]
