"""Handle paths that name no object: discovery, health, version, Slurm jobs, and the paths that other processes
serve."""

from __future__ import annotations

from phalanx.embedded.apiserver.app.engine import Engine
from phalanx.embedded.apiserver.endpoints.paths.attributes import attributes
from phalanx.embedded.apiserver.endpoints.paths.public import Public
from phalanx.embedded.apiserver.endpoints.paths.slurm_numbers import SlurmSubmissions
from phalanx.embedded.apiserver.endpoints.paths.slurm_view import JOBS, PODS, ROOT, SlurmView
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import DASHBOARDS, Aggregated
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response


class NamelessPaths:
    """Handles the paths that name no object. Each server has one instance."""

    def __init__(self, engine: Engine, aggregated: Aggregated) -> None:
        self._engine, self._aggregated = engine, aggregated
        jobs, pods, secrets = engine.built_in(*JOBS), engine.built_in(*PODS), engine.built_in("", "secrets")
        self._slurm = SlurmView(engine.store, jobs, pods, engine.authorizer.may)
        self._submissions = SlurmSubmissions(engine.writer, engine.authorizer, secrets, jobs)
        self._public = Public(engine.registry, engine.namesakes.unused_groups)

    async def answer(self, request: HttpRequest) -> Response:
        """Return the response. Raises `StatusError` 404."""
        path = request.path
        if path.startswith(DASHBOARDS):
            return await self._aggregated.get(request)
        if path == f"{ROOT}numbers":
            return await self._engine.numbers.answer(request)
        if path == f"{ROOT}submissions":
            return await self._submissions.answer(request)
        if path == f"{ROOT}ledger":
            return await self._aggregated.get(self._slurm.asking(request))
        if path.startswith(ROOT):
            return await self._slurm.answer(request)
        return self._public.answer(request)

    def authorize(self, request: HttpRequest) -> None:
        """Check the user's rights to a path that is not served, before the server responds with 404. Raises
        `StatusError` 403."""
        found = attributes(request.method, request.path, watch=request.flag("watch"))
        if found is None:
            self._engine.authorizer.path(request.user, request.method.lower(), request.path)
        else:
            self._engine.authorizer.resource(request.user, *found)
