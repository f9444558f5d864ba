"""A program for pods: answers each request with what it was, on /ws by WebSocket, at $AT and $PORT."""

from __future__ import annotations

import json
import os

from aiohttp import WSMsgType, web


async def answer(request: web.Request) -> web.StreamResponse:
    if request.path == "/ws":
        return await echoed(request)
    if request.path == "/moved":
        raise web.HTTPFound("/there?x=1")
    if request.path == "/nothing":
        return web.Response(status=204)
    said = {
        "method": request.method,
        "path": request.raw_path,
        "headers": {key.lower(): value for key, value in request.headers.items()},
        "body": (await request.read()).decode(),
    }
    return web.Response(text=json.dumps(said), status=418 if request.path == "/teapot" else 200)


async def echoed(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=("chat",))
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            await socket.send_str(f"{request.query_string}: {message.data}")
    return socket


if __name__ == "__main__":
    application = web.Application()
    application.router.add_route("*", "/{anything:.*}", answer)
    web.run_app(application, host=os.environ["AT"], port=int(os.environ["PORT"]), print=None)
