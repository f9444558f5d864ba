"""Serve views of the scheduler's state on a Unix socket for `phalanx up`: Kueue's visibility API and YuniKorn's REST
paths.

The API server of the same data directory connects to the socket, after it has authenticated and authorized the user.
Only the owner may enter the folder of the socket, so no other process can connect. An answer shows the scheduler's
current state; no request writes. An answer may read all jobs, so a thread computes one answer at a time while
scheduling goes on. A stream (YuniKorn's events) is written line by line, as fast as the client reads.
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
_MOST_BYTES = 2 * 2**20  # the most bytes of a request body; the API server forwards fewer
# (API group or first part of the path, path below it, query) -> a function that computes the answer; None: no such view
Ask = Callable[[], Object | list[Object]]
Views = Callable[[str, tuple[str, ...], Mapping[str, str]], Ask | None]
# (The arguments of a view) -> a stream of objects in batches; None if a view answers this path
Streams = Callable[[str, tuple[str, ...], Mapping[str, str]], AsyncIterator[Sequence[Object]] | None]


# The query, with the user's name added by the API server -> the rows of the ledger that this user may see.
LedgerRows = Callable[[Mapping[str, str]], Object]


@asynccontextmanager
async def visible(
    folder: Path, views: Views, streams: Streams, ledger: LedgerRows | None = None
) -> AsyncIterator[None]:
    """Serve the views, streams and rows of the ledger on a socket in that folder for the length of the context."""
    turn = asyncio.Lock()
    streaming: set[asyncio.Task[None]] = set()

    async def answer(request: web.Request) -> web.StreamResponse:
        group, *path = (part for part in request.match_info["path"].split("/") if part)
        if (lines := streams(group, tuple(path), dict(request.query))) is not None:
            return await _followed(request, lines, streaming)
        return await asyncio.shield(look(request, group, tuple(path)))  # a thread cannot be cancelled: wait for its end

    async def look(request: web.Request, group: str, path: tuple[str, ...]) -> web.Response:
        async with turn:
            if request.transport is None or request.transport.is_closing():
                raise web.HTTPServiceUnavailable  # the client closed its connection while it waited
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
    # A client that disconnects ends its stream, even while the stream is silent.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    await runner.setup()
    file = _entered(folder)
    try:
        # A path through /proc, because a socket's path has at most 107 bytes.
        await web.UnixSite(runner, f"/proc/self/fd/{file}/{SOCKET}").start()
        yield
    finally:
        os.close(file)
        for telling in streaming:
            telling.cancel()
        await runner.cleanup()


def _reader(ledger: LedgerRows) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler that answers with rows of the ledger. It serves one reader at a time, because an answer may
    have many rows."""
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
    """Write one line for each object of the stream. A client that does not read slows its own stream. `streaming`: the
    set that holds this task while the stream is open."""

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
    """Return the HTTP status of an answer, and its JSON. Kubernetes' errors have the status in `code`, YuniKorn's in
    `status_code`."""
    found = ask()
    match found:
        case {"kind": "Status", "code": int(code)} | {"status_code": int(code)}:
            return code, msgspec.json.encode(found)
    return 200, msgspec.json.encode(found)


def _entered(folder: Path) -> int:
    """Return a descriptor of the folder. The folder is created with access for its owner alone, and the socket of a
    killed process is removed (a data directory has at most one `up`)."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        folder.joinpath(SOCKET).unlink()
    return os.open(folder, os.O_PATH | os.O_DIRECTORY)
