"""`endpoints/paths/public.py`: the paths of version, health, discovery and OpenAPI."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.endpoints.paths.public import VERSION, Public
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.registry.routing import Registry
from phalanx.embedded.apiserver.transport.negotiation import accepted
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response, parse_query

PUBLIC = Public(Registry([*RESOURCES]))


def ask(path: str, method: str = "GET", accept: str = "") -> Response:
    path, _, query = path.partition("?")
    return PUBLIC.answer(
        HttpRequest(
            method=method, path=path, query=parse_query(query.encode()), user=User(name="u"), accept=accepted(accept)
        )
    )


def refusal(path: str, method: str = "GET", accept: str = "") -> int:
    with pytest.raises(StatusError) as raised:
        ask(path, method, accept)
    return raised.value.code


def value(path: str) -> Any:
    return json.loads(ask(path).body)


def test_the_version_is_that_of_the_api_and_names_phalanx() -> None:
    found = value("/version")
    assert found == value("/version/") == VERSION
    assert (found["major"], found["minor"]) == ("1", "36")
    assert found["gitVersion"].startswith("v1.36.")
    assert found["gitVersion"].endswith("+phalanx")


def test_the_version_is_json_and_is_only_read() -> None:
    assert refusal("/version", "POST") == 405
    assert refusal("/version", accept="application/yaml") == 406
    assert ask("/version", accept="application/yaml,application/json").code == 200


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/livez/etcd", "/readyz/shutdown", "/healthz/ping"])
def test_a_server_that_answers_is_healthy(path: str) -> None:
    response = ask(path)
    assert (response.code, response.body) == (200, b"ok")
    assert response.media.startswith("text/plain")


@pytest.mark.parametrize("path", ["/livez/shutdown", "/healthz/informer-sync", "/readyz/nothing", "/healthz/"])
def test_a_check_that_does_not_exist_is_not_found(path: str) -> None:
    assert ask(path).code == 404


def test_verbose_health_lists_each_check() -> None:
    """As documented on the page "Kubernetes API health endpoints"."""
    assert ask("/livez?verbose").body.decode() == "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n"
    ready = ask("/readyz?verbose=false").body.decode()
    assert ready.splitlines()[-2:] == ["[+]shutdown ok", "readyz check passed"], "the presence of the parameter counts"


def test_checks_can_be_excluded() -> None:
    assert ask("/livez?exclude=etcd").body == b"ok"
    lines = ask("/livez?verbose&exclude=etcd&exclude=log").body.decode().splitlines()
    assert lines == ["[+]ping ok", "[+]log excluded: ok", "[+]etcd excluded: ok", "livez check passed"]
    lines = ask("/livez?verbose&exclude=b&exclude=a").body.decode().splitlines()
    assert lines[-2:] == [
        'warn: some health checks cannot be excluded: no matches for "a","b"',
        "livez check passed",
    ]


def test_the_root_lists_every_path_once_and_sorted() -> None:
    paths = value("/")["paths"]
    assert paths == sorted(set(paths))
    for wanted in (
        "/api",
        "/api/v1",
        "/apis",
        "/apis/batch",
        "/apis/batch/v1",
        "/readyz/etcd",
        "/version",
        "/openapi/v3",
    ):
        assert wanted in paths
    assert not any(path.startswith("/apis//") for path in paths), "the core group has no path below /apis"


def test_discovery_answers_below_api_apis_and_openapi() -> None:
    assert value("/api")["versions"] == ["v1"]
    assert value("/apis/batch")["kind"] == "APIGroup"
    assert "jobs" in [one["name"] for one in value("/apis/batch/v1")["resources"]]
    assert refusal("/api", "POST") == 405


def test_a_path_of_a_built_in_group_that_does_not_exist_is_refused_with_a_status() -> None:
    assert refusal("/api/v2") == 404
    assert refusal("/apis/batch/v9") == 404


@pytest.mark.parametrize("path", ["/nothing", "/apis/none.example.com/v1", "/metrics/x"])
def test_any_other_path_is_not_found_in_plain_text(path: str) -> None:
    response = ask(path)
    assert (response.code, response.body) == (404, b"404 page not found\n")


def test_a_missing_openapi_document_has_no_body() -> None:
    response = ask("/openapi/v3/apis/none.example.com/v1")
    assert (response.code, response.body) == (404, b"")
