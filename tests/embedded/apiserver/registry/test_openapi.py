"""OpenAPI documents of all that is served, as kubectl reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.registry.discovery import Catalogue, CatalogueDocument
from phalanx.embedded.apiserver.registry.routing import Registry
from phalanx.embedded.apiserver.transport.negotiation import accepted
from tests.embedded.apiserver.registry.test_discovery_catalogue import QUEUES


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


def test_the_index_leads_to_the_documents(catalogue: Catalogue) -> None:
    for path, entry in value(catalogue, "/openapi/v3")["paths"].items():
        assert entry["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")
        assert value(catalogue, f"/openapi/v3/{path}")["openapi"] == "3.0.0"


def schemas(catalogue: Catalogue, path: str) -> dict[str, Any]:
    found: dict[str, Any] = value(catalogue, f"/openapi/v3/{path}")["components"]["schemas"]
    return found


def test_a_schema_is_openapi_and_not_json_schema(catalogue: Catalogue) -> None:
    found = schemas(catalogue, "apis/batch/v1")
    job, spec = found["io.k8s.api.batch.v1.Job"], found["io.k8s.api.batch.v1.JobSpec"]
    assert job["type"] == "object"
    assert job["x-kubernetes-group-version-kind"] == [{"group": "batch", "kind": "Job", "version": "v1"}]
    assert "enum" not in job["properties"]["kind"]
    assert spec["required"] == ["template"]
    assert (spec["properties"]["backoffLimit"]["type"], spec["properties"]["backoffLimit"]["format"]) == (
        "integer",
        "int32",
    )
    assert spec["properties"]["template"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"}
    ]


def references(found: Any) -> set[str]:
    if isinstance(found, dict):
        own = {found["$ref"]} if isinstance(found.get("$ref"), str) else set()
        return own.union(*map(references, found.values()))
    return set().union(*map(references, found)) if isinstance(found, list) else set()


@pytest.mark.parametrize("path", ["api/v1", "apis/apiextensions.k8s.io/v1", "apis/phalanx.dev/v1"])
def test_a_document_has_everything_that_it_refers_to(catalogue: Catalogue, path: str) -> None:
    document = value(catalogue, f"/openapi/v3/{path}")
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= known


@pytest.mark.parametrize(
    ("document", "path", "group"),
    [
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}", ""),
        ("apis/phalanx.dev/v1", "/apis/phalanx.dev/v1/queues/{name}", "phalanx.dev"),
    ],
)
def test_kubectl_sees_that_the_server_validates(catalogue: Catalogue, document: str, path: str, group: str) -> None:
    patch = value(catalogue, f"/openapi/v3/{document}")["paths"][path]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["group"] == group
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}


def test_a_custom_resource_is_explained_by_its_schema(catalogue: Catalogue) -> None:
    queue = schemas(catalogue, "apis/phalanx.dev/v1")["dev.phalanx.v1.Queue"]
    assert queue["properties"]["spec"]["description"] == "What is wanted."
    assert queue["x-kubernetes-group-version-kind"] == [{"group": "phalanx.dev", "version": "v1", "kind": "Queue"}]
    assert {"apiVersion", "kind", "metadata"} <= set(queue["properties"])
