"""Refusals with the real server's messages: broken bodies, wrong kinds, selectors, versions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta import selectors
from phalanx.embedded.apiserver.transport.go_json import duplicates, syntax_error
from tests.embedded.apiserver.process import ServerProcess

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "unexpected end of JSON input"),
        ('{"a":', "unexpected end of JSON input"),
        ("{a}", "invalid character 'a' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 2}', "invalid character '2' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("tru3", "invalid character '3' in literal true (expecting 'e')"),
        ('"a\nb"', "invalid character '\\n' in string literal"),
        ("hello", "invalid character 'h' looking for beginning of value"),
        ('{"a": [1, -2.5e3, "x\\u00e9", null]}', ""),
    ],
)
def test_syntax_errors_as_go_words_them(text: str, error: str) -> None:
    assert syntax_error(text.encode()) == error


def test_fields_that_stand_twice_are_found_by_their_path() -> None:
    text = b'{"data":{"k":"1","k":"2"},"list":[{"a":1,"a":2}]}'
    assert duplicates(text, json.loads(text)) == ["data.k", "list[0].a"]
    assert duplicates(b'{"a":"x\\":y"}', {"a": 'x":y'}) == []


@pytest.mark.parametrize(
    ("selector", "matching"),
    [
        ("tier", {"front", "back"}),
        ("!tier", {"none"}),
        ("tier=front", {"front"}),
        ("tier!=front", {"back", "none"}),
        ("tier in (front, back)", {"front", "back"}),
        ("tier notin (front)", {"back", "none"}),
        ("size>2", {"back"}),
        ("tier,size<2", {"front"}),
    ],
)
def test_label_selectors(selector: str, matching: set[str]) -> None:
    things = {"front": {"tier": "front", "size": "1"}, "back": {"tier": "back", "size": "3"}, "none": {"size": "x"}}
    test = selectors.labels(selector)
    assert test is not None
    assert {name for name, labels in things.items() if test(labels)} == matching


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        ('{"kind":', 'couldn\'t get version/kind; json parse error: unexpected end of JSON input ({"kind":)'),
    ],
)
def test_a_broken_body_is_shown(api_server: ServerProcess, body: str, message: str) -> None:
    answer = api_server.ask("POST", MAPS, body)
    assert answer.code == 400
    assert answer.body["message"] == f"the object provided is unrecognized (must be of type ConfigMap): {message}"


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            {"apiVersion": "v1", "kind": "Secret"},
            'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): '
            "unknown conversion",
        ),
        (
            {"apiVersion": "v1", "kind": "Secrete"},
            'Secrete in version "v1" cannot be handled as a ConfigMap: no kind "Secrete" is registered for version '
            '"v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
    ],
)
def test_another_kind_is_named(api_server: ServerProcess, obj: Any, message: str) -> None:
    answer = api_server.ask("POST", MAPS, obj)
    assert (answer.code, answer.body["message"]) == (400, message)


def test_a_field_that_stands_twice_is_a_warning_or_an_error(api_server: ServerProcess) -> None:
    body = '{"metadata":{"name":"twice"},"data":{"k":"1","k":"2"}}'
    warned = api_server.ask("POST", MAPS + "?dryRun=All", body)
    assert warned.code == 201
    assert warned.headers["warning"] == '299 - "duplicate field \\"data.k\\""'
    refused = api_server.ask("POST", MAPS + "?dryRun=All&fieldValidation=Strict", body)
    assert refused.code == 400
    assert refused.body["message"].endswith('strict decoding error: duplicate field "data.k"')


def test_a_patch_that_makes_no_such_object_is_invalid(api_server: ServerProcess) -> None:
    api_server.ask("POST", MAPS, {"metadata": {"name": "patched"}})
    merge = {"media": "application/merge-patch+json"}
    wrong = api_server.ask("PATCH", f"{MAPS}/patched", {"data": {"k": 1}}, **merge)
    strict = api_server.ask("PATCH", f"{MAPS}/patched?fieldValidation=Strict", {"odd": 1}, **merge)
    assert (wrong.code, strict.code) == (422, 422)
    assert wrong.body["details"]["causes"][0]["field"] == "patch"
    assert wrong.body["message"].endswith(
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    )
    assert strict.body["message"].endswith('strict decoding error: unknown field "odd"')


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"name": "other"}, "the name of the object (other) does not match the name on the URL (named)"),
        (
            {"name": None},
            "the name of the object (named based on URL) was undeterminable: name must be provided",
        ),
        (
            {"name": "named", "namespace": "other"},
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
def test_the_name_in_the_body_is_that_of_the_path(
    api_server: ServerProcess, method: str, meta: Any, message: str
) -> None:
    api_server.ask("POST", MAPS, {"metadata": {"name": "named"}})
    media = {"media": "application/merge-patch+json"} if method == "PATCH" else {}
    answer = api_server.ask(method, f"{MAPS}/named", {"metadata": meta}, **media)
    assert (answer.code, answer.body["message"]) == (400, message)


def test_an_owner_that_stands_twice_is_dropped_with_a_warning(api_server: ServerProcess) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    made = api_server.ask("POST", MAPS + "?dryRun=All", {"metadata": {"name": "o", "ownerReferences": [owner, owner]}})
    assert made.body["metadata"]["ownerReferences"] == [owner]
    assert made.headers["warning"].endswith('please fix your requests; duplicate UID(s) observed: u"')


def test_a_namespace_in_a_cluster_wide_object_is_dropped(api_server: ServerProcess) -> None:
    made = api_server.ask("POST", "/api/v1/namespaces?dryRun=All", {"metadata": {"name": "n", "namespace": "x"}})
    assert (made.code, "namespace" in made.body["metadata"]) == (201, False)


CORE, ACCESS = "/api/v1/namespaces/default", "/apis/authorization.k8s.io/v1"

PODS_ASKED = {"verb": "get", "resource": "pods"}

BOTH = {"resourceAttributes": PODS_ASKED, "nonResourceAttributes": {"path": "/x", "verb": "get"}}

NOBODYS = {"resourceAttributes": PODS_ASKED}

DOCKER = {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}}

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"


@pytest.mark.parametrize(
    ("path", "obj", "said"),
    [
        (f"{ACCESS}/selfsubjectaccessreviews", {"spec": BOTH}, "cannot be specified in combination with"),
        (f"{ACCESS}/subjectaccessreviews", {"spec": NOBODYS}, "at least one of user or group"),
        (
            f"{ACCESS}/namespaces/default/localsubjectaccessreviews",
            {"spec": {"user": "x", "resourceAttributes": PODS_ASKED | {"namespace": "other"}}},
            "must match metadata.namespace",
        ),
        (TOKENS, {"spec": {"token": ""}}, "token is required for TokenReview in authentication"),
        (
            f"{CORE}/resourcequotas",
            {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}},
            "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes",
        ),
        (
            f"{CORE}/secrets",
            {"metadata": {"name": "s"}, **DOCKER},
            "invalid character 'x' looking for beginning of value",
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            {
                "metadata": {"name": "Foos.e.x"},
                "spec": {
                    "group": "e.x", "scope": "Namespaced", "names": {"plural": "Foos", "kind": "Foo"},
                    "conversion": {"strategy": "Webhook"}, "versions": [],
                },
            },
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        ),
    ],
)  # fmt: skip
def test_an_object_that_contradicts_itself_is_refused(
    api_server: ServerProcess, path: str, obj: Any, said: str
) -> None:
    answer = api_server.ask("POST", path, obj)
    assert (answer.code in (400, 422), said in answer.body["message"]) == (True, True), answer.body


def test_an_address_of_a_service_stays_also_where_the_old_field_is_written(api_server: ServerProcess) -> None:
    spec = {"ports": [{"port": 80}]}
    assert api_server.ask("POST", f"{CORE}/services", {"metadata": {"name": "fixed"}, "spec": spec}).code == 201
    change = {"spec": {"clusterIP": "10.96.77.77"}}
    answer = api_server.ask("PATCH", f"{CORE}/services/fixed", change, media="application/merge-patch+json")
    said = 'spec.clusterIPs[0]: Invalid value: ["10.96.77.77"]: may not change once set'
    assert (answer.code, said in answer.body["message"]) == (422, True), answer.body


def test_an_apply_does_not_create_what_has_an_identity(api_server: ServerProcess) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "uid": "5"}}
    answer = api_server.ask("PATCH", f"{MAPS}/late?fieldManager=x", obj, media="application/apply-patch+yaml")
    assert (answer.code, "uid mismatch: the provided object specified uid 5" in answer.body["message"]) == (409, True)
