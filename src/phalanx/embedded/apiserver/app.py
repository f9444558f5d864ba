"""The ASGI application: one request in, one answer out. Everything that the server can be asked is dispatched here.

Order of a request: who is it, what does the path name, may he, in which form; then the handler. Every refusal below
is an `ApiError`, caught in one place and sent as a Status; anything else that escapes is a defect of ours and is
answered 500 with its trace in the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from phalanx.embedded.apiserver import answers, negotiation, parts
from phalanx.embedded.apiserver.authentication import Tokens
from phalanx.embedded.apiserver.authorization import authorize_path, authorize_resource
from phalanx.embedded.apiserver.delete import Deleter, delete_options
from phalanx.embedded.apiserver.listing import Reader
from phalanx.embedded.apiserver.logs import Logs
from phalanx.embedded.apiserver.negotiation import Accept, accepted, decode_body, media_type
from phalanx.embedded.apiserver.options import dry_run, field_validation, list_options
from phalanx.embedded.apiserver.pods import PodActions
from phalanx.embedded.apiserver.public import Public
from phalanx.embedded.apiserver.request import Request, Response, Stream, parse_query
from phalanx.embedded.apiserver.routing import Registry, Target, locate, verb_of
from phalanx.embedded.apiserver.settings import Settings
from phalanx.embedded.apiserver.status import ApiError, not_found
from phalanx.embedded.apiserver.store import Store, encode
from phalanx.embedded.apiserver.watch import Hub
from phalanx.embedded.apiserver.write import Intent, Writer, Written

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_log = logging.getLogger(__name__)


class Api:
    """The server without its socket. `startup` before the first request, `shutdown` after the last."""

    def __init__(self, store: Store, registry: Registry, tokens: Tokens, settings: Settings) -> None:
        self.store, self.registry, self.settings = store, registry, settings
        self.hub = Hub(store)
        self._tokens = tokens
        knowledge = parts.Knowledge(store)
        self.writer = Writer(store, registry, knowledge)
        self.deleter = Deleter(store)
        self.reader = Reader(store, self.hub, settings)
        self.logs = Logs(store, settings)
        self._pods = PodActions(store, self.writer, self.deleter)
        self._public = Public(registry)

    async def shutdown(self) -> None:
        """End the streams, then let the last writes reach the disk."""
        self.hub.end_all()
        await self.logs.close()
        await self.store.close()

    # --- ASGI ----------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            response = await self._answer(scope, receive)
        except ApiError as error:
            response = _refusal(error)
        except Exception:
            _log.exception("%s %s", scope["method"], scope["path"])
            response = _refusal(ApiError(500, "InternalError", "Internal error occurred: see the log of the server"))
        await _send(response, scope["method"], receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        authorization = accept = content_type = agent = host = b""
        for name, value in scope["headers"]:
            match name:
                case b"authorization":
                    authorization = value
                case b"accept":
                    accept = accept + b"," + value if accept else value
                case b"content-type":
                    content_type = value
                case b"user-agent":
                    agent = value
                case b"host":
                    host = value
        user = self._tokens.user(authorization, time.monotonic())
        method, path = scope["method"], scope["path"]
        request = Request(
            method=method,
            path=path,
            query=parse_query(scope["query_string"]),
            user=user,
            accept=_accept(accept.decode("latin-1")),
            content_type=content_type.decode("latin-1"),
            user_agent=agent.decode("latin-1"),
            host=host.decode("latin-1"),
            body=await _body(receive, self.settings.body_limit_bytes) if method in _WITH_BODY else b"",
        )
        target = locate(self.registry, path)
        if target is None:
            authorize_path(user, method.lower(), path)
            return self._public.answer(request)
        watch = request.flag("watch")
        verb = verb_of(target, method, watch)
        authorize_resource(
            user, verb, group=target.resource.group, resource=target.resource.plural, namespace=target.namespace,
            name=target.name, subresource=target.sub,
        )  # fmt: skip
        if not request.accept:
            raise negotiation.not_acceptable()
        return await self._dispatch(verb, target, request)

    async def _dispatch(self, verb: str, target: Target, request: Request) -> Response:
        match verb:
            case "get":
                return await self._get(target, request)
            case "list":
                return self.reader.show(target, request)
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

    async def _get(self, target: Target, request: Request) -> Response:
        if target.sub == "log":
            return await self.logs.read(target.namespace, target.name, request)
        resource = target.resource
        stored = self.store.get(resource.key, target.namespace, target.name)
        if stored is None:
            raise not_found(resource.group, resource.plural, target.name)
        return answers.one(resource, request, stored)

    async def _create(self, target: Target, request: Request) -> Response:
        body = decode_body(request.body, request.content_type)
        intent = _intent(request, "CreateOptions")
        if target.resource.kind == "Binding" or target.subresource is not None:
            return await self._pods.act(target, body, intent, request)
        return _written(target, request, await self.writer.create(target, body, intent))

    async def _update(self, target: Target, request: Request) -> Response:
        body = decode_body(request.body, request.content_type)
        intent = _intent(request, "UpdateOptions")
        return _written(target, request, await self.writer.update(target, body, intent))

    async def _patch(self, target: Target, request: Request) -> Response:
        media = media_type(request.content_type)
        intent = _intent(request, "PatchOptions")
        body = parts.patch_body(target.resource, media, request.body)
        written = await self.writer.patch(target, media, body, intent, force=request.flag("force"))
        return _written(target, request, written)

    async def _delete(self, target: Target, request: Request) -> Response:
        body = decode_body(request.body, request.content_type) if request.body else None
        deleted = await self.deleter.delete(target, delete_options(request, body))
        resource = target.resource
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

    async def _delete_collection(self, target: Target, request: Request) -> Response:
        body = decode_body(request.body, request.content_type) if request.body else None
        options = delete_options(request, body)
        listed = list_options(request, watch=False)
        found = self.reader.select(target, listed)
        await self.deleter.collection(target, found, options)
        meta = {"resourceVersion": str(self.store.version)}
        return answers.many(target.resource, request, [stored for _, _, stored in found], meta)


def _intent(request: Request, options: str) -> Intent:
    return Intent(
        user=request.user,
        manager=request.manager,
        dry_run=dry_run(request, options),
        validation=field_validation(request, options),
    )


def _written(target: Target, request: Request, written: Written) -> Response:
    code = 201 if written.created else 200
    return answers.one(target.resource, request, written.stored, code, written.warnings)


def _accept(header: str) -> tuple[Accept, ...]:
    """An Accept header that nothing can satisfy is told after the path is known to exist, so it gives ()."""
    try:
        return accepted(header)
    except ApiError:
        return ()


# --- bytes -------------------------------------------------------------------------------------------------------


async def _body(receive: Receive, limit_bytes: int) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body
    pieces, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > limit_bytes:
            raise ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}")
    return b"".join(pieces)


def _refusal(error: ApiError) -> Response:
    headers = ((b"retry-after", str(error.retry_after_s).encode()),) if error.retry_after_s is not None else ()
    return Response(code=error.code, body=encode(error.status()), headers=headers)


async def _send(response: Response, method: str, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", response.media.encode()), *response.headers]
    headers += [(b"warning", _warning(text)) for text in response.warnings]
    if response.stream is not None:
        await _send_stream(response.stream, headers, receive, send)
        return
    headers.append((b"content-length", str(len(response.body)).encode()))
    if response.code == 204:
        headers = headers[1:-1]
    await send({"type": "http.response.start", "status": response.code, "headers": headers})
    await send({"type": "http.response.body", "body": response.body if response.code != 204 else b""})


def _warning(text: str) -> bytes:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'299 - "{quoted}"'.encode("utf-8", "replace")


async def _send_stream(stream: Stream, headers: list[tuple[bytes, bytes]], receive: Receive, send: Send) -> None:
    """Send pieces as they come, until they end or the client goes."""
    gone = asyncio.ensure_future(_disconnected(receive))
    sending = asyncio.ensure_future(_pump(stream, headers, send))
    try:
        await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()  # a defect in making an event ends the connection, with its trace in the log
    finally:
        gone.cancel()
        sending.cancel()
        await asyncio.gather(gone, sending, return_exceptions=True)
        await stream.aclose()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pump(stream: Stream, headers: list[tuple[bytes, bytes]], send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    # The head goes out at once: a watch of something quiet is open, not pending.
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    async for piece in stream:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
