"""Handle the verbs get, list and watch."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.status import not_found
from phalanx.embedded.apiserver.app.engine import Engine
from phalanx.embedded.apiserver.endpoints import answers
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import GROUPS, Aggregated
from phalanx.embedded.apiserver.endpoints.subresources.logs import Logs
from phalanx.embedded.apiserver.endpoints.subresources.scale import SCALE, Scales
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response


class ReadVerbs:
    """Handles the verbs that only read objects."""

    def __init__(self, engine: Engine, logs: Logs, scales: Scales, aggregated: Aggregated) -> None:
        self._engine, self._logs, self._scales, self._aggregated = engine, logs, scales, aggregated

    async def get(self, target: RouteTarget, request: HttpRequest) -> Response:
        """Return an object, or the response of one of its subresources. Raises `StatusError`."""
        if target.sub == "log":
            return await self._logs.read(target.namespace, target.name, request)
        if target.sub == "scale":
            return answers.one(SCALE, request, self._scales.read(target))
        resource = target.resource
        if resource.group in GROUPS:
            return await self._aggregated.get(request)
        if request.query:
            # check the media type before the parameters
            answers.form_of(resource, request)
        self._engine.reader.check_version(request)
        stored = self._engine.store.get(resource.key, target.namespace, target.name)
        if stored is None:
            answers.form_of(resource, request, missing=True)
            request.warnings.extend(self._engine.namesakes.hints(target, request))
            raise not_found(resource.group, resource.plural, target.name)
        return answers.one(resource, request, stored)

    async def list(self, target: RouteTarget, request: HttpRequest) -> Response:
        """Return the objects of a kind. Warn of other kinds that have the same name."""
        shown = await self._engine.reader.show(target, request)
        request.warnings.extend(self._engine.namesakes.hints(target, request))
        return shown

    def watch(self, target: RouteTarget, request: HttpRequest) -> Response:
        """Return a stream of the changes of objects."""
        return self._engine.reader.watch(target, request)
