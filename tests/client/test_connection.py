"""The meaning of an answer decides whether a write may be repeated: done, refused, or unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
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


def test_a_name_or_a_text_that_is_not_utf_8_is_a_refusal() -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.raw_path)
        return web.json_response({"kind": "Status", "message": "not found"}, status=404)

    with pytest.raises(ApiRefusal, match="not found"):
        ask(answer, lambda c: c.get(PODS, "\udcff", "default"))
    with pytest.raises(ApiRefusal, match="not found"):
        ask(answer, lambda c: c.list(PODS, labelSelector="a=\udcff"))
    with pytest.raises(ApiRefusal, match=r"the text b'\\xff' is not UTF-8"):
        ask(answer, lambda c: c.create(PODS, {"metadata": {"name": "\udcff"}}, "default"))
    assert seen == ["/api/v1/namespaces/default/pods/%FF", "/api/v1/pods?limit=500&labelSelector=a%3D%FF"]


def test_a_server_error_leaves_the_outcome_unknown() -> None:
    async def fail(request: web.Request) -> web.Response:
        return web.Response(status=503, text="busy")

    with pytest.raises(ApiUnknown, match="503: busy"):
        ask(fail, lambda c: c.patch(JOBS, "a", {}, "default"))

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": "the disk is full"}, status=500)

    with pytest.raises(ApiUnknown, match=r"answered 500: the disk is full$"):
        ask(refuse, lambda c: c.patch(JOBS, "a", {}, "default"))


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


@pytest.mark.slow
def test_who_is_too_busy_is_left_alone_by_all_calls() -> None:
    """Back-pressure: one 429 holds back every call of the process, for as long as the server asks."""
    arrived: list[float] = []

    async def busy_once(request: web.Request) -> web.Response:
        arrived.append(asyncio.get_running_loop().time())
        if len(arrived) == 1:
            return web.Response(status=429, headers={"Retry-After": "1"})
        return web.json_response({})

    async def crowd(connection: Connection) -> None:
        first = asyncio.ensure_future(connection.get(NODES, "a"))
        while not connection._calm_s:  # noqa: ASYNC110 (the answer sets it)
            await asyncio.sleep(0.001)
        await asyncio.gather(first, *(connection.get(NODES, "b") for _ in range(5)))

    ask(busy_once, crowd)
    assert len(arrived) == 7
    assert min(arrived[1:]) - arrived[0] >= 0.9


@pytest.mark.parametrize("subresource", ["eviction", ""])
def test_a_429_about_one_object_is_an_answer_and_holds_nobody_back(subresource: str) -> None:
    """The 429 comes from a budget or from a webhook; `subresource` names the write."""

    async def budget(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({})
        return web.json_response({"kind": "Status", "message": "budget"}, status=429, headers={"Retry-After": "10"})

    async def crowd(connection: Connection) -> None:
        with pytest.raises(ApiRefusal, match="budget"):
            await connection.create(PODS, {}, "default", subresource, "a")
        assert not connection._calm_s
        await connection.get(NODES, "b")

    ask(budget, crowd)


@pytest.mark.slow
def test_a_read_that_the_server_breaks_on_is_sent_again_and_a_write_is_not() -> None:
    tries = []

    async def broken(request: web.Request) -> web.Response:
        tries.append(request.method)
        return web.json_response({}) if len(tries) % 3 == 0 else web.Response(status=500)

    assert ask(broken, lambda c: c.get(NODES, "a")) == {}
    with pytest.raises(ApiUnknown):
        ask(broken, lambda c: c.patch(NODES, "a", {}))
    assert tries == ["GET"] * 3 + ["PATCH"]


def test_json_that_is_none_leaves_the_outcome_unknown() -> None:
    async def cut(request: web.Request) -> web.Response:
        return web.Response(text='{"a": ', content_type="application/json")

    with pytest.raises(ApiUnknown, match="invalid JSON"):
        ask(cut, lambda c: c.patch(JOBS, "a", {}, "default"))


def test_a_list_whose_pages_are_forgotten_is_read_in_one_piece() -> None:
    """410 while paging: the server compacted what the first page was read from."""
    asked = []

    async def page(request: web.Request) -> web.Response:
        asked.append((request.query.get("limit"), request.query.get("continue")))
        if "continue" in request.query:
            return web.json_response({"reason": "Expired", "message": "too old"}, status=410)
        meta = {"resourceVersion": "7", **({"continue": "more"} if "limit" in request.query else {})}
        return web.json_response({"metadata": meta, "items": ["a"] if "limit" in request.query else ["a", "b"]})

    assert ask(page, lambda c: c.list(PODS))["items"] == ["a", "b"]
    assert asked == [("500", None), ("500", "more"), (None, None)]


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


def test_nothing_is_written_past_the_fence() -> None:
    """Point 13: this includes writes that waited after a 429, from any part of the process. Reads continue."""
    seen = []

    async def busy(request: web.Request) -> web.Response:
        seen.append(request.method)
        if request.method == "PATCH":
            return web.Response(status=429, headers={"Retry-After": "0"})
        return web.json_response({})

    async def fenced(connection: Connection) -> None:
        connection.fence(lambda: inf if len(seen) < 2 else 0.0)
        with pytest.raises(ApiUnknown, match="was not sent"):
            await connection.patch(PODS, "a", {}, "default")
        await connection.get(PODS, "a", "default")

    ask(busy, fenced)
    assert seen == ["PATCH", "PATCH", "GET"]


def test_a_call_may_be_made_as_another_user_and_no_name_becomes_a_header_or_another_group() -> None:
    seen: list[tuple[str, list[str]]] = []

    async def note(request: web.Request) -> web.Response:
        seen.append((request.headers["impersonate-user"], request.headers.getall("impersonate-group", [])))
        return web.json_response({"metadata": {}})

    ask(note, lambda c: c.create(PODS, {}, "default", acting=("sue", "a", "b")))
    assert seen == [("sue", ["a", "b"])]
    for acting in (("sue\r\nimpersonate-group: system:masters",), ("sue", "a,system:masters"), ("", "a"), ("s\u00fc",)):
        with pytest.raises(PhalanxError, match="nothing was sent"):
            ask(note, lambda c, acting=acting: c.create(PODS, {}, "default", acting=acting))
    assert len(seen) == 1
