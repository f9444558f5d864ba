"""`endpoints/parts`: kinds that the server does not serve, and the discovery documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.endpoints.parts.discovery import Discovery
from phalanx.embedded.apiserver.endpoints.parts.known_kinds import empty_object, is_known_kind
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.registry.routing import Registry
from phalanx.embedded.apiserver.transport.negotiation import accepted
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response
from tests.embedded.apiserver.registry.kinds.writes import resource

WIDGETS = Resource(group="example.com", version="v1", kind="Widget", plural="widgets", namespaced=True, custom=True)


def refused(code: int, call: Any, *about: Any) -> str:
    with pytest.raises(StatusError) as raised:
        call(*about)
    assert raised.value.code == code
    return raised.value.message


def test_kinds_of_kubernetes_are_known_even_if_they_are_not_served() -> None:
    assert is_known_kind("batch", "v1", "Job")
    assert is_known_kind("", "v1", "PodTemplate")
    assert is_known_kind("any.example.com", "v9", "Status"), "every group version has a Status"
    assert not is_known_kind("batch", "v1", "Jab")
    assert not is_known_kind("batch", "v9", "Job")
    assert not is_known_kind("example.com", "v1", "Job")


def test_an_empty_object_has_the_structs_that_go_never_omits() -> None:
    job = empty_object(resource("jobs", "batch"))
    assert (job["kind"], job["apiVersion"], job["metadata"], job["status"]) == ("Job", "batch/v1", {}, {})
    assert "template" in job["spec"]
    assert empty_object(WIDGETS) == {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {}}


def discover(path: str, method: str = "GET", accept: str = "") -> Response | None:
    asked = HttpRequest(method=method, path=path, query={}, user=User(name="u"), accept=accepted(accept))
    return Discovery(Registry([*RESOURCES, WIDGETS])).answer(asked, path)


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
