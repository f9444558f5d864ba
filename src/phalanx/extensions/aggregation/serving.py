"""The HTTPS port for requests that API servers forward. It serves discovery and one view.

The TLS handshake requires a certificate of the front proxy's authority, so a request of any other client costs a
handshake only. Certificate and authority may change while the port is open. Every handshake uses the current
files, and TLS sessions are never resumed.

Each request is authenticated and authorized first. Then the view computes the response from the objects.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from phalanx.client.connection import ApiError as Unanswered
from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.status import ApiError, forbidden
from phalanx.embedded.apiserver.auth.authority import Pair
from phalanx.embedded.apiserver.registry.discovery import Catalogue
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.extensions.aggregation.front_proxy import Access, FrontProxy
from phalanx.extensions.webhook.serving import show, tls_context
from phalanx.metrics.serving import listening

Object = dict[str, Any]
# (path below the API group, query) -> the response; None while the objects are not yet read.
View = Callable[[tuple[str, ...], Mapping[str, str]], Object | None]


class Handshakes:
    """The TLS settings of the port. `context`: the context of the listening socket. Every handshake fails until both
    certificate and authority are known.

    A certificate authority cannot be removed from an OpenSSL context. So each change makes a new context, and the SNI
    callback switches a new connection to it. The callback also runs if the client names no server."""

    def __init__(self) -> None:
        self.context = _strict()
        self.context.sni_callback = self._begin
        self._pair: Pair | None = None
        self._authority = ""
        self._now: ssl.SSLContext | None = None

    def show(self, pair: Pair) -> None:
        """Use `pair` as the server certificate of later connections."""
        self._pair = pair
        self._renew()

    def believe(self, authority: str) -> None:
        """Accept later connections with a client certificate of these authorities (PEM). Raises ValueError."""
        try:
            _strict().load_verify_locations(cadata=authority)
        except ssl.SSLError as error:
            raise ValueError(f"the authority of the front proxy is no certificate in PEM: {error}") from error
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
    """The resources that the `Catalogue` lists; the list never changes."""

    resources: Sequence[Resource]
    generation: int = 0


class Answerer:
    """Answer requests. `proxy`: returns the front proxy's settings, None while unknown. `count`: called with the status
    code of each response."""

    def __init__(
        self,
        resources: Sequence[Resource],
        view: View,
        access: Access,
        proxy: Callable[[], FrontProxy | None],
        count: Callable[[int], None],
    ) -> None:
        self._resources, self._view, self._access = resources, view, access
        self._proxy, self._count = proxy, count
        self._catalogue = Catalogue(_Served(resources))

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except ApiError as error:
            answer = _json(error.status(), error.code)
        self._count(answer.status)
        return answer

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        proxy = self._proxy()
        asker = None if proxy is None else proxy.asker(_common_name(request), request.headers.items())
        if asker is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        if request.method != "GET":
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        path = request.path.rstrip("/")
        asked = self._resource(path)
        try:
            allowed, why = await self._access.verdict(asker, asked, path)
        except Unanswered as error:
            raise ApiError(
                503, "ServiceUnavailable", f"the API server does not say whether you may: {error}", retry_after_s=1
            ) from error
        if not allowed:
            raise _refusal(asker.name, asked, path, why)
        if asked is None:
            return self._discovered(request, path)
        found = self._view(tuple(path.split("/")[3:]), dict(request.query))
        if found is None:
            raise ApiError(503, "ServiceUnavailable", "the objects are not all read yet. Try again.", retry_after_s=1)
        return _json(found, int(found.get("code", 500)) if found.get("kind") == "Status" else 200)

    def _resource(self, path: str) -> dict[str, str] | None:
        """Return the resource of the path, as in a SubjectAccessReview; None if the path names no object."""
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
            raise ApiError(404, "NotFound", "the server could not find the requested resource", details={})
        return web.Response(body=found.body, headers={"content-type": found.media, "etag": found.etag})


def _refusal(user: str, asked: Mapping[str, str] | None, path: str, why: str) -> ApiError:
    tail = f": {why}" if why else ""
    if asked is None:
        return ApiError(403, "Forbidden", f'forbidden: User "{user}" cannot get path "{path}"{tail}', details={})
    space = f' in the namespace "{asked["namespace"]}"' if "namespace" in asked else " at the cluster scope"
    what = f"{asked['resource']}/{asked['subresource']}"
    words = f'User "{user}" cannot get resource "{what}" in API group "{asked["group"]}"{space}{tail}'
    return forbidden(asked["group"], asked["resource"], asked["name"], words)


def _common_name(request: web.BaseRequest) -> str:
    """Return the common name of the client certificate that the handshake verified; empty if there is none."""
    found = None if request.transport is None else request.transport.get_extra_info("peercert")
    pairs = (pair for part in (found or {}).get("subject", ()) for pair in part)
    return next((str(value) for name, value in pairs if name == "commonName"), "")


def _json(value: Any, code: int) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=code, content_type="application/json")


@asynccontextmanager
async def serving(where: tuple[str, int], handshakes: Handshakes, answerer: Answerer) -> AsyncIterator[int]:
    """Serve `answerer` at the address `where` inside the context; yield the port (port 0 takes any free one). Raises
    PhalanxError if the port is in use."""
    runner = web.ServerRunner(web.Server(answerer, access_log=None), shutdown_timeout=1.0)
    async with listening(runner, where, "--address", handshakes.context) as port:
        yield port
