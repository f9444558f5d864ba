"""Conversations about HTTP: methods, paths, media types, wrong bodies, options of a request, impersonation."""

from __future__ import annotations

from typing import Any

from tests.embedded.beside.conversation import APPLY, CORE, JSON, JSON_PATCH, MERGE, STRATEGIC, TABLE, YAML, Talk

Json = Any

_MAPS = f"{CORE}/configmaps"
_READ = (_MAPS, f"{_MAPS}/m", f"{_MAPS}/none", "/apis/batch/v1")
_PATHS = (
    *("/apis/batch", "/apis/batch/v1", "/apis/odd", "/apis/batch/v9", "/api/v2", "/odd"),
    *("/healthz", "/readyz", "/livez", "/livez/ping", "/healthz/odd"),
    *(f"{CORE}/odd", f"{CORE}/configmaps/", f"{CORE}/configmaps/a/b", f"{CORE}/configmaps/a/status", "/api/v1/pods/x"),
    *(f"{CORE}/pods/a/odd", f"{CORE}/pods/a/log", "/api/v1/watch/namespaces/default/configmaps/none?timeoutSeconds=1"),
    *(
        "/api/v1/namespaces/${ns}/namespaces",
        "/apis/apps/v1/deployments/x",
        "/api/v1/nodes/none/status",
        "/openapi/odd",
    ),
    *(
        "/api/v1/nodes?limit=x",
        f"{_MAPS}?labelSelector=a%20in",
        f"{_MAPS}?fieldSelector=x",
        f"{_MAPS}/none?pretty=true",
    ),
    *("/api/v1/namespaces/${ns}", "/api/v1/namespaces/none", "/api/v1/namespaces/none/pods", "/logs", "/metrics/odd"),
)
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "PROPFIND", "FROB")
_ACCEPTS = (
    *("application/json", "application/yaml", "text/html", "*/*", "application/*", "application/xml", "", "a;b;c"),
    *("application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=Odd;v=v1;g=meta.k8s.io", TABLE),
    *("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json;q=0.5,application/yaml"),
    *("application/json;as=Table;v=v9;g=meta.k8s.io", "application/json; charset=utf-8", "application/cbor-odd"),
    "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
)
_BODIES: tuple[tuple[Json, str], ...] = (
    ("", JSON),
    ("{", JSON),
    ("null", JSON),
    ("[]", JSON),
    ('"text"', JSON),
    ("7", JSON),
    ("{}", JSON),
    ('{"metadata":{"name":"d"},"metadata":{"name":"e"}}', JSON),
    ('{"metadata":{"name":"d"},"data":{"a":"1","a":"2"}}', JSON),
    ('{"metadata":{"name":"d"},"Data":{"a":"1"}}', JSON),
    ('{"metadata":{"name":"d"},"data":{"a":1}}', JSON),
    ('{"metadata":{"name":"d"},"data":["a"]}', JSON),
    ('{"metadata":{"name":7}}', JSON),
    ('{"metadata":[]}', JSON),
    ('{"kind":"Secret","metadata":{"name":"d"}}', JSON),
    ('{"kind":"ConfigMap","apiVersion":"v2","metadata":{"name":"d"}}', JSON),
    ('{"kind":"ConfigMap","apiVersion":"a/b/c","metadata":{"name":"d"}}', JSON),
    ('{"kind":"ConfigMapList","apiVersion":"v1","items":[]}', JSON),
    ('{"metadata":{"name":"d"}} trailing', JSON),
    ('{"metadata":{"name":"\\ud800"}}', JSON),
    ("metadata:\n  name: d\ndata:\n  a: b\n", YAML),
    ("metadata:\n  name: d\ndata:\n  a: yes\n", YAML),
    ("metadata: {name: d}\ndata: {a: 1.0}\n", YAML),
    ("a: [", YAML),
    ("- 1\n", YAML),
    ("a: 1\na: 2\n", YAML),
    ("kind: ConfigMap\nmetadata:\n  name: d\n  name: e\n", YAML),
    ("{}", "application/xml"),
    ("{}", "text/plain"),
    ("{}", "application/json; charset=latin1"),
    ("{}", ""),
    ("{}", "application/merge-patch+json"),
    ("k8s\0abc", "application/vnd.kubernetes.protobuf"),
    ("abc", "application/vnd.kubernetes.protobuf"),
    ("abc", "application/cbor"),
)
_OPTIONS = (
    *(
        "dryRun=All",
        "dryRun=Odd",
        "dryRun=",
        "dryRun=All&dryRun=All",
        "fieldManager=a%20b",
        f"fieldManager={'x' * 129}",
    ),
    *(
        "fieldValidation=Strict",
        "fieldValidation=Odd",
        "fieldManager=ü",
        "fieldManager=",
        "odd=1",
        "pretty=1",
        "force=true",
    ),
    *("force=x", "fieldValidation=Warn", "fieldManager=a%0Ab", "timeout=1s", "timeout=x", "dryRun=all"),
)
_IMPERSONATIONS: tuple[dict[str, str], ...] = (
    {"Impersonate-User": "ann"},
    {"Impersonate-User": "ann", "Impersonate-Group": "system:masters"},
    {"Impersonate-Group": "system:masters"},
    {"Impersonate-User": "system:serviceaccount:${ns}:robot"},
    {"Impersonate-User": "ann", "Impersonate-Extra-Scopes": "x"},
    {"Impersonate-User": "ann", "Impersonate-Uid": "u"},
    {"Impersonate-Uid": "u"},
    {"Impersonate-User": "system:anonymous"},
    {"Impersonate-User": ""},
    {"Authorization": "Bearer wrong"},
    {"Authorization": "Basic YTpi"},
    {"Authorization": ""},
    {"Authorization": "Bearer "},
)


def methods(talk: Talk) -> None:
    random = talk.random
    body = {"metadata": {"name": "m"}, "data": {"a": "b"}}
    talk.post(f"{_MAPS}?{random.choice(_OPTIONS)}", body)
    talk.post(_MAPS, body)
    steps = [
        lambda: talk.ask(random.choice(_METHODS), random.choice(_PATHS)),
        lambda: talk.get(random.choice(_PATHS)),
        lambda: talk.get(
            random.choice((_MAPS, f"{_MAPS}/m", f"{_MAPS}/none", "/apis/batch/v1")), random.choice(_ACCEPTS)
        ),
        lambda: talk.post(_MAPS, *random.choice(_BODIES)),
        lambda: talk.put(f"{_MAPS}/m", *random.choice(_BODIES)),
        lambda: talk.ask("PATCH", f"{_MAPS}/m", *random.choice(_BODIES)),
        lambda: talk.patch(
            f"{_MAPS}/m?{random.choice(_OPTIONS)}", {"data": {"c": "d"}}, random.choice((MERGE, STRATEGIC))
        ),
        lambda: talk.patch(f"{_MAPS}/m?{random.choice(_OPTIONS)}", "{}", random.choice((JSON_PATCH, APPLY))),
        lambda: talk.put(f"{_MAPS}/m?{random.choice(_OPTIONS)}", body),
        lambda: talk.delete(f"{_MAPS}/none?{random.choice(_OPTIONS)}"),
        lambda: talk.get(
            random.choice((_MAPS, f"{_MAPS}/m", "/api/v1/nodes")),
            headers=random.choice(_IMPERSONATIONS),
        ),
        lambda: talk.post(_MAPS, {"metadata": {"name": "i"}}, headers=random.choice(_IMPERSONATIONS)),
        lambda: talk.ask(random.choice(_METHODS), random.choice((_MAPS, f"{_MAPS}/m"))),
    ]
    for _ in range(random.choice((8, 10, 12, 14))):
        random.choice(steps)()
