"""Serve an aggregated API. Kubernetes API servers forward requests to this server, and name the user of a request in
headers.

The first part reads the user of a forwarded request. The API server sends the request with a client certificate, the
certificate of the *front proxy*, and names the user in headers. The ConfigMap
kube-system/extension-apiserver-authentication has the certificate authority, the allowed common names and the names of
the headers. Every request is refused until these settings are known.

The second part authorizes requests. It asks the API server with a SubjectAccessReview, as every aggregated API server
does. A verdict, positive or negative, is cached for ten seconds, as in the API server's own library. So a newly granted
right takes effect within ten seconds, and a client that polls does not cause a SubjectAccessReview with each request.

The third part keeps the front proxy's settings up to date by reading the ConfigMap every `PAUSE_S` seconds. If a read
fails or the ConfigMap is invalid, the last valid settings stay in use, so that no client is locked out.

The fourth part is the HTTPS port. The port serves API discovery, and the objects that a *view* (a function) computes.
The TLS handshake requires a certificate of the front proxy's authority, so other clients cannot connect. The server
certificate and the authority may change while the port is open. Every handshake uses the current ones, and TLS sessions
are never resumed. Each request is authenticated and authorized before the view computes the response.

Source: k8s.io/apiserver/pkg/authentication/request/headerrequest and pkg/server/options/authentication.go of 1.36.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aiohttp import web

from phalanx.client.connection import ApiError, Connection
from phalanx.client.kind import CONFIG_MAPS, Kind
from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.status import StatusError, forbidden
from phalanx.embedded.apiserver.auth.authority import Pair
from phalanx.embedded.apiserver.registry.discovery import Catalogue
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.extensions.webhook.serving import show, tls_context
from phalanx.metrics.serving import listening

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
        """Return the user who is named in the headers of a request. Return None if the common name of the client
        certificate is not allowed, or if the headers name no user."""
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
    """Return the settings of the front proxy in the data of the ConfigMap. Raises ValueError if they are invalid."""
    authority = data.get(f"{_PREFIX}client-ca-file") or ""
    if not authority:
        raise ValueError(
            f"{_PREFIX}client-ca-file is missing: the API server was started without an authority of the front proxy "
            "(--requestheader-client-ca-file), so no API can be aggregated"
        )
    user = _listed(data, "username-headers")
    if not user:
        raise ValueError(f"{_PREFIX}username-headers is empty, so the API server does not name the user of a request")
    return FrontProxy(
        authority=authority,
        names=frozenset(_listed(data, "allowed-names")),
        user=tuple(one.lower() for one in user),
        uid=tuple(one.lower() for one in _listed(data, "uid-headers")),
        group=tuple(one.lower() for one in _listed(data, "group-headers")),
        extra_prefixes=tuple(one.lower() for one in _listed(data, "extra-headers-prefix")),
    )


def _listed(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the names in the JSON list that the ConfigMap stores under this key; empty if the key is absent. Raises
    ValueError."""
    text = data.get(f"{_PREFIX}{key}") or "[]"
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{_PREFIX}{key} is not a list of names: {text[:80]}")
    return tuple(found)


def _first(said: Mapping[str, list[str]], headers: Iterable[str]) -> str:
    return next((value for header in headers for value in said.get(header, ()) if value), "")


# --- authorization ----------------------------------------------------------------------------------------------------

REVIEWS: Final = Kind(
    group="authorization.k8s.io", plural="subjectaccessreviews", name="SubjectAccessReview", namespaced=False
)
COUNTS_S, KEPT = 10.0, 1000
Verdict = tuple[bool, str]  # (True if the request is allowed, the authorizer's reason)


class DelegatedAuthorizer:
    """The authorization of requests by the API server, with a cache. `clock_s`: a function that returns the seconds of
    a monotonic clock."""

    def __init__(self, api: Connection, clock_s: Callable[[], float]) -> None:
        self._api, self._clock_s = api, clock_s
        self._known: dict[tuple[Asker, str, str], tuple[float, Verdict]] = {}

    async def verdict(self, asker: Asker, resource: dict[str, str] | None, path: str) -> Verdict:
        """Return the verdict on a GET request of the user for the resource, or for the path if `resource` is None.
        Raises client.connection.ApiError."""
        key = (asker, path, "" if resource is None else "resource")
        known = self._known.get(key)
        if known is not None and known[0] > self._clock_s():
            return known[1]
        asked: dict[str, object] = {"resourceAttributes": {"verb": "get", **resource}} if resource is not None else {}
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


# --- current settings -------------------------------------------------------------------------------------------------

log = logging.getLogger(__name__)

PAUSE_S: Final = 15.0


class Belief:
    """The current settings of the front proxy. `proxy`: the last valid settings; None before the first successful read.
    `believe`: a function that is called with the certificate authority (PEM) whenever it has changed. It raises
    ValueError if the text is not a certificate."""

    def __init__(self, api: Connection, believe: Callable[[str], None]) -> None:
        self._api, self._believe = api, believe
        self.proxy: FrontProxy | None = None
        self._failure = ""

    def wrong(self) -> str:
        """Return the reason why requests cannot be authenticated; "" if the settings are known."""
        if self.proxy is not None:
            return ""
        return self._failure or f"ConfigMap {NAMESPACE}/{CONFIG_MAP} is not read yet"

    async def keep(self) -> None:
        """Read the settings every `PAUSE_S` seconds, without end. A failed read is logged, and repeated after the
        pause."""
        while True:
            try:
                await self.step()
                failure = ""
            except (ApiError, ValueError) as error:
                failure = f"ConfigMap {NAMESPACE}/{CONFIG_MAP}: {error}"
            if failure and failure != self._failure:
                log.warning("the settings of the front proxy are not known: %s", failure)
            self._failure = failure
            await asyncio.sleep(PAUSE_S)

    async def step(self) -> None:
        """Read the settings once. Raises client.connection.ApiError, ValueError."""
        found = await self._api.get(CONFIG_MAPS, CONFIG_MAP, NAMESPACE)
        proxy = read_front_proxy(found.get("data") or {})
        if self.proxy is None or proxy.authority != self.proxy.authority:
            self._believe(proxy.authority)
        self.proxy = proxy


# --- HTTPS port -------------------------------------------------------------------------------------------------------

Object = dict[str, Any]
# A function whose arguments are the path below the API group, and the query of a request. It returns the response, or
# None if the objects have not been read yet.
View = Callable[[tuple[str, ...], Mapping[str, str]], Object | None]


class Handshakes:
    """The TLS settings of the port. `context`: the TLS context of the listening socket. Every handshake fails until
    both the server certificate and the authority are known.

    A certificate authority cannot be removed from an OpenSSL context. So each change creates a new context, and the SNI
    callback sets this context for new connections. The callback also runs if the client names no server."""

    def __init__(self) -> None:
        self.context = _strict()
        self.context.sni_callback = self._begin
        self._pair: Pair | None = None
        self._authority = ""
        self._now: ssl.SSLContext | None = None

    def show(self, pair: Pair) -> None:
        """From now on, use `pair` as the server certificate of new connections."""
        self._pair = pair
        self._renew()

    def believe(self, authority: str) -> None:
        """From now on, accept connections whose client certificate is signed by a certificate authority in `authority`
        (PEM). Raises ValueError."""
        try:
            _strict().load_verify_locations(cadata=authority)
        except ssl.SSLError as error:
            raise ValueError(f"the authority of the front proxy is not a certificate in PEM: {error}") from error
        self._authority = authority
        self._renew()

    def _renew(self) -> None:
        if self._pair is None or not self._authority:
            return
        context = _strict()
        context.load_verify_locations(cadata=self._authority)
        show(context, self._pair)
        self._now = context

    def _begin(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> int | None:
        if self._now is None:
            return int(ssl.AlertDescription.ALERT_DESCRIPTION_INTERNAL_ERROR)
        connection.context = self._now
        return None


def _strict() -> ssl.SSLContext:
    """Return a TLS 1.3 context that requires a client certificate and issues no session tickets."""
    context = tls_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@dataclass(slots=True)
class _Served:
    """The resources that API discovery lists. This list never changes."""

    resources: Sequence[Resource]
    generation: int = 0


class Answerer:
    """Answers requests. `proxy`: a function that returns the settings of the front proxy; None while they are unknown.
    `count`: a function that is called with the status code of each response."""

    def __init__(
        self,
        resources: Sequence[Resource],
        view: View,
        access: DelegatedAuthorizer,
        proxy: Callable[[], FrontProxy | None],
        count: Callable[[int], None],
    ) -> None:
        self._resources, self._view, self._access = resources, view, access
        self._proxy, self._count = proxy, count
        self._catalogue = Catalogue(_Served(resources))

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except StatusError as error:
            answer = _json(error.status(), error.code)
        self._count(answer.status)
        return answer

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        proxy = self._proxy()
        asker = None if proxy is None else proxy.asker(_common_name(request), request.headers.items())
        if asker is None:
            raise StatusError(401, "Unauthorized", "Unauthorized")
        if request.method != "GET":
            raise StatusError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        path = request.path.rstrip("/")
        asked = self._resource(path)
        try:
            allowed, why = await self._access.verdict(asker, asked, path)
        except ApiError as error:
            raise StatusError(
                503, "ServiceUnavailable", f"the API server did not authorize the request: {error}", retry_after_s=1
            ) from error
        if not allowed:
            raise _refusal(asker.name, asked, path, why)
        if asked is None:
            return self._discovered(request, path)
        found = self._view(tuple(path.split("/")[3:]), dict(request.query))
        if found is None:
            raise StatusError(
                503, "ServiceUnavailable", "not all objects have been read yet. Try again.", retry_after_s=1
            )
        return _json(found, int(found.get("code", 500)) if found.get("kind") == "Status" else 200)

    def _resource(self, path: str) -> dict[str, str] | None:
        """Return the resource in the path, in the form of a SubjectAccessReview; None if the path names no resource."""
        match path.split("/"):
            case ["", "apis", group, version, plural, name, sub]:
                namespace = ""
            case ["", "apis", group, version, "namespaces", namespace, plural, name, sub]:
                pass
            case _:
                return None
        for one in self._resources:
            if (one.group, one.version, one.plural) == (group, version, plural) and one.namespaced is bool(namespace):
                place = {"namespace": namespace} if namespace else {}
                return {
                    "group": group,
                    "version": version,
                    "resource": plural,
                    "subresource": sub,
                    "name": name,
                } | place
        return None

    def _discovered(self, request: web.BaseRequest, path: str) -> web.Response:
        accept = negotiation.accepted(request.headers.get("accept", ""))
        found = self._catalogue.answer(path, accept)
        if found is None:
            raise StatusError(404, "NotFound", "the server could not find the requested resource", details={})
        return web.Response(body=found.body, headers={"content-type": found.media, "etag": found.etag})


def _refusal(user: str, asked: Mapping[str, str] | None, path: str, why: str) -> StatusError:
    tail = f": {why}" if why else ""
    if asked is None:
        return StatusError(403, "Forbidden", f'forbidden: User "{user}" cannot get path "{path}"{tail}', details={})
    space = f' in the namespace "{asked["namespace"]}"' if "namespace" in asked else " at the cluster scope"
    what = f"{asked['resource']}/{asked['subresource']}"
    words = f'User "{user}" cannot get resource "{what}" in API group "{asked["group"]}"{space}{tail}'
    return forbidden(asked["group"], asked["resource"], asked["name"], words)


def _common_name(request: web.BaseRequest) -> str:
    """Return the common name of the client certificate, which the handshake has verified; "" if there is none."""
    found = None if request.transport is None else request.transport.get_extra_info("peercert")
    pairs = (pair for part in (found or {}).get("subject", ()) for pair in part)
    return next((str(value) for name, value in pairs if name == "commonName"), "")


def _json(value: object, code: int) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=code, content_type="application/json")


@asynccontextmanager
async def serving(where: tuple[str, int], handshakes: Handshakes, answerer: Answerer) -> AsyncIterator[int]:
    """Answer requests at the address `where` inside the `async with` block, and yield the port. Port 0 stands for any
    free port. Raises PhalanxError if the port is in use."""
    runner = web.ServerRunner(web.Server(answerer, access_log=None), shutdown_timeout=1.0)
    async with listening(runner, where, "--address", handshakes.context) as port:
        yield port
