"""Serve views of the scheduler's state on a Unix socket for `phalanx up`: Kueue's visibility API and YuniKorn's REST
paths.

The API server of the same data directory forwards requests to the socket, after it has authenticated and authorized the
user. Only the owner of the folder can enter it, so processes of other users cannot connect. A response shows the
scheduler's current state; requests change nothing. The computation of a response may be slow, because a response may
include all jobs. So a thread computes the responses, one at a time, while the scheduler continues. A stream (YuniKorn's
events) is written line by line, as fast as the client reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from phalanx.client.connection import Object
from phalanx.dialects.enabled import CHECKS

SOCKET = "scheduler.sock"
_MOST_BYTES = 2 * 2**20  # the maximum size of a request body in bytes; the API server forwards no larger body
# A function that takes the API group (or the first part of the path), the path below it, and the query, and returns a
# function that computes the response; None for an unknown path.
Ask = Callable[[], Object | list[Object]]
Views = Callable[[str, tuple[str, ...], Mapping[str, str]], Ask | None]
# A function that takes the same arguments, and returns a stream of objects in batches; None if the path is not that of
# a stream.
Streams = Callable[[str, tuple[str, ...], Mapping[str, str]], AsyncIterator[Sequence[Object]] | None]


# A function that takes the query, to which the API server has added the user's name, and returns the rows of the ledger
# that this user may see.
LedgerRows = Callable[[Mapping[str, str]], Object]


@asynccontextmanager
async def visible(
    folder: Path, views: Views, streams: Streams, ledger: LedgerRows | None = None
) -> AsyncIterator[None]:
    """Serve the views, the streams and the rows of the ledger on a socket in `folder` while the context is open."""
    turn = asyncio.Lock()
    streaming: set[asyncio.Task[None]] = set()

    async def answer(request: web.Request) -> web.StreamResponse:
        group, *path = [part for part in request.match_info["path"].split("/") if part] or [""]
        if (lines := streams(group, tuple(path), dict(request.query))) is not None:
            return await _followed(request, lines, streaming)
        return await asyncio.shield(look(request, group, tuple(path)))  # a thread cannot be cancelled: wait for its end

    async def look(request: web.Request, group: str, path: tuple[str, ...]) -> web.Response:
        async with turn:
            if request.transport is None or request.transport.is_closing():
                raise web.HTTPServiceUnavailable  # the client has disconnected while its request was waiting
            ask = views(group, path, dict(request.query))
            if ask is None:
                return web.json_response({"kind": "Status", "code": 404, "message": "no such group"}, status=404)
            code, body = await asyncio.to_thread(_written, ask)
        return web.Response(body=body, status=code, content_type="application/json")

    async def check(request: web.Request) -> web.Response:
        checked = CHECKS.get(request.match_info["path"])
        if checked is None:
            raise web.HTTPNotFound
        text = await request.read()
        return await asyncio.shield(judge(lambda: checked(text)))

    async def judge(checked: Ask) -> web.Response:
        async with turn:
            _, body = await asyncio.to_thread(_written, checked)
        return web.Response(body=body, content_type="application/json")

    app = web.Application(client_max_size=_MOST_BYTES)
    app.router.add_get("/apis/{path:.+}", answer)
    app.router.add_get("/{path:ws/.+}", answer)
    if ledger is not None:
        app.router.add_get("/slurm/v1/ledger", _reader(ledger))
    app.router.add_post("/{path:ws/.+}", check)
    # If a client disconnects, its stream ends at once, even if the stream has no new objects.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    await runner.setup()
    file = _entered(folder)
    try:
        # The socket is bound through /proc, because the path of a socket may have at most 107 bytes.
        await web.UnixSite(runner, f"/proc/self/fd/{file}/{SOCKET}").start()
        yield
    finally:
        os.close(file)
        for telling in streaming:
            telling.cancel()
        await runner.cleanup()


def _reader(ledger: LedgerRows) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the request handler that responds with rows of the ledger. It serves one request at a time, because a
    response may have many rows."""
    reading = asyncio.Lock()

    async def read(query: Mapping[str, str]) -> web.Response:
        async with reading:
            code, body = await asyncio.to_thread(_written, lambda: ledger(query))
        return web.Response(body=body, status=code, content_type="application/json")

    async def answer(request: web.Request) -> web.Response:
        return await asyncio.shield(read(dict(request.query)))  # a thread cannot be cancelled: wait for its end

    return answer


async def _followed(
    request: web.Request, lines: AsyncIterator[Sequence[Object]], streaming: set[asyncio.Task[None]]
) -> web.StreamResponse:
    """Write each object of the stream to the client, as one line. A slow client delays only its own stream.
    `streaming`: the set to which this task belongs while the stream is open."""

    async def tell() -> None:
        async for found in lines:
            await response.write(b"".join(msgspec.json.encode(one) + b"\n" for one in found))

    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    telling = asyncio.ensure_future(tell())
    streaming.add(telling)
    telling.add_done_callback(streaming.discard)
    await telling
    return response


def _written(ask: Ask) -> tuple[int, bytes]:
    """Compute the response, and return its HTTP status and its JSON. An error has the HTTP status in the field `code`
    (Kubernetes) or `status_code` (YuniKorn)."""
    found = ask()
    match found:
        case {"kind": "Status", "code": int(code)} | {"status_code": int(code)}:
            return code, msgspec.json.encode(found)
    return 200, msgspec.json.encode(found)


def _entered(folder: Path) -> int:
    """Return an open file descriptor of the folder. Create the folder so that only its owner has access. Remove a
    socket that a killed process left in it: such a socket is not in use, because at most one `phalanx up` runs on a
    data directory."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        folder.joinpath(SOCKET).unlink()
    return os.open(folder, os.O_PATH | os.O_DIRECTORY)
