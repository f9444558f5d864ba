"""Handle the verbs create, update and patch."""

from __future__ import annotations

from dataclasses import replace

from phalanx.embedded.apimachinery.meta.status import not_found
from phalanx.embedded.apimachinery.patch.patch import APPLY_PATCH
from phalanx.embedded.apiserver.app.engine import Engine
from phalanx.embedded.apiserver.app.request_terms import access_of, body_of, intent_of, written
from phalanx.embedded.apiserver.auth.account_tokens import TOKEN_REQUEST, AccountTokens
from phalanx.embedded.apiserver.auth.authentication import Tokens
from phalanx.embedded.apiserver.auth.reviews import AUTHENTICATION, AUTHORIZATION, Reviewer
from phalanx.embedded.apiserver.endpoints import answers
from phalanx.embedded.apiserver.endpoints.parts.patching import check_patch_media, patch_body
from phalanx.embedded.apiserver.endpoints.subresources.pods import PodActions
from phalanx.embedded.apiserver.endpoints.subresources.scale import SCALE, Scales
from phalanx.embedded.apiserver.registry.routing import RouteTarget
from phalanx.embedded.apiserver.transport.negotiation import media_type
from phalanx.embedded.apiserver.transport.options import forced
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response


class WriteVerbs:
    """Handles the verbs that create or change an object, and the reviews that clients create."""

    def __init__(self, engine: Engine, tokens: Tokens, accounts: AccountTokens, scales: Scales) -> None:
        self._engine, self._accounts, self._scales = engine, accounts, scales
        self._reviewer = Reviewer(tokens, engine.authorizer)
        self._pods = PodActions(engine.store, engine.writer, engine.deleter)

    async def create(self, target: RouteTarget, request: HttpRequest) -> Response:
        body = body_of(target, request)
        intent = intent_of(request, "CreateOptions", body)
        if target.resource.group in (AUTHENTICATION, AUTHORIZATION):
            review = self._engine.writer.checked(target.resource, body, intent)
            found = self._reviewer.answer(target.resource.kind, review, request.user, target.namespace, intent.manager)
            return answers.value(request, found, 201)
        if target.sub == "token":
            asked = self._engine.writer.checked(TOKEN_REQUEST, body, intent)
            return answers.value(request, self._accounts.issue(target.namespace, target.name, asked), 201)
        if target.resource.kind == "Binding" or target.subresource is not None:
            return await self._pods.act(target, body, intent, request)
        return written(target, request, await self._engine.writer.create(target, body, intent))

    async def update(self, target: RouteTarget, request: HttpRequest) -> Response:
        body = body_of(target, request)
        intent = intent_of(request, "UpdateOptions", body)
        if target.sub == "scale":
            return answers.one(SCALE, request, await self._scales.update(target, body, intent))
        self._may_create(target, request)
        return written(target, request, await self._engine.writer.update(target, body, intent))

    async def patch(self, target: RouteTarget, request: HttpRequest) -> Response:
        media, resource = media_type(request.content_type), target.resource
        check_patch_media(resource, media)
        intent = intent_of(request, "PatchOptions", None)
        force = forced(request, applies=media == APPLY_PATCH)
        if media == APPLY_PATCH:
            self._may_create(target, request)
        elif self._engine.store.head(resource.key, target.namespace, target.name) is None:
            raise not_found(resource.group, resource.plural, target.name)
        body, findings = patch_body(media, request.body, intent.validation)
        intent = replace(intent, findings=findings)
        if target.sub == "scale":
            return answers.one(SCALE, request, await self._scales.patch(target, media, body, intent, force=force))
        found = await self._engine.writer.patch(target, media, body, intent, force=force)
        return written(target, request, found)

    def _may_create(self, target: RouteTarget, request: HttpRequest) -> None:
        """Check the right to create the object, if a PUT or a server-side apply names an object that does not exist.
        Raises `StatusError` 403."""
        if self._engine.store.head(target.resource.key, target.namespace, target.name) is None:
            self._engine.authorizer.resource(request.user, access_of(target, "create", request), target.namespace)
