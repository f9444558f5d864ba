"""Handle each request, and turn every error into a response.

The server handles a request in these steps: it authenticates the user, parses the path, authorizes the request,
negotiates the media type, and calls the handler. Every refusal is raised as a `StatusError`. It is caught in one place
and sent to the client as a Status object. Any other exception is a defect of Phalanx: the server responds with 500 and
logs the traceback."""

from __future__ import annotations

import logging
from dataclasses import replace

from phalanx.embedded.apimachinery.fair_queue import FairQueue, TooManyRequests
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.app.connections import PodConnections
from phalanx.embedded.apiserver.app.engine import Engine
from phalanx.embedded.apiserver.app.objects import ObjectVerbs
from phalanx.embedded.apiserver.app.paths import NamelessPaths
from phalanx.embedded.apiserver.app.request_terms import (
    accepted_media,
    access_of,
    payer_of,
    refusal,
    require_form,
    scope_of,
)
from phalanx.embedded.apiserver.auth.account_tokens import AccountTokens
from phalanx.embedded.apiserver.auth.authentication import Tokens, acting
from phalanx.embedded.apiserver.auth.rbac import MASTERS
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import Aggregated
from phalanx.embedded.apiserver.registry.routing import Registry, locate, verb_of
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.storage.store import Store
from phalanx.embedded.apiserver.transport.http import RawRequest
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response, parse_query, text_response

_log = logging.getLogger(__name__)
# A plain-text body, as kube-apiserver sends it. It shows to clients that the server has not processed the request.
_BUSY = replace(text_response("Too many requests, please try again later.\n", 429), headers=((b"retry-after", b"1"),))


class Api:
    """The API server without its socket. `server.open_api` starts its engine. The caller calls `shutdown` after the
    last request."""

    def __init__(
        self, store: Store, registry: Registry, tokens: Tokens, accounts: AccountTokens, settings: StoreSettings
    ) -> None:
        self.engine, self.settings = Engine(store, registry, settings), settings
        self._tokens, self._turns, aggregated = tokens, FairQueue(), Aggregated(settings.views)
        self._connections = PodConnections(self.engine, settings)
        self._objects = ObjectVerbs(self.engine, self._connections, aggregated, tokens, accounts)
        self._paths = NamelessPaths(self.engine, aggregated)

    async def shutdown(self) -> None:
        """End the streams, and then wait until all writes are on the disk."""
        self.engine.hub.end_all()
        self.engine.quota_usage.stop()
        await self._connections.close()
        await self.engine.store.close()

    async def __call__(self, raw: RawRequest) -> Response:
        """Return the response to a request. This method never raises: an error becomes a response."""
        warnings: list[str] = []
        try:
            response = await self._answer(raw, warnings)
        except StatusError as refused:
            response = refusal(raw, refused)
        except Exception:  # a defect of Phalanx: only the client of this request gets an error, 500
            _log.exception("%s %s", raw.method, raw.path)
            defect = StatusError(500, "InternalError", "Internal error occurred: see the log of the server")
            response = refusal(raw, defect)
        return replace(response, warnings=tuple(dict.fromkeys(warnings))) if warnings else response

    async def _answer(self, raw: RawRequest, warnings: list[str]) -> Response:
        headers, method, path = raw.headers, raw.method, raw.path
        user = acting(self._tokens.user(headers.get(b"authorization", b"")), headers, self.engine.authorizer)
        request = HttpRequest(
            method=method,
            path=path,
            query=parse_query(raw.query),
            user=user,
            accept=accepted_media(raw),
            content_type=headers.get(b"content-type", b"").decode("latin-1"),
            user_agent=headers.get(b"user-agent", b"").decode("latin-1"),
            host=headers.get(b"host", b"").decode("latin-1"),
            body=raw.body,
            websocket_key=raw.websocket_key.decode("latin-1"),
            websocket_protocols=raw.websocket_protocols.decode("latin-1"),
            spdy_protocols=raw.spdy_protocols.decode("latin-1"),
            warnings=warnings,
        )
        payer, limited = payer_of(user), MASTERS not in user.groups
        raw.known(payer, limited)
        if not limited:
            return await self._serve(request, raw)
        try:
            return await self._turns.run(payer, self._serve(request, raw))
        except TooManyRequests:
            return _BUSY

    async def _serve(self, request: HttpRequest, raw: RawRequest) -> Response:
        try:
            target = locate(self.engine.registry, request.path)
            verb = verb_of(target, request.method, request.flag("watch")) if target else ""
        except StatusError:
            self._paths.authorize(request)
            raise
        if target is None:
            self._paths.authorize(request)
            return await self._paths.answer(request)
        self.engine.authorizer.resource(request.user, access_of(target, verb, request), scope_of(target))
        if (connected := await self._connections.open(target, request, raw)) is not None:
            return connected
        require_form(target, verb, request)
        return await self._objects.answer(verb, target, request)
