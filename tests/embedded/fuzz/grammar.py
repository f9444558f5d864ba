"""Requests by a grammar: right ones with something wrong in them, drawn from a seed.

The paths are the server's own (its discovery), the objects are those of `objects`, with mutations of `values`. A
request that is wrong everywhere is refused at the door, so most are wrong in one place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from string import ascii_lowercase
from typing import Any
from urllib.parse import quote, urlencode

import yaml

from tests.embedded.fuzz.objects import drawn, sound
from tests.embedded.fuzz.values import KEYS, NAMES, NUMBERS, SELECTORS, TEXTS, deep, mutate, nasty, places

Json = Any

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
_ACCEPTS = (
    *(JSON, YAML, PROTOBUF, "*/*", "", "text/html", "application/json;as=Table;v=v1;g=meta.k8s.io", "a;b;c,,;q=x"),
    *("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/json;as=Nope", "*/*;q=nan"),
)
_QUERY = (
    *("dryRun", "fieldManager", "fieldValidation", "force", "limit", "continue", "resourceVersion", "labelSelector"),
    *("fieldSelector", "resourceVersionMatch", "timeoutSeconds", "gracePeriodSeconds", "propagationPolicy", "pretty"),
    *("orphanDependents", "allowWatchBookmarks", "sendInitialEvents", "container", "tailLines", "sinceSeconds", "x"),
)
_QUERY_VALUES = (
    "All",
    "true",
    "false",
    "0",
    "1",
    "Strict",
    "Ignore",
    "Exact",
    "NotOlderThan",
    "Background",
    "Foreground",
)
_METHODS = {"GET": 3.0, "POST": 6.0, "PUT": 3.0, "PATCH": 6.0, "DELETE": 2.0, "HEAD": 0.2, "OPTIONS": 0.2}
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PUBLIC = (
    "/",
    "/api",
    "/apis",
    "/version",
    "/healthz",
    "/readyz",
    "/openapi/v2",
    "/openapi/v3",
    "/api/v1",
    "/apis/batch",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource of the server's discovery: below `root`, bodies of that version and kind. `schema` is the name of its
    definition, "" where it has none."""

    root: str
    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: tuple[str, ...]
    schema: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, method: str, path: str, value: Json) -> Asked:
        headers = {"Content-Type": JSON, "Accept": JSON}
        return cls(method=method, path=path, body=json.dumps(value).encode(), headers=headers)


class Grammar:
    """Draws requests. `namespaces`: the user's own first, then others."""

    def __init__(self, random: Random, resources: list[Resource], namespaces: tuple[str, ...]) -> None:
        self._random, self._resources, self._namespaces = random, resources, namespaces
        self._weights = [20 if one.namespaced else 1 for one in resources]

    def request(self) -> Asked:
        random = self._random
        if random.random() < 0.03:
            return Asked(method=random.choice(("GET", "POST", "PUT", "X")), path=random.choice(_PUBLIC))
        resource = random.choices(self._resources, weights=self._weights)[0]
        method = self._method(resource)
        plural, _, sub = resource.plural.partition("/")
        name = random.choices((*NAMES, random.choice(TEXTS)), weights=(*(9, 9, 9), *(1 for _ in NAMES[3:]), 2))[0]
        namespace = random.choices(self._namespaces, weights=(30, *(1 for _ in self._namespaces[1:])))[0]
        if random.random() < 0.05:  # of any length, and never twice
            namespace = self._word()
        path = f"{resource.root}/namespaces/{quote(namespace)}" if resource.namespaced else resource.root
        path += f"/{plural}"
        if sub or method in ("PUT", "PATCH") or (method in ("GET", "DELETE") and random.random() < 0.5):
            path += f"/{quote(name)}"
        path += f"/{sub}" if sub else ""
        if random.random() < 0.02:
            path = self._broken(path)
        media, body = self._body(resource, method, name, namespace)
        headers = {"Content-Type": media} if media else {}
        headers["Accept"] = random.choice(_ACCEPTS) if random.random() < 0.2 else JSON
        if random.random() < 0.02:
            headers["Impersonate-User"] = self._word()
            headers["Impersonate-Group"] = random.choice(("system:masters", self._word()))
        return Asked(method=method, path=path + self._query(method, media), body=body, headers=headers)

    def _word(self) -> str:
        return "".join(self._random.choices(ascii_lowercase, k=self._random.choice((8, 63, 4000))))

    def _method(self, resource: Resource) -> str:
        """One that the resource has, mostly."""
        known = [one for one in _METHODS if _VERBS.get(one) in resource.verbs] if self._random.random() < 0.97 else None
        names = known or list(_METHODS)
        return self._random.choices(names, weights=[_METHODS[one] for one in names])[0]

    # --- the path ------------------------------------------------------------------------------------------------

    def _broken(self, path: str) -> str:
        parts = path.split("/")
        at = self._random.randrange(len(parts))
        parts[at : at + self._random.randrange(2)] = [
            quote(self._random.choice(TEXTS), safe=self._random.choice(("", "%/")))
        ]
        return "/" + "/".join(parts).lstrip("/")

    def _query(self, method: str, media: str) -> str:
        random = self._random
        pairs: list[tuple[str, str]] = []
        if media == APPLY and random.random() < 0.9:
            pairs.append(("fieldManager", random.choice(("fuzz", "other"))))
        for _ in range(random.choice((0, 0, 0, 1, 2))):
            name = random.choice(_QUERY)
            values: tuple[Any, ...] = SELECTORS if name.endswith("Selector") else _QUERY_VALUES
            if random.random() < 0.3:
                values = random.choice((TEXTS, NUMBERS, NAMES))
            pairs.append((name, str(random.choice(values))))
        if method == "GET" and random.random() < 0.05:
            pairs += [("watch", "true"), ("timeoutSeconds", "0")]
        text = urlencode(pairs)
        if random.random() < 0.01:
            text += random.choice(("&&=&", "%", "%zz", "&a", "\xff", "=" * 50))
        return f"?{text}" if text else ""

    # --- the body ------------------------------------------------------------------------------------------------

    def _body(self, resource: Resource, method: str, name: str, namespace: str) -> tuple[str, bytes]:
        random = self._random
        if method in ("GET", "HEAD", "OPTIONS") and random.random() < 0.95:
            return "", b""
        if method == "PATCH":
            return self._patch(resource, name, namespace)
        if method == "DELETE":
            if random.random() < 0.4:
                return "", b""
            return self._encoded(self._wrong(sound("DeleteOptions", "v1", name, ""), 0.7))
        return self._encoded(self._wrong(self._object(resource, name, namespace), 0.6))

    def _object(self, resource: Resource, name: str, namespace: str) -> Json:
        random = self._random
        if resource.schema and random.random() < 0.15:
            return drawn(random, resource.schema, resource.api_version, resource.kind)
        return sound(resource.kind, resource.api_version, name, namespace if resource.namespaced else "")

    def _wrong(self, value: Json, part: float) -> Json:
        if self._random.random() < 0.01:
            return nasty(self._random)
        while self._random.random() < part:
            value = mutate(self._random, value)
            part *= 0.6
        return value

    def _encoded(self, value: Json) -> tuple[str, bytes]:
        random = self._random
        media = random.choices((JSON, YAML, PROTOBUF, "text/plain", ""), weights=(80, 12, 1, 1, 2))[0]
        if media == YAML:
            return media, self._damaged(yaml.safe_dump(value, allow_unicode=random.random() < 0.5).encode())
        raw = json.dumps(value, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
        return media, self._damaged(b"k8s\x00" + raw if media == PROTOBUF else raw)

    def _damaged(self, raw: bytes) -> bytes:
        """Seldom something happens to the bytes themselves."""
        random = self._random
        if random.random() > 0.04 or not raw:
            return raw
        at, end = sorted((random.randrange(len(raw)), random.randrange(len(raw))))
        match random.randrange(5):
            case 0:
                return raw[:at]
            case 1:
                return raw[:at] + bytes((random.randrange(256),)) + raw[at + 1 :]
            case 2:
                return raw[:at] + raw[end:]
            case 3:
                return raw[:at] + random.choice((b"{" * 500, b"[" * 20_000, b'"', b"\\ud800", b"&a [*a]", b"1e999"))
        return raw + raw

    # --- patches -------------------------------------------------------------------------------------------------

    def _patch(self, resource: Resource, name: str, namespace: str) -> tuple[str, bytes]:
        random = self._random
        media = random.choices((MERGE, STRATEGIC, JSON_PATCH, APPLY, JSON), weights=(6, 8, 6, 8, 0.3))[0]
        whole = self._object(resource, name, namespace)
        if media == JSON_PATCH:
            value: Json = self._wrong([self._operation(whole) for _ in range(random.randrange(1, 4))], 0.3)
        elif media == APPLY:
            value = self._wrong(whole, 0.7)
        else:
            value = self._wrong(self._part(whole), 0.7)
            if media == STRATEGIC:
                self._directives(value)
        raw = json.dumps(value).encode("utf-8", "surrogatepass")
        if media == APPLY and random.random() < 0.3:
            raw = yaml.safe_dump(value).encode()
        return media, self._damaged(raw)

    def _operation(self, whole: Json) -> Json:
        random = self._random
        paths = ["/" + "/".join(str(key).replace("~", "~0").replace("/", "~1") for key in one) for one in places(whole)]
        odd = (
            "",
            "/",
            "/-",
            "/spec/-",
            "/metadata/labels/x",
            "/spec/containers/99",
            "/a/b/c",
            "x",
            "/~2",
            "/spec/containers/-1",
        )
        path = random.choice(paths) if random.random() < 0.8 else random.choice(odd)
        found = {"op": random.choice(("add", "remove", "replace", "move", "copy", "test", "nope")), "path": path}
        if found["op"] in ("move", "copy"):
            found["from"] = random.choice((*paths[:20], *odd))
        return {**found, "value": nasty(random)}

    def _part(self, whole: Json) -> Json:
        """Some of its fields."""
        keys = [key for key in whole if key not in ("kind", "apiVersion")]
        return {key: whole[key] for key in keys if self._random.random() < 0.7}

    def _directives(self, value: Json) -> None:
        random = self._random
        held = [value, *(self._at(value, path) for path in places(value))] if isinstance(value, dict) else []
        holders = [one for one in held if isinstance(one, dict)]
        if not holders or random.random() < 0.5:
            return
        key = random.choice(
            ("$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers")
        )
        usual = random.choice(("delete", "replace", "merge", ["a"], [{"name": "c"}]))
        random.choice(holders)[key] = usual if random.random() < 0.6 else nasty(random)

    def _at(self, value: Json, path: tuple[Any, ...]) -> Json:
        for key in path:
            value = value[key]
        return value


__all__ = ["KEYS", "Asked", "Grammar", "Resource", "deep"]
