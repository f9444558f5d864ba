"""Connections to pods, services and nodes, and the logs and metrics that the server reads from nodes."""

from __future__ import annotations

from phalanx.embedded.apiserver.app.engine import Engine
from phalanx.embedded.apiserver.app.request_terms import access_of
from phalanx.embedded.apiserver.endpoints.subresources.logs import Logs
from phalanx.embedded.apiserver.endpoints.subresources.metrics import Metrics
from phalanx.embedded.apiserver.endpoints.subresources.node_client import NodeClient
from phalanx.embedded.apiserver.endpoints.subresources.proxy import Proxy
from phalanx.embedded.apiserver.endpoints.subresources.streams import STREAMS, Streams
from phalanx.embedded.apiserver.registry.routing import PROXY, RouteTarget
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.transport.http import RawRequest
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response


class PodConnections:
    """The connections of one server to its nodes. The caller calls `close` at the end."""

    def __init__(self, engine: Engine, settings: StoreSettings) -> None:
        store = engine.store
        self._writer, self._authorizer = engine.writer, engine.authorizer
        self._nodes, self._streams = NodeClient(settings), Streams(store, settings)
        self.logs, self.metrics = Logs(store, self._nodes), Metrics(store, self._nodes)
        self._proxy = Proxy(store, self._nodes)

    async def open(self, target: RouteTarget, request: HttpRequest, raw: RawRequest) -> Response | None:
        """If the request asks for a connection (exec, attach, port-forward or proxy), open it and return the response.
        Otherwise return None. Raises `StatusError`."""
        user = request.user
        if target.sub in STREAMS:
            # A WebSocket begins with GET, but a connection to a pod needs the same right as a POST.
            self._authorizer.resource(user, access_of(target, "create", request), target.namespace)
            await self._writer.connecting(target, user, request.query)
            return await self._streams.open(target, request)
        if target.sub == PROXY:
            await self._writer.connecting(target, user, {})
            return await self._proxy.open(target, raw)
        return None

    async def close(self) -> None:
        """Close the connections to nodes."""
        await self._nodes.close()
