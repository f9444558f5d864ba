"""Call the handler of each verb on objects."""

from __future__ import annotations

from phalanx.embedded.apiserver.app.connections import PodConnections
from phalanx.embedded.apiserver.app.deletes import DeleteVerbs
from phalanx.embedded.apiserver.app.engine import Engine
from phalanx.embedded.apiserver.app.reads import ReadVerbs
from phalanx.embedded.apiserver.app.writes import WriteVerbs
from phalanx.embedded.apiserver.auth.account_tokens import AccountTokens
from phalanx.embedded.apiserver.auth.authentication import Tokens
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import Aggregated
from phalanx.embedded.apiserver.endpoints.subresources.scale import Scales
from phalanx.embedded.apiserver.registry.metrics import GROUP as METRICS
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.transport.options import check_timeout
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response


class ObjectVerbs:
    """Calls the handlers of verbs. Each server has one instance."""

    def __init__(
        self,
        engine: Engine,
        connections: PodConnections,
        aggregated: Aggregated,
        tokens: Tokens,
        accounts: AccountTokens,
    ) -> None:
        scales = Scales(engine.store, engine.writer, engine.knowledge)
        self._reads = ReadVerbs(engine, connections.logs, scales, aggregated)
        self._writes = WriteVerbs(engine, tokens, accounts, scales)
        self._deletes, self._metrics = DeleteVerbs(engine), connections.metrics

    async def answer(self, verb: str, target: RouteTarget, request: HttpRequest) -> Response:
        """Return the response to a request with this verb. Raises `StatusError`."""
        if target.resource.group == METRICS:
            return await self._metrics.show(verb, target, request)
        if verb != "watch" and target.sub != "log":
            check_timeout(request)
        if target.resource.deprecation:
            request.warnings.append(target.resource.deprecation)
        match verb:
            case "get":
                return await self._reads.get(target, request)
            case "list":
                return await self._reads.list(target, request)
            case "watch":
                return self._reads.watch(target, request)
            case "create":
                return await self._writes.create(target, request)
            case "update":
                return await self._writes.update(target, request)
            case "patch":
                return await self._writes.patch(target, request)
            case "delete":
                return await self._deletes.delete(target, request)
            case _:
                return await self._deletes.delete_collection(target, request)
