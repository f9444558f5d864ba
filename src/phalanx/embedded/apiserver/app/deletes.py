"""Handle the verbs delete and deletecollection."""

from __future__ import annotations

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.app.engine import Engine
from phalanx.embedded.apiserver.endpoints import answers
from phalanx.embedded.apiserver.endpoints.delete import DeleteOptions, delete_body, delete_options, unsigned
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.transport.options import list_options
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response


class DeleteVerbs:
    """Handles the verbs that delete objects."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def delete(self, target: RouteTarget, request: HttpRequest) -> Response:
        options, resource = delete_options(request, delete_body(request)), target.resource
        request.warnings.extend(_delete_warnings(resource, options))
        deleted = await self._engine.deleter.delete(target, options)
        request.warnings.extend(options.warnings)
        if not deleted.gone or resource.strategy.delete_returns_object:
            return answers.one(resource, request, deleted.stored)
        meta = deleted.stored.obj["metadata"]
        details = {"name": meta["name"], "group": resource.group, "kind": resource.plural, "uid": meta["uid"]}
        return answers.value(
            request,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": {key: value for key, value in details.items() if value},
            },
        )

    async def delete_collection(self, target: RouteTarget, request: HttpRequest) -> Response:
        options, resource = delete_options(request, delete_body(request)), target.resource
        request.warnings.extend(_delete_warnings(resource, options))
        found, meta = self._engine.reader.page(target, list_options(request, watch=False))
        await self._engine.deleter.collection(target, found, options)
        request.warnings.extend(dict.fromkeys(options.warnings))
        return await answers.many(resource, request, [unsigned(stored) for _, _, stored in found], meta)


def _delete_warnings(resource: Resource, options: DeleteOptions) -> tuple[str, ...]:
    text = resource.strategy.delete_warning
    return (text,) if text and not options.policy else ()
