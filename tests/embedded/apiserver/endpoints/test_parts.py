"""`endpoints/parts.py`: the functions by which the engine calls modules about single kinds."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from phalanx.embedded.apiserver.endpoints import parts
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.registry.routing import Registry
from phalanx.embedded.apiserver.storage.store import encode
from phalanx.embedded.apiserver.transport.negotiation import accepted
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response
from tests.embedded.apiserver.registry.kinds.writes import resource

WIDGETS = Resource(group="example.com", version="v1", kind="Widget", plural="widgets", namespaced=True, custom=True)
CURRENT = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}, "data": {}, "immutable": True}


def refused(code: int, call: Any, *about: Any) -> str:
    with pytest.raises(StatusError) as raised:
        call(*about)
    assert raised.value.code == code
    return raised.value.message


# --- patches ----------------------------------------------------------------------------------------------------------


def test_a_patch_has_a_media_type_that_its_kind_accepts() -> None:
    for media in (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH):
        parts.check_patch_media(resource("configmaps"), media)
    for media in (JSON_PATCH, MERGE_PATCH, APPLY_PATCH):
        parts.check_patch_media(WIDGETS, media)
    text = refused(415, parts.check_patch_media, WIDGETS, STRATEGIC_MERGE_PATCH)
    assert STRATEGIC_MERGE_PATCH not in text.split("accepted media types include:")[1]
    refused(415, parts.check_patch_media, resource("configmaps"), "application/json")


@pytest.mark.parametrize("validation", ["Strict", "Warn"])
def test_fields_that_occur_twice_in_a_patch_are_found(validation: str) -> None:
    body = b'{"data": {"a": "1", "a": "2"}}'
    assert parts.patch_body(MERGE_PATCH, body, validation) == ({"data": {"a": "2"}}, ['duplicate field "data.a"'])
    assert parts.patch_body(MERGE_PATCH, body, "Ignore") == ({"data": {"a": "2"}}, [])


def test_unknown_fields_of_operations_are_found() -> None:
    body = encode([{"op": "add", "path": "/data/a", "value": "1", "colour": "red"}])
    patch, found = parts.patch_body(JSON_PATCH, body, "Warn")
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
    assert refused(400, parts.patch_body, media, body, "Warn").startswith(message)


def test_null_is_an_empty_patch_except_as_a_merge_patch() -> None:
    for validation in ("Warn", "Ignore"):
        assert parts.patch_body(JSON_PATCH, b"null", validation)[0] == []
        assert parts.patch_body(STRATEGIC_MERGE_PATCH, b"null", validation)[0] == {}
        assert parts.patch_body(MERGE_PATCH, b"null", validation)[0] is None


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
    assert parts.touched_fields(media, patch, CURRENT) == touched


# --- kinds ------------------------------------------------------------------------------------------------------------


def test_kinds_of_kubernetes_are_known_even_if_they_are_not_served() -> None:
    assert parts.is_known_kind("batch", "v1", "Job")
    assert parts.is_known_kind("", "v1", "PodTemplate")
    assert parts.is_known_kind("any.example.com", "v9", "Status"), "every group version has a Status"
    assert not parts.is_known_kind("batch", "v1", "Jab")
    assert not parts.is_known_kind("batch", "v9", "Job")
    assert not parts.is_known_kind("example.com", "v1", "Job")


def test_an_empty_object_has_the_structs_that_go_never_omits() -> None:
    job = parts.empty(resource("jobs", "batch"))
    assert (job["kind"], job["apiVersion"], job["metadata"], job["status"]) == ("Job", "batch/v1", {}, {})
    assert "template" in job["spec"]
    assert parts.empty(WIDGETS) == {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {}}


# --- the stored objects, for admission --------------------------------------------------------------------------------


class _Tally:
    def objects(self, namespace: str) -> Counter[tuple[str, str]]:
        return Counter({("", "pods"): 2}) if namespace == "a" else Counter()

    def size_bytes(self, namespace: str) -> int:
        return 100


class _Store:
    """A store with counts, and with one service that has an address."""

    tally = _Tally()

    def decided(self, key: tuple[str, str], namespace: str | None = None) -> Any:
        return iter(())


def committed() -> parts.Committed:
    store: Any = _Store()
    return parts.Committed(store)


def test_an_object_that_is_stored_with_another_counts_for_quotas_meanwhile() -> None:
    held, secret = committed(), {"kind": "Secret", "metadata": {"name": "s"}}
    with held.counting("a", resource("secrets"), secret):
        found = held.held("a")
        assert found.objects == Counter({("", "pods"): 2, ("", "secrets"): 1})
        assert found.size_bytes == 100 + len(encode(secret))
        assert held.held("b").objects == Counter(), "the other namespace has no more objects"
    assert held.held("a").objects == Counter({("", "pods"): 2})
    assert held.held("a").size_bytes == 100


def test_an_object_stops_counting_if_its_write_fails() -> None:
    held = committed()
    with pytest.raises(RuntimeError), held.counting("a", resource("secrets"), {}):
        raise RuntimeError
    assert held.held("a").objects == Counter({("", "pods"): 2})


def test_addresses_of_services_are_reserved_while_webhooks_are_asked() -> None:
    held, service = committed(), {"spec": {"clusterIP": "10.0.0.1"}}
    equal = {"spec": {"clusterIP": "10.0.0.1"}}
    with held.keeping_addresses(resource("services"), service):
        with held.keeping_addresses(resource("services"), equal), held.keeping_addresses(resource("pods"), {}):
            assert [*held.addressed()] == [service, equal]
        assert len([*held.addressed()]) == 1, "an equal service of another request is not forgotten"
    assert [*held.addressed()] == []


# --- discovery --------------------------------------------------------------------------------------------------------


def discover(path: str, method: str = "GET", accept: str = "") -> Response | None:
    asked = HttpRequest(method=method, path=path, query={}, user=User(name="u"), accept=accepted(accept))
    return parts.Discovery(Registry([*RESOURCES, WIDGETS])).answer(asked, path)


def test_discovery_knows_its_own_paths_only() -> None:
    for path in ("/api", "/apis", "/api/v1", "/apis/batch", "/apis/example.com/v1", "/openapi/v3"):
        found = discover(path)
        assert found is not None, path
        assert found.code == 200
        assert any(name == b"etag" for name, _ in found.headers), path
    assert discover("/healthz") is None


def test_built_in_groups_are_read_and_the_aggregator_ignores_the_method() -> None:
    assert refused(405, discover, "/apis/batch/v1", "POST")
    assert refused(405, discover, "/api", "DELETE")
    for path in ("/apis", "/apis/batch", "/apis/example.com/v1", "/openapi/v2"):
        assert discover(path, "POST") is not None, path


def test_discovery_is_also_yaml() -> None:
    found = discover("/apis/batch", accept="application/yaml")
    assert found is not None
    assert found.media == "application/yaml"
    assert found.body.startswith(b"apiVersion: v1\n") or b"kind: APIGroup\n" in found.body


def test_a_group_has_no_form_as_another_kind() -> None:
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    refused(406, discover, "/apis/batch/v1", "GET", table)
    listed = discover("/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    assert listed is not None
    assert json.loads(listed.body)["kind"] == "APIGroupDiscoveryList"
