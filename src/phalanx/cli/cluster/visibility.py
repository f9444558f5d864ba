"""What the scheduler itself answers, on a Unix socket for `phalanx up`: Kueue's visibility API, YuniKorn's REST paths.

The API server of the same data directory asks there, after it has checked who asks and whether he may: the socket lies
in a folder that only its owner may enter, so nobody else gets here. What is answered is what the scheduler knows now;
nothing is written. An answer may look at all jobs there are: it is made in a thread, one at a time, while scheduling
goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
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


@asynccontextmanager
async def visible(folder: Path | None, views: Views) -> AsyncIterator[None]:
    """Inside, the views are served in that folder; None: nowhere."""
    if folder is None:
        yield
        return

    turn = asyncio.Lock()

    async def answer(request: web.Request) -> web.Response:
        group, *path = (part for part in request.match_info["path"].split("/") if part)
        async with turn:
            if request.transport is None or request.transport.is_closing():
                raise web.HTTPServiceUnavailable  # who asked has gone while he waited
            ask = views(group, tuple(path), dict(request.query))
            if ask is None:
                return web.json_response({"kind": "Status", "code": 404, "message": "no such group"}, status=404)
            code, body = await asyncio.to_thread(_written, ask)
        return web.Response(body=body, status=code, content_type="application/json")

    async def check(request: web.Request) -> web.Response:
        checked = CHECKS.get(request.match_info["path"])
        if checked is None:
            raise web.HTTPNotFound
        text = await request.read()
        async with turn:
            _, body = await asyncio.to_thread(_written, lambda: checked(text))
        return web.Response(body=body, content_type="application/json")

    app = web.Application(client_max_size=_MOST_BYTES)
    app.router.add_get("/apis/{path:.+}", answer)
    app.router.add_get("/{path:ws/.+}", answer)
    app.router.add_post("/{path:ws/.+}", check)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    file = _entered(folder)
    try:
        await web.UnixSite(runner, f"/proc/self/fd/{file}/{SOCKET}").start()  # however long the folder's path is
        yield
    finally:
        os.close(file)
        await runner.cleanup()


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
