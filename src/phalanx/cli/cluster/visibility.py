"""What the scheduler itself answers, on a Unix socket for `phalanx up`: Kueue's visibility API, YuniKorn's REST paths.

The API server of the same data directory asks there, after it has checked who asks and whether he may: the socket lies
in a folder that only its owner may enter, so nobody else gets here. What is answered is what the scheduler knows now;
nothing is written. An answer may look at all jobs there are: it is made in a thread, one at a time, while scheduling
goes on. What is said as it happens (YuniKorn's events) is written line by line, as far as its reader reads.
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
_MOST_BYTES = 2 * 2**20  # of what is checked; the API server passes less on
# API group (or first part of the path), path below it, query -> how the answer is found
Ask = Callable[[], Object | list[Object]]
Views = Callable[[str, tuple[str, ...], Mapping[str, str]], Ask | None]
# The same -> what is said there as it happens, some at a time; None: a view answers
Streams = Callable[[str, tuple[str, ...], Mapping[str, str]], AsyncIterator[Sequence[Object]] | None]


# The query of a user, and of the API server who asks -> the rows of the ledger that this user sees.
LedgerRows = Callable[[Mapping[str, str]], Object]


@asynccontextmanager
async def visible(
    folder: Path | None, views: Views, streams: Streams, ledger: LedgerRows | None = None
) -> AsyncIterator[None]:
    """Inside, the views, streams and rows of the ledger are served in that folder; None: nowhere."""
    if folder is None:
        yield
        return

    turn = asyncio.Lock()
    streaming: set[asyncio.Task[None]] = set()

    async def answer(request: web.Request) -> web.StreamResponse:
        group, *path = (part for part in request.match_info["path"].split("/") if part)
        if (lines := streams(group, tuple(path), dict(request.query))) is not None:
            return await _followed(request, lines, streaming)
        return await asyncio.shield(look(request, group, tuple(path)))  # a thread cannot be cancelled: its turn lasts

    async def look(request: web.Request, group: str, path: tuple[str, ...]) -> web.Response:
        async with turn:
            if request.transport is None or request.transport.is_closing():
                raise web.HTTPServiceUnavailable  # who asked has gone while he waited
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
    # Whoever goes away ends his stream, though nothing is said there.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    await runner.setup()
    file = _entered(folder)
    try:
        await web.UnixSite(runner, f"/proc/self/fd/{file}/{SOCKET}").start()  # however long the folder's path is
        yield
    finally:
        os.close(file)
        for telling in streaming:
            telling.cancel()
        await runner.cleanup()


def _reader(ledger: LedgerRows) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler that answers with rows of the ledger, one reader at a time: rows may be many."""
    reading = asyncio.Lock()

    async def read(query: Mapping[str, str]) -> web.Response:
        async with reading:
            code, body = await asyncio.to_thread(_written, lambda: ledger(query))
        return web.Response(body=body, status=code, content_type="application/json")

    async def answer(request: web.Request) -> web.Response:
        return await asyncio.shield(read(dict(request.query)))  # a thread cannot be cancelled: its turn lasts

    return answer


async def _followed(
    request: web.Request, lines: AsyncIterator[Sequence[Object]], streaming: set[asyncio.Task[None]]
) -> web.StreamResponse:
    """Write what is said as it comes, one line for each; it waits for who does not read. `streaming`: where it is as
    long as it lasts."""

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
    """The code of an answer, and its JSON: Kubernetes' errors say theirs as `code`, YuniKorn's as `status_code`."""
    found = ask()
    match found:
        case {"kind": "Status", "code": int(code)} | {"status_code": int(code)}:
            return code, msgspec.json.encode(found)
    return 200, msgspec.json.encode(found)


def _entered(folder: Path) -> int:
    """Return the folder, opened: there, ours alone, and without the socket of a process that was killed (a data
    directory has one `up` only)."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        folder.joinpath(SOCKET).unlink()
    return os.open(folder, os.O_PATH | os.O_DIRECTORY)
