"""What an answer means decides whether a write may be repeated: yes, no, or not known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from phalanx.client.connection import ApiRefusal, ApiUnknown, Connection
from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.errors import PhalanxError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def ask(handler: Handler, call: Callable[[Connection], Awaitable[Any]]) -> Any:
    """`call` against a server of which every path answers by `handler`."""

    async def run() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        async with TestServer(app) as server, Connection(str(server.make_url("")), headers={}, tls=None) as connection:
            return await call(connection)

    return asyncio.run(run())


def test_a_refusal_carries_the_servers_own_words() -> None:
    async def refuse(request: web.Request) -> web.Response:
        status = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": 'pods "a" already exists'}
        return web.json_response(status, status=409)

    with pytest.raises(ApiRefusal, match='pods "a" already exists') as caught:
        ask(refuse, lambda c: c.create(PODS, {}, "default"))
    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")


def test_a_server_error_leaves_the_outcome_unknown() -> None:
    async def fail(request: web.Request) -> web.Response:
        return web.Response(status=503, text="busy")

    with pytest.raises(ApiUnknown, match="503: busy"):
        ask(fail, lambda c: c.patch(JOBS, "a", {}, "default"))


def test_a_lost_answer_leaves_the_outcome_unknown() -> None:
    async def hang_up(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    with pytest.raises(ApiUnknown):
        ask(hang_up, lambda c: c.patch(JOBS, "a", {}, "default"))


def test_too_many_requests_is_waited_out() -> None:
    tries = []

    async def busy_once(request: web.Request) -> web.Response:
        tries.append(request.path)
        if len(tries) == 1:
            return web.Response(status=429, headers={"Retry-After": "0"})
        return web.json_response({"metadata": {"name": "a"}})

    assert ask(busy_once, lambda c: c.get(NODES, "a")) == {"metadata": {"name": "a"}}
    assert tries == ["/api/v1/nodes/a"] * 2


def test_pages_of_a_list_are_joined() -> None:
    async def page(request: web.Request) -> web.Response:
        rest = request.query.get("continue")
        meta = {"resourceVersion": "7"} if rest else {"resourceVersion": "7", "continue": "more"}
        return web.json_response({"metadata": meta, "items": [rest or "first"]})

    assert ask(page, lambda c: c.list(PODS))["items"] == ["first", "more"]


def test_lines_of_a_stream_may_be_longer_than_any_buffer() -> None:
    lines = [b"x" * 300_000, b"y"]

    async def stream(request: web.Request) -> web.Response:
        return web.Response(body=b"\n".join(lines) + b"\n")

    async def read(connection: Connection) -> list[bytes]:
        async with connection.stream("/log", {}) as found:
            return [line async for line in found]

    assert ask(stream, read) == lines


def test_without_a_kubeconfig_the_error_says_what_to_do(tmp_path: Any) -> None:
    with pytest.raises(PhalanxError, match="--kubeconfig FILE"):
        asyncio.run(Connection.open(tmp_path / "none"))
