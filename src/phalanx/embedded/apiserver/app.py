"""The application: it dispatches each request to its handler and returns the response.

The server handles a request in these steps: it authenticates the user, parses the path, authorizes the request,
negotiates the media type, and calls the handler. Every refusal is an `StatusError`, which is caught in one place and
sent to the client as a Status object. Any other exception is a defect of Phalanx: the server responds with 500 and logs
the traceback."""

from __future__ import annotations

import logging
from dataclasses import replace

from phalanx.embedded.apimachinery.fair_queue import FairQueue, TooManyRequests
from phalanx.embedded.apimachinery.meta.resource import Object, Resource, User
from phalanx.embedded.apimachinery.meta.status import StatusError, not_found
from phalanx.embedded.apiserver.auth.account_tokens import TOKEN_REQUEST, AccountTokens
from phalanx.embedded.apiserver.auth.authentication import Tokens, acting
from phalanx.embedded.apiserver.auth.rbac import GROUP as RBAC
from phalanx.embedded.apiserver.auth.rbac import MASTERS, AccessRequest, Authorizer
from phalanx.embedded.apiserver.auth.reviews import AUTHENTICATION, AUTHORIZATION, Reviewer
from phalanx.embedded.apiserver.endpoints import answers, parts
from phalanx.embedded.apiserver.endpoints.decoding import Intent
from phalanx.embedded.apiserver.endpoints.delete import DeleteOptions, Deleter, delete_body, delete_options, unsigned
from phalanx.embedded.apiserver.endpoints.listing import ReadEndpoints
from phalanx.embedded.apiserver.endpoints.paths.attributes import attributes
from phalanx.embedded.apiserver.endpoints.paths.namesakes import Namesakes
from phalanx.embedded.apiserver.endpoints.paths.public import Public
from phalanx.embedded.apiserver.endpoints.paths.slurm_numbers import SlurmNumbers, SlurmSubmissions
from phalanx.embedded.apiserver.endpoints.paths.slurm_view import JOBS, PODS, ROOT, SlurmView
from phalanx.embedded.apiserver.endpoints.reconcilers.definitions import DefinitionReconciler
from phalanx.embedded.apiserver.endpoints.reconcilers.quota_usage import QuotaUsage
from phalanx.embedded.apiserver.endpoints.reconcilers.type_checking import TypeChecking
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import DASHBOARDS, GROUPS, Aggregated
from phalanx.embedded.apiserver.endpoints.subresources.logs import Logs
from phalanx.embedded.apiserver.endpoints.subresources.metrics import Metrics
from phalanx.embedded.apiserver.endpoints.subresources.node_client import NodeClient
from phalanx.embedded.apiserver.endpoints.subresources.pods import PodActions
from phalanx.embedded.apiserver.endpoints.subresources.proxy import Proxy
from phalanx.embedded.apiserver.endpoints.subresources.scale import SCALE, Scales
from phalanx.embedded.apiserver.endpoints.subresources.streams import STREAMS, Streams
from phalanx.embedded.apiserver.endpoints.write import ObjectWriter, WrittenObject
from phalanx.embedded.apiserver.registry.metrics import GROUP as METRICS
from phalanx.embedded.apiserver.registry.routing import PROXY, Registry, RouteTarget, locate, verb_of
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.storage.store import Event, Store
from phalanx.embedded.apiserver.storage.watch import Hub
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.go_json import duplicates
from phalanx.embedded.apiserver.transport.http import RawRequest
from phalanx.embedded.apiserver.transport.negotiation import Accept, accepted, decode_body, media_type
from phalanx.embedded.apiserver.transport.options import (
    check_timeout,
    dry_run,
    field_manager,
    field_validation,
    forced,
    list_options,
)
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response, parse_query, text_response

_log = logging.getLogger(__name__)
_ACCOUNT = "system:serviceaccount:"
# A plain-text body, by which clients recognize that the server has not processed the request.
_BUSY = replace(text_response("Too many requests, please try again later.\n", 429), headers=((b"retry-after", b"1"),))


class Api:
    """The API server without its socket. The caller calls `startup` before the first request, and `shutdown` after the
    last."""

    def __init__(
        self, store: Store, registry: Registry, tokens: Tokens, accounts: AccountTokens, settings: StoreSettings
    ) -> None:
        self.store, self.registry, self.settings = store, registry, settings
        self.hub = Hub(store)
        self._tokens, self._accounts = tokens, accounts
        self._authorizer = Authorizer(parts.Committed(store))
        store.subscribe(self._roles_changed)
        knowledge = parts.Knowledge(store, registry.forms, self._guard, self._authorizer.rights)
        self.writer = ObjectWriter(store, registry, knowledge)
        self._slurm = SlurmView(store, _built_in(registry, *JOBS), _built_in(registry, *PODS), self._authorizer.may)
        self._numbers = SlurmNumbers(store, self.writer, _built_in(registry, "", "configmaps"))
        secrets, jobs = _built_in(registry, "", "secrets"), _built_in(registry, *JOBS)
        self._submissions = SlurmSubmissions(self.writer, self._authorizer, secrets, jobs)
        self.deleter = Deleter(store, knowledge)
        self.reader = ReadEndpoints(store, self.hub, settings)
        self._nodes, self._streams = NodeClient(settings), Streams(store, settings)
        self._logs, self._metrics = Logs(store, self._nodes), Metrics(store, self._nodes)
        self._proxy = Proxy(store, self._nodes)
        self._pods = PodActions(store, self.writer, self.deleter)
        self._reviewer = Reviewer(tokens, self._authorizer)
        self._scales = Scales(store, self.writer, knowledge)
        self._aggregated = Aggregated(settings.views)
        self.definitions = DefinitionReconciler(store, registry, self.deleter, registry.resources)
        self.type_checking = TypeChecking(store, registry, self.writer)
        self.quota_usage = QuotaUsage(store, registry, self.writer)
        self._namesakes = Namesakes(store, registry, self._authorizer.may)
        self._public, self._turns = Public(registry, self._namesakes.unused_groups), FairQueue()

    def _guard(self, resource: Resource, obj: Object, old: Object | None, user: User) -> None:
        """Refuse an object that its user may not write although the user may write objects of this kind. Such objects
        are roles with rights that the user lacks, and Jobs with a Slurm job number that the server has not given to the
        user. Raises `StatusError` 403, 404."""
        self._authorizer.guard(resource, obj, old, user)
        self._numbers.guard(resource, obj, old, user)

    def _roles_changed(self, events: list[Event]) -> None:
        if any(event.key[0] == RBAC for event in events):
            self._authorizer.grants.forget()

    async def shutdown(self) -> None:
        """End the streams, and then wait until all writes are on the disk."""
        self.hub.end_all()
        self.quota_usage.stop()
        await self._nodes.close()
        await self.store.close()

    async def __call__(self, raw: RawRequest) -> Response:
        """Return the response to a request. This method never raises: an error becomes a response."""
        warnings: list[str] = []
        try:
            response = await self._answer(raw, warnings)
        except StatusError as refused:
            response = _refusal(raw, refused)
        except Exception:  # a defect of Phalanx: only the client of this request gets an error, 500
            _log.exception("%s %s", raw.method, raw.path)
            defect = StatusError(500, "InternalError", "Internal error occurred: see the log of the server")
            response = _refusal(raw, defect)
        return replace(response, warnings=tuple(dict.fromkeys(warnings))) if warnings else response

    async def _answer(self, raw: RawRequest, warnings: list[str]) -> Response:
        headers, method, path = raw.headers, raw.method, raw.path
        user = acting(self._tokens.user(headers.get(b"authorization", b"")), headers, self._authorizer)
        request = HttpRequest(
            method=method,
            path=path,
            query=parse_query(raw.query),
            user=user,
            accept=_accept(raw),
            content_type=headers.get(b"content-type", b"").decode("latin-1"),
            user_agent=headers.get(b"user-agent", b"").decode("latin-1"),
            host=headers.get(b"host", b"").decode("latin-1"),
            body=raw.body,
            websocket_key=raw.websocket_key.decode("latin-1"),
            websocket_protocols=raw.websocket_protocols.decode("latin-1"),
            spdy_protocols=raw.spdy_protocols.decode("latin-1"),
            warnings=warnings,
        )
        payer, limited = _payer(user), MASTERS not in user.groups
        raw.known(payer, limited)
        if not limited:
            return await self._serve(request, raw)
        try:
            return await self._turns.run(payer, self._serve(request, raw))
        except TooManyRequests:
            return _BUSY

    async def _serve(self, request: HttpRequest, raw: RawRequest) -> Response:
        user, method, path = request.user, request.method, request.path
        watch = request.flag("watch")
        try:
            target = locate(self.registry, path)
            verb = verb_of(target, method, watch) if target else ""
        except StatusError:
            self._authorize_path(request)
            raise
        if target is None:
            self._authorize_path(request)
            if path.startswith(DASHBOARDS):
                return await self._aggregated.get(request)
            if path == f"{ROOT}numbers":
                return await self._numbers.answer(request)
            if path == f"{ROOT}submissions":
                return await self._submissions.answer(request)
            if path == f"{ROOT}ledger":
                return await self._aggregated.get(self._slurm.asking(request))
            if path.startswith(ROOT):
                return await self._slurm.answer(request)
            return self._public.answer(request)
        self._authorizer.resource(user, _asked(target, verb, request), _scope(target))
        if target.sub in STREAMS:
            # A WebSocket begins with GET, but a connection to a pod needs the same right as a POST.
            self._authorizer.resource(user, _asked(target, "create", request), target.namespace)
            await self.writer.connecting(target, user, request.query)
            return await self._streams.open(target, request)
        if target.sub == PROXY:
            await self.writer.connecting(target, user, {})
            return await self._proxy.open(target, raw)
        if not request.accept:
            if target.resource.custom:
                raise negotiation.no_such_form()
            raise negotiation.not_acceptable(stream=verb == "watch")
        if target.resource.group == METRICS:
            return await self._metrics.show(verb, target, request)
        return await self._dispatch(verb, target, request)

    def _authorize_path(self, request: HttpRequest) -> None:
        """Check the user's rights to a path that is not served, before the server responds with 404. Raises
        `StatusError` 403."""
        found = attributes(request.method, request.path, watch=request.flag("watch"))
        if found is None:
            self._authorizer.path(request.user, request.method.lower(), request.path)
        else:
            self._authorizer.resource(request.user, *found)

    async def _dispatch(self, verb: str, target: RouteTarget, request: HttpRequest) -> Response:
        if verb != "watch" and target.sub != "log":
            check_timeout(request)
        if target.resource.deprecation:
            request.warnings.append(target.resource.deprecation)
        match verb:
            case "get":
                return await self._get(target, request)
            case "list":
                shown = await self.reader.show(target, request)
                request.warnings.extend(self._namesakes.hints(target, request))
                return shown
            case "watch":
                return self.reader.watch(target, request)
            case "create":
                return await self._create(target, request)
            case "update":
                return await self._update(target, request)
            case "patch":
                return await self._patch(target, request)
            case "delete":
                return await self._delete(target, request)
            case _:
                return await self._delete_collection(target, request)

    # --- handlers ------------------------------------------------------------------------------------------------

    async def _get(self, target: RouteTarget, request: HttpRequest) -> Response:
        if target.sub == "log":
            return await self._logs.read(target.namespace, target.name, request)
        if target.sub == "scale":
            return answers.one(SCALE, request, self._scales.read(target))
        resource = target.resource
        if resource.group in GROUPS:
            return await self._aggregated.get(request)
        if request.query:
            # first refuse a media type in which this kind cannot be sent, and only then wrong parameters
            answers.form_of(resource, request)
        self.reader.check_version(request)
        stored = self.store.get(resource.key, target.namespace, target.name)
        if stored is None:
            answers.form_of(resource, request, missing=True)
            request.warnings.extend(self._namesakes.hints(target, request))
            raise not_found(resource.group, resource.plural, target.name)
        return answers.one(resource, request, stored)

    async def _create(self, target: RouteTarget, request: HttpRequest) -> Response:
        body = _body(target, request)
        intent = _intent(request, "CreateOptions", body)
        if target.resource.group in (AUTHENTICATION, AUTHORIZATION):
            review = self.writer.checked(target.resource, body, intent)
            found = self._reviewer.answer(target.resource.kind, review, request.user, target.namespace, intent.manager)
            return answers.value(request, found, 201)
        if target.sub == "token":
            asked = self.writer.checked(TOKEN_REQUEST, body, intent)
            return answers.value(request, self._accounts.issue(target.namespace, target.name, asked), 201)
        if target.resource.kind == "Binding" or target.subresource is not None:
            return await self._pods.act(target, body, intent, request)
        return _written(target, request, await self.writer.create(target, body, intent))

    async def _update(self, target: RouteTarget, request: HttpRequest) -> Response:
        body = _body(target, request)
        intent = _intent(request, "UpdateOptions", body)
        if target.sub == "scale":
            return answers.one(SCALE, request, await self._scales.update(target, body, intent))
        self._may_create(target, request)
        return _written(target, request, await self.writer.update(target, body, intent))

    async def _patch(self, target: RouteTarget, request: HttpRequest) -> Response:
        media, resource = media_type(request.content_type), target.resource
        parts.check_patch_media(resource, media)
        intent = _intent(request, "PatchOptions", None)
        force = forced(request, applies=media == parts.APPLY_PATCH)
        if media == parts.APPLY_PATCH:
            self._may_create(target, request)
        elif self.store.head(resource.key, target.namespace, target.name) is None:
            raise not_found(resource.group, resource.plural, target.name)
        body, findings = parts.patch_body(media, request.body, intent.validation)
        intent = replace(intent, findings=findings)
        if target.sub == "scale":
            return answers.one(SCALE, request, await self._scales.patch(target, media, body, intent, force=force))
        written = await self.writer.patch(target, media, body, intent, force=force)
        return _written(target, request, written)

    def _may_create(self, target: RouteTarget, request: HttpRequest) -> None:
        """Check that a user who puts or applies an object that does not exist has the right to create it. Raises
        `StatusError` 403."""
        if self.store.head(target.resource.key, target.namespace, target.name) is None:
            self._authorizer.resource(request.user, _asked(target, "create", request), target.namespace)

    async def _delete(self, target: RouteTarget, request: HttpRequest) -> Response:
        options, resource = delete_options(request, delete_body(request)), target.resource
        request.warnings.extend(_delete_warnings(resource, options))
        deleted = await self.deleter.delete(target, options)
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

    async def _delete_collection(self, target: RouteTarget, request: HttpRequest) -> Response:
        options, resource = delete_options(request, delete_body(request)), target.resource
        request.warnings.extend(_delete_warnings(resource, options))
        found, meta = self.reader.page(target, list_options(request, watch=False))
        await self.deleter.collection(target, found, options)
        request.warnings.extend(dict.fromkeys(options.warnings))
        return await answers.many(resource, request, [unsigned(stored) for _, _, stored in found], meta)


def _built_in(registry: Registry, group: str, plural: str) -> Resource:
    found = registry.find(group, "v1", plural)
    assert found is not None
    return found


def _delete_warnings(resource: Resource, options: DeleteOptions) -> tuple[str, ...]:
    text = resource.strategy.delete_warning
    return (text,) if text and not options.policy else ()


def _payer(user: User) -> str:
    """Return the name under which the fair queue counts the requests of a user. All service accounts of a namespace
    share one name, because a user who can create one account can create a thousand."""
    return user.name.rpartition(":")[0] if user.name.startswith(_ACCOUNT) else user.name


def _scope(target: RouteTarget) -> str:
    """Return the namespace whose roles decide about the request. For a Namespace object it is the namespace itself: the
    roles in the namespace may grant rights to the Namespace object."""
    return target.name if target.resource.key == ("", "namespaces") else target.namespace


def _asked(target: RouteTarget, verb: str, request: HttpRequest) -> AccessRequest:
    """Return the right that the request needs, in the terms of RBAC rules. A field selector by name also sets the name
    of the object."""
    resource, name = target.resource, target.name
    if not name and verb in ("list", "watch", "deletecollection"):
        fields = request.text("fieldSelector").split(",")
        name = next((one.partition("=")[2].lstrip("=") for one in fields if one.startswith("metadata.name=")), "")
    plural = f"{resource.plural}/{target.sub}" if target.sub else resource.plural
    return AccessRequest(verb, resource.group, plural, name)


def _body(target: RouteTarget, request: HttpRequest) -> object:
    kind = target.subresource.kind if target.subresource else target.resource.kind
    return decode_body(request.body, request.content_type, kind)


def _intent(request: HttpRequest, options: str, body: object) -> Intent:
    validation = field_validation(request, options)
    is_json = body is not None and media_type(request.content_type).endswith("json")
    twice = duplicates(request.body, body) if is_json and validation != "Ignore" else ()
    findings = [f'duplicate field "{path}"' for path in twice]
    if body is not None and validation != "Ignore" and media_type(request.content_type) == negotiation.YAML:
        findings = negotiation.yaml_duplicates(request.body)
    return Intent(
        user=request.user,
        manager=field_manager(request, options),
        dry_run=dry_run(request, options),
        validation=validation,
        findings=findings,
        warn=request.warnings.extend,
    )


def _written(target: RouteTarget, request: HttpRequest, written: WrittenObject) -> Response:
    code = 201 if written.created else 200
    return answers.one(target.resource, request, written.stored, code)


def _accept(raw: RawRequest) -> tuple[Accept, ...]:
    """Return the media types that the client accepts and the server has; () if there are none. This function raises no
    error for an empty result, because the server first reports a path that does not exist."""
    try:
        return accepted(raw.headers.get(b"accept", b"").decode("latin-1"))
    except StatusError:
        return ()


def _refusal(raw: RawRequest, error: StatusError) -> Response:
    headers = ((b"retry-after", str(error.retry_after_s).encode()),) if error.retry_after_s is not None else ()
    media, body = negotiation.render(_accept(raw), error.status())
    return Response(code=error.code, body=body, media=media, headers=headers)
