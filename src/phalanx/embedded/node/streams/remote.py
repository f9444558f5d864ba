"""Serve `kubectl exec` (and `cp`, which runs tar(1) by exec) and `kubectl attach`.

exec runs a command in the namespaces of the container, and returns the command's exit code. attach forwards the
container's new output. If the container has `stdin`, attach also forwards the client's input.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeAlias

from aiohttp import web

from phalanx.embedded.node.container.attempt import Attempt, Exited, RunningAttempt
from phalanx.embedded.node.container.log.reading import LogOptions, read, since_text
from phalanx.embedded.node.streams.channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT, Channels
from phalanx.embedded.node.streams.session import Feed, Session, pieces
from phalanx.embedded.node.streams.spdy import PROTOCOLS as SPDY
from phalanx.embedded.node.streams.spdy import SpdyChannels

_LAST_WORDS_S = 0.5  # the maximum wait for the last output, because an orphaned child may keep the pipe open for ever
# the interval of checks for new output; it is short, because a user sees a typed character only after the next check
_LOOK_S = 0.02
_SUCCESS = {"status": "Success"}
AnyChannels: TypeAlias = Channels | SpdyChannels


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "").lower() in ("true", "1")


def _channels(request: web.Request) -> AnyChannels:
    """Return the channels for the protocol that the client's handshake requests."""
    if request.headers.get("Sec-WebSocket-Protocol") not in SPDY:
        return Channels()
    asked = {STDIN: "stdin", STDOUT: "stdout", STDERR: "stderr", RESIZE: "tty"}
    return SpdyChannels(frozenset({ERROR, *(channel for channel, name in asked.items() if _flag(request, name))}))


def _failure(message: str, reason: str = "InternalError", **more: object) -> dict[str, object]:
    return {"status": "Failure", "message": message, "reason": reason, **more}


def _ended(command: list[str], code: int) -> dict[str, Any]:
    """Return the Status with an exit code, in the format that clients parse."""
    if code == 0:
        return _SUCCESS
    text = f"error executing command [{' '.join(command)}], exit code {code}"
    return _failure(
        f"command terminated with non-zero exit code: {text}",
        "NonZeroExitCode",
        details={"causes": [{"reason": "ExitCode", "message": str(code)}]},
    )


async def execute(request: web.Request, attempt: Attempt) -> web.StreamResponse:
    """Run the command from the query of the request in the running container."""
    command = request.query.getall("command", [])
    if not command:
        return web.Response(status=400, text="you must specify at least one command for the container")
    state = attempt.state()
    if not isinstance(state, RunningAttempt):
        return web.Response(status=400, text="cannot exec in a container that does not run")
    channels = _channels(request)
    socket = await channels.open(request)
    tty, stdin = _flag(request, "tty"), _flag(request, "stdin")
    try:
        session = Session.start(attempt.spec, state.pid, command, tty=tty, stdin=stdin)
    except OSError as error:
        await channels.finish(_failure(f"error executing command in container: {command[0]}: {error.strerror}"))
        return socket
    try:
        code = await _serve(channels, session)
        if code is not None:
            await channels.finish(_ended(command, code))
    except ConnectionError:
        pass  # the client has disconnected
    finally:
        session.close()
    return socket


async def _serve(channels: AnyChannels, session: Session) -> int | None:
    """Forward input and output until the command ends. Return its exit code; None if the client has disconnected."""
    output = asyncio.gather(
        *(
            _pump(channels, number, source)
            for number, source in ((STDOUT, session.stdout), (STDERR, session.stderr))
            if source >= 0
        )
    )
    hearing = asyncio.create_task(_hear(channels, session))
    end = asyncio.create_task(session.ended())
    try:
        await asyncio.wait((end, hearing), return_when=asyncio.FIRST_COMPLETED)
        if not end.done():
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await output
        return end.result()
    finally:
        await _stop(output, hearing, end)


async def _stop(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(channels: AnyChannels, number: int, source: int) -> None:
    with suppress(ConnectionError):
        async for piece in pieces(source):
            await channels.send(number, piece)


async def _hear(channels: AnyChannels, session: Session) -> None:
    """Forward the client's input to the session until the client disconnects."""
    async for channel, data in channels.messages():
        if channel == STDIN:
            await session.write(data)
        elif channel == CLOSE and data == bytes((STDIN,)):
            await session.end_input()
        elif channel == RESIZE:
            with suppress(ValueError, KeyError, TypeError):
                size = json.loads(data)
                session.resize(int(size["Width"]), int(size["Height"]))


async def attach(request: web.Request, attempt: Attempt) -> web.StreamResponse:
    """Forward the output of the container to the client, until the container ends."""
    spec, stdin = attempt.spec, _flag(request, "stdin")
    if stdin and not spec.stdin:
        name = request.match_info["container"]
        text = (
            f"container {name} has no standard input, because its spec does not set `stdin: true`; attach without -i, "
            "or use kubectl exec -i"
        )
        return web.Response(status=400, text=text)
    channels = _channels(request)
    socket = await channels.open(request)
    options = LogOptions(follow=True, since=since_text(dt.datetime.now(dt.UTC)), look_s=_LOOK_S)
    feed = Feed(attempt.path("stdin")) if stdin else None
    try:
        await _until_gone(channels, _pass_on(channels, attempt, options), feed, once=spec.stdin_once)
    finally:
        if feed is not None:
            feed.close()
    return socket


async def _pass_on(channels: AnyChannels, attempt: Attempt, options: LogOptions) -> None:
    def over() -> bool:
        return isinstance(attempt.state(), Exited) or not attempt.folder.exists()

    # the log was removed with its pod, or the client has disconnected
    with suppress(FileNotFoundError, ConnectionError):
        async for piece in read(attempt.log, options, over):
            await channels.send(STDOUT, piece)
        await channels.finish(_SUCCESS)


async def _until_gone(channels: AnyChannels, work: Awaitable[None], feed: Feed | None, *, once: bool) -> None:
    """Run `work` until the client disconnects; the client's input is passed to `feed`. `once`: end `feed` when the
    client closes its input or disconnects (stdinOnce)."""

    async def listen() -> None:
        async for channel, data in channels.messages():
            if feed is None:
                continue
            if channel == STDIN:
                await feed.data(data)
            elif channel == RESIZE:
                with suppress(ValueError, KeyError, TypeError):
                    size = json.loads(data)
                    await feed.resize(int(size["Width"]), int(size["Height"]))
            elif channel == CLOSE and data == bytes((STDIN,)) and once:
                await feed.end()
        if feed is not None and once:
            await feed.end()

    tasks = (asyncio.ensure_future(work), asyncio.create_task(listen()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _stop(*tasks)
