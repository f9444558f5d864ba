"""The documents about the API as clients fetch them: forms, OpenAPI, and when they are made anew."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.registry.discovery import Catalogue, CatalogueDocument
from phalanx.embedded.apiserver.registry.routing import Registry
from phalanx.embedded.apiserver.transport.negotiation import accepted

KUBECTL_1_32 = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)

KUBECTL_1_37 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

OLDER = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"

QUEUES = Resource(
    group="phalanx.dev",
    version="v1",
    kind="Queue",
    plural="queues",
    singular="queue",
    namespaced=False,
    custom=True,
    schema={"type": "object", "properties": {"spec": {"type": "object", "description": "What is wanted."}}},
)


@pytest.fixture
def registry() -> Registry:
    return Registry([*RESOURCES, QUEUES])


@pytest.fixture
def catalogue(registry: Registry) -> Catalogue:
    return Catalogue(registry)


def fetch(catalogue: Catalogue, path: str, accept: str = "") -> CatalogueDocument:
    found = catalogue.answer(path, accepted(accept))
    assert found is not None, path
    return found


def value(catalogue: Catalogue, path: str, accept: str = "") -> Any:
    return json.loads(fetch(catalogue, path, accept).body)


@pytest.mark.parametrize(
    ("accept", "kind", "version"),
    [
        (KUBECTL_1_32, "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"),
        (KUBECTL_1_37, "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"),
        (OLDER, "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2beta1"),
        ("application/json", "APIGroupList", "v1"),
        ("*/*", "APIGroupList", "v1"),
        ("", "APIGroupList", "v1"),
    ],
)
def test_each_client_gets_the_form_it_asks_for(catalogue: Catalogue, accept: str, kind: str, version: str) -> None:
    document = value(catalogue, "/apis", accept)
    assert (document["kind"], document["apiVersion"]) == (kind, version)


def test_the_media_type_names_the_aggregated_form(catalogue: Catalogue) -> None:
    media = fetch(catalogue, "/api", KUBECTL_1_32).media
    assert media == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    "path", ["/apis/none", "/apis/batch/v9", "/openapi/v3/apis/batch/v7", "/openapi/v1", "/nothing", "/api/v2"]
)
def test_what_is_not_served_has_no_document(catalogue: Catalogue, path: str) -> None:
    assert catalogue.answer(path) is None


def test_version_2_describes_nothing(catalogue: Catalogue) -> None:
    assert value(catalogue, "/openapi/v2")["paths"] == {}
    found = catalogue.answer("/openapi/v2", ())  # neither JSON nor YAML
    assert found is not None
    assert found.media == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    assert found.body == b"\n\x032.0\x12\x15\n\nKubernetes\x12\x07v1.36.0"


def test_documents_change_with_what_is_served(catalogue: Catalogue, registry: Registry) -> None:
    before = fetch(catalogue, "/openapi/v3")
    assert fetch(catalogue, "/openapi/v3") is before
    registry.replace([*RESOURCES, replace(QUEUES, schema={"type": "object"})])
    after = fetch(catalogue, "/openapi/v3")
    assert after.etag != before.etag
    paths = [json.loads(document.body)["paths"] for document in (before, after)]
    changed = {path for path in paths[0] if paths[0][path] != paths[1][path]}
    assert changed == {"apis/phalanx.dev/v1"}
