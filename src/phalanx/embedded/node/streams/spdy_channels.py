"""Use the streams of a SPDY connection as the channels of an exec or attach, for older clients.

The API server tunnels the clients' SPDY in a WebSocket, as clients of port-forward do themselves. For each channel the
client opens a stream with a header `streamType`. The command starts when all streams of the query are open. The end of
a command is reported on the error stream, as a `v1.Status`.

Source: k8s.io/cri-streaming, remotecommand/httpstream.go, and client-go/tools/remotecommand.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web

from phalanx.embedded.node.streams import spdy
from phalanx.embedded.node.streams.channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT

PROTOCOLS = ("SPDY/3.1+v5.channel.k8s.io", "SPDY/3.1+v4.channel.k8s.io")  # over SPDY they are the same
_CHANNELS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
_OPENING_S = 30.0


class SpdyChannels:
    """The same as `Channels`, over SPDY. Call `open` first. `asked`: the channels that the client will open."""

    def __init__(self, asked: frozenset[int]) -> None:
        self._socket = web.WebSocketResponse(protocols=PROTOCOLS)
        self._connection = spdy.SpdyConnection()
        self._asked = asked
        self._streams: dict[int, int] = {}  # channel -> stream
        self._channels: dict[int, int] = {}  # stream -> channel
        self._early: deque[tuple[int, bytes]] = deque()

    async def open(self, request: web.Request) -> web.WebSocketResponse:
        """Answer the handshake and wait for the streams; close the connection if the client does not open them in
        time."""
        await self._socket.prepare(request)
        with suppress(TimeoutError):
            async with asyncio.timeout(_OPENING_S):
                while not self._asked <= self._streams.keys() and (heard := await self._hear()) is not None:
                    self._early += heard
        if not self._asked <= self._streams.keys():
            await self._socket.close()
        return self._socket

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel. Raises ConnectionError if the client has disconnected."""
        if (stream := self._streams.get(channel)) is not None:
            await self._socket.send_bytes(spdy.data(stream, data))

    async def finish(self, status: dict[str, Any]) -> None:
        """Send the final status of the command, and close the connection."""
        await self.send(ERROR, json.dumps({"metadata": {}, **status}).encode())
        for channel in (STDOUT, STDERR, ERROR):
            if (stream := self._streams.get(channel)) is not None:
                await self._socket.send_bytes(spdy.data(stream, b"", last=True))
        await self._socket.close()

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (channel, data) as they arrive, until the client disconnects."""
        heard: deque[tuple[int, bytes]] | None = self._early
        while heard is not None:
            for one in heard:
                yield one
            heard = await self._hear()

    async def _hear(self) -> deque[tuple[int, bytes]] | None:
        """Return the data in the next message; None if the client has disconnected or does not speak SPDY."""
        message = await self._socket.receive()
        if message.type is not WSMsgType.BINARY:
            return None
        found: deque[tuple[int, bytes]] = deque()
        try:
            for frame in self._connection.hear(message.data):
                match frame:
                    case spdy.SpdyOpened():
                        await self._open(frame)
                    case spdy.Data() if (channel := self._channels.get(frame.stream)) is not None:
                        found += [(channel, frame.data)] if frame.data else []
                        found += [(CLOSE, bytes((channel,)))] if frame.last else []
                    case spdy.Pinged():
                        await self._socket.send_bytes(frame.answer)
        except (spdy.SpdyBroken, ConnectionError):
            return None
        return found

    async def _open(self, frame: spdy.SpdyOpened) -> None:
        channel = _CHANNELS.get(frame.headers.get("streamtype", ""))
        if channel is None or channel in self._streams:
            await self._socket.send_bytes(spdy.reset(frame.stream))
            return
        self._streams[channel], self._channels[frame.stream] = frame.stream, channel
        await self._socket.send_bytes(self._connection.accepted(frame.stream))
