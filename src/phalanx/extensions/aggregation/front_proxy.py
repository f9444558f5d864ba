"""Read the user of a forwarded request. An API server forwards it with the front proxy's certificate and puts the user
into headers.

The ConfigMap kube-system/extension-apiserver-authentication names the certificate authority, the allowed common names
and the headers. Every request is refused until the settings are known.

Source: k8s.io/apiserver/pkg/authentication/request/headerrequest and pkg/server/options/authentication.go of 1.36.

Authorize requests: ask the API server with a SubjectAccessReview, as every aggregated API server does.

A verdict, positive or negative, is cached for ten seconds, as in the API server's own library. So a newly granted right
takes effect within ten seconds, and a client that polls does not double the API server's work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from phalanx.client.connection import Connection
from phalanx.client.kind import Kind

NAMESPACE: Final = "kube-system"
CONFIG_MAP: Final = "extension-apiserver-authentication"
_PREFIX = "requestheader-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """The user of a forwarded request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxy:
    """The front proxy's settings in a cluster. `authority`: certificates in PEM. `names`: the allowed common names of
    the front proxy's certificate; empty: every name is allowed. The other fields are header names in lower case."""

    authority: str
    names: frozenset[str]
    user: tuple[str, ...]
    uid: tuple[str, ...]
    group: tuple[str, ...]
    extra_prefixes: tuple[str, ...]

    def asker(self, common_name: str, headers: Iterable[tuple[str, str]]) -> Asker | None:
        """Return the user in the headers; None if the certificate's common name is not allowed, or no user is named."""
        if self.names and common_name not in self.names:
            return None
        said: dict[str, list[str]] = {}
        for name, value in headers:
            said.setdefault(name.lower(), []).append(value)
        name = _first(said, self.user)
        if not name:
            return None
        groups = tuple(value for header in self.group for value in said.get(header, ()))
        return Asker(name=name, uid=_first(said, self.uid), groups=groups, extra=tuple(self._extra(said)))

    def _extra(self, said: Mapping[str, list[str]]) -> Iterable[tuple[str, tuple[str, ...]]]:
        for name, values in said.items():
            prefix = next((one for one in self.extra_prefixes if name.startswith(one)), None)
            if prefix is not None:
                yield unquote(name.removeprefix(prefix)), tuple(values)


def read_front_proxy(data: Mapping[str, str]) -> FrontProxy:
    """Return the settings in the ConfigMap's data. Raises ValueError with the reason if they are invalid."""
    authority = data.get(f"{_PREFIX}client-ca-file") or ""
    if not authority:
        raise ValueError(
            f"{_PREFIX}client-ca-file is not there: the API server is started without an authority of the front proxy "
            "(--requestheader-client-ca-file), so no API can be aggregated"
        )
    user = _listed(data, "username-headers")
    if not user:
        raise ValueError(f"{_PREFIX}username-headers names no header: the API server says for nobody that he asks")
    return FrontProxy(
        authority=authority,
        names=frozenset(_listed(data, "allowed-names")),
        user=tuple(one.lower() for one in user),
        uid=tuple(one.lower() for one in _listed(data, "uid-headers")),
        group=tuple(one.lower() for one in _listed(data, "group-headers")),
        extra_prefixes=tuple(one.lower() for one in _listed(data, "extra-headers-prefix")),
    )


def _listed(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return a list of names that the ConfigMap has as JSON; empty if the key is absent."""
    text = data.get(f"{_PREFIX}{key}") or "[]"
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{_PREFIX}{key} is no list of names: {text[:80]}")
    return tuple(found)


def _first(said: Mapping[str, list[str]], headers: Iterable[str]) -> str:
    return next((value for header in headers for value in said.get(header, ()) if value), "")


REVIEWS: Final = Kind(
    group="authorization.k8s.io", plural="subjectaccessreviews", name="SubjectAccessReview", namespaced=False
)
COUNTS_S, KEPT = 10.0, 1000
Verdict = tuple[bool, str]  # allowed; the reason, as the authorizer wrote it


class Access:
    """The API server's verdicts, with a cache. `clock_s`: returns the seconds of a monotonic clock."""

    def __init__(self, api: Connection, clock_s: Callable[[], float]) -> None:
        self._api, self._clock_s = api, clock_s
        self._known: dict[tuple[Asker, str, str], tuple[float, Verdict]] = {}

    async def verdict(self, asker: Asker, resource: dict[str, str] | None, path: str) -> Verdict:
        """Return whether the user may get the resource, or the path if `resource` is None. Raises ApiError."""
        key = (asker, path, "" if resource is None else "resource")
        known = self._known.get(key)
        if known is not None and known[0] > self._clock_s():
            return known[1]
        asked: dict[str, Any] = {"resourceAttributes": {"verb": "get", **resource}} if resource is not None else {}
        asked = asked or {"nonResourceAttributes": {"verb": "get", "path": path}}
        spec = {**asked, "user": asker.name, "groups": list(asker.groups)}
        if asker.uid:
            spec["uid"] = asker.uid
        if asker.extra:
            spec["extra"] = {name: list(values) for name, values in asker.extra}
        body = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.name, "metadata": {}, "spec": spec}
        said = (await self._api.create(REVIEWS, body)).get("status") or {}
        found = (bool(said.get("allowed")) and not said.get("denied"), str(said.get("reason") or ""))
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[key] = (self._clock_s() + COUNTS_S, found)
        return found
