"""`endpoints/parts/patching.py`: bodies of patches, and the fields that a patch may change."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from phalanx.embedded.apiserver.endpoints.parts.patching import check_patch_media, patch_body, touched_fields
from phalanx.embedded.apiserver.storage.store import encode
from tests.embedded.apiserver.endpoints.test_parts import WIDGETS, refused
from tests.embedded.apiserver.registry.kinds.writes import resource

CURRENT = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}, "data": {}, "immutable": True}


def test_a_patch_has_a_media_type_that_its_kind_accepts() -> None:
    for media in (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH):
        check_patch_media(resource("configmaps"), media)
    for media in (JSON_PATCH, MERGE_PATCH, APPLY_PATCH):
        check_patch_media(WIDGETS, media)
    text = refused(415, check_patch_media, WIDGETS, STRATEGIC_MERGE_PATCH)
    assert STRATEGIC_MERGE_PATCH not in text.split("accepted media types include:")[1]
    refused(415, check_patch_media, resource("configmaps"), "application/json")


@pytest.mark.parametrize("validation", ["Strict", "Warn"])
def test_fields_that_occur_twice_in_a_patch_are_found(validation: str) -> None:
    body = b'{"data": {"a": "1", "a": "2"}}'
    assert patch_body(MERGE_PATCH, body, validation) == ({"data": {"a": "2"}}, ['duplicate field "data.a"'])
    assert patch_body(MERGE_PATCH, body, "Ignore") == ({"data": {"a": "2"}}, [])


def test_unknown_fields_of_operations_are_found() -> None:
    body = encode([{"op": "add", "path": "/data/a", "value": "1", "colour": "red"}])
    patch, found = patch_body(JSON_PATCH, body, "Warn")
    assert patch[0]["path"] == "/data/a"
    assert found == ['json patch unknown field "[0].colour"']


@pytest.mark.parametrize(
    ("media", "body", "message"),
    [
        (JSON_PATCH, b"{}", "error decoding patch: json: cannot unmarshal object into Go value of type"),
        (JSON_PATCH, b'[{"op": 1}]', "error decoding patch: json: cannot unmarshal number into Go struct field"),
        (MERGE_PATCH, b"[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]"),
        (STRATEGIC_MERGE_PATCH, b"7", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        (MERGE_PATCH, b"{", "error decoding patch: "),
    ],
)
def test_a_body_that_is_no_patch_is_refused(media: str, body: bytes, message: str) -> None:
    assert refused(400, patch_body, media, body, "Warn").startswith(message)


def test_null_is_an_empty_patch_except_as_a_merge_patch() -> None:
    for validation in ("Warn", "Ignore"):
        assert patch_body(JSON_PATCH, b"null", validation)[0] == []
        assert patch_body(STRATEGIC_MERGE_PATCH, b"null", validation)[0] == {}
        assert patch_body(MERGE_PATCH, b"null", validation)[0] is None


@pytest.mark.parametrize(
    ("media", "patch", "touched"),
    [
        (MERGE_PATCH, {"data": {}, "kind": "x"}, {"metadata", "data"}),
        (STRATEGIC_MERGE_PATCH, {"data": {}}, {"metadata", "data"}),
        (STRATEGIC_MERGE_PATCH, {"$patch": "replace"}, {"metadata", "data", "immutable"}),
        (STRATEGIC_MERGE_PATCH, {"$retainKeys": ["data"]}, {"metadata", "data", "immutable"}),
        (JSON_PATCH, [{"op": "add", "path": "/data/a"}], {"metadata", "data"}),
        (JSON_PATCH, [{"op": "move", "from": "/immutable", "path": "/data/a"}], {"metadata", "data", "immutable"}),
        (JSON_PATCH, [{"op": "replace", "path": ""}], {"metadata", "data", "immutable"}),
        (JSON_PATCH, [{"op": "test"}], {"metadata", "data", "immutable"}),
        (JSON_PATCH, [], {"metadata", "data", "immutable"}),
        (MERGE_PATCH, None, {"metadata", "data", "immutable"}),
        (APPLY_PATCH, {"data": {}}, {"metadata", "data", "immutable"}),
    ],
)
def test_fields_that_a_patch_may_change(media: str, patch: Any, touched: set[str]) -> None:
    assert touched_fields(media, patch, CURRENT) == touched
