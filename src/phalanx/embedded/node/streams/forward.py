"""Serve `kubectl port-forward`: forward connections of the client's machine to ports at the address of a pod.

kubectl sends SPDY through a WebSocket. Each connection has a stream for data and a stream for errors, with the same
`requestID`. Other clients name the ports in the query, and use two channels for each port (`v4.channel.k8s.io`); the
first message of a channel is the port. Source: pkg/kubelet/portforward and client-go/tools/portforward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiohttp import WSMsgType, web

from phalanx.embedded.node.streams import spdy
from phalanx.embedded.node.streams.channels import Channels

TUNNEL = "SPDY/3.1+portforward.k8s.io"
_BY_PORTS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")
_CONNECT_S = 10.0
_PIECE_BYTES = 32 * 1024
_MOST_CONNECTIONS = 256  # the maximum number of connections of one client
_WAITING_PIECES = 64

Send = Callable[[bytes], Awaitable[None]]


class Line:
    """A connection to a port of the pod. `give` is called with data from the client; None marks the end of the data."""

    def __init__(self, address: str, port: int) -> None:
        self._address, self._port = address, port
        self._given: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING_PIECES)
        self._is_over = False

    async def give(self, data: bytes | None) -> None:
        """Send data to the pod. If the pod reads slowly, wait. Data after the end of the connection is dropped."""
        if not self._is_over:
            await self._given.put(data)

    async def run(self, send: Send, fail: Send) -> None:
        """Copy data in both directions until both sides have ended. `fail`: a function that sends an error text to the
        client."""
        try:
            await self._connect(send, fail)
        finally:
            self._is_over = True
            # empty the queue, so that `give` does not wait for a connection that has ended
            while not self._given.empty():
                self._given.get_nowait()

    async def _connect(self, send: Send, fail: Send) -> None:
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(self._address, self._port)
        except (OSError, TimeoutError) as error:
            await fail(f"error forwarding port {self._port}: dial {self._address}:{self._port}: {error}".encode())
            return
        up = asyncio.create_task(self._up(writer))
        try:
            with suppress(ConnectionError):
                while piece := await reader.read(_PIECE_BYTES):
                    await send(piece)
        finally:
            up.cancel()
            writer.close()

    async def _up(self, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while (piece := await self._given.get()) is not None:
                writer.write(piece)
                await writer.drain()
            writer.write_eof()


async def forward(request: web.Request, address: str) -> web.StreamResponse:
    """Forward the client's connections to the ports of the pod at `address`."""
    asked = request.headers.get("Sec-WebSocket-Protocol", "")
    if TUNNEL in asked:
        return await _tunnel(request, address)
    return await _by_ports(request, address)


# --- SPDY in a WebSocket ----------------------------------------------------------------------------------------------


async def _tunnel(request: web.Request, address: str) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=(TUNNEL,))
    await socket.prepare(request)
    async with asyncio.TaskGroup() as group:
        tunnel = _Tunnel(socket, address, group)
        with suppress(spdy.SpdyBroken, ConnectionError):
            async for message in socket:
                if message.type is not WSMsgType.BINARY:
                    break
                await tunnel.hear(message.data)
        tunnel.end()
    await socket.close()
    return socket


class _Tunnel:
    """The SPDY streams of one client, with their connections."""

    def __init__(self, socket: web.WebSocketResponse, address: str, group: asyncio.TaskGroup) -> None:
        self._socket, self._address, self._group = socket, address, group
        self._connection = spdy.SpdyConnection()
        self._errors: dict[str, int] = {}  # requestID -> error stream, until the data stream is opened
        self._lines: dict[int, Line] = {}  # number of a data stream -> its `Line`
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def hear(self, data: bytes) -> None:
        """Handle data from the client. Raises spdy.SpdyBroken, ConnectionError."""
        for frame in self._connection.hear(data):
            match frame:
                case spdy.SpdyOpened():
                    await self._open(frame)
                case spdy.Data() if frame.stream in self._lines:
                    line = self._lines[frame.stream]
                    if frame.data:
                        await line.give(frame.data)
                    if frame.last:
                        await line.give(None)
                case spdy.Reset() if frame.stream in self._tasks:
                    self._tasks[frame.stream].cancel()
                case spdy.Pinged():
                    await self._socket.send_bytes(frame.answer)

    async def _open(self, frame: spdy.SpdyOpened) -> None:
        headers = frame.headers
        await self._socket.send_bytes(self._connection.accepted(frame.stream))
        request, port = headers.get("requestid", ""), headers.get("port", "")
        if headers.get("streamtype") == "error":
            self._errors[request] = frame.stream
        elif not port.isdecimal() or not 0 < int(port) < 2**16 or len(self._lines) >= _MOST_CONNECTIONS:
            await self._socket.send_bytes(spdy.reset(frame.stream))
        else:
            line = self._lines[frame.stream] = Line(self._address, int(port))
            self._tasks[frame.stream] = self._group.create_task(
                self._run(line, frame.stream, self._errors.pop(request, 0))
            )

    async def _run(self, line: Line, stream: int, errors: int) -> None:
        async def send(piece: bytes) -> None:
            await self._socket.send_bytes(spdy.data_frame(stream, piece))

        async def fail(text: bytes) -> None:
            if errors:
                await self._socket.send_bytes(spdy.data_frame(errors, text))

        try:
            with suppress(ConnectionError):
                await line.run(send, fail)
                await self._socket.send_bytes(spdy.data_frame(stream, b"", last=True))
                if errors:
                    await self._socket.send_bytes(spdy.data_frame(errors, b"", last=True))
        finally:
            del self._lines[stream], self._tasks[stream]

    def end(self) -> None:
        """End all connections, because the client has disconnected."""
        for task in list(self._tasks.values()):
            task.cancel()


# --- channels ---------------------------------------------------------------------------------------------------------


async def _by_ports(request: web.Request, address: str) -> web.StreamResponse:
    texts = [port for one in request.query.getall("ports", []) for port in one.split(",")]
    if not texts or not all(one.isdecimal() and 0 < int(one) < 2**16 for one in texts) or len(texts) > 64:
        return web.Response(status=400, text='query parameter "ports" must name between 1 and 64 ports')
    channels = Channels(_BY_PORTS)
    socket = await channels.open(request)
    lines = [Line(address, int(one)) for one in texts]
    both = (_hear_ports(channels, lines), _all_channels(channels, lines, [int(one) for one in texts]))
    tasks = [asyncio.create_task(one) for one in both]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await socket.close()
    return socket


async def _hear_ports(channels: Channels, lines: list[Line]) -> None:
    async for channel, data in channels.messages():
        place, is_error = divmod(channel, 2)
        if not is_error and place < len(lines):
            await lines[place].give(data)


async def _all_channels(channels: Channels, lines: list[Line], ports: list[int]) -> None:
    """Wait until every connection has ended."""
    async with asyncio.TaskGroup() as group:
        for place, (line, port) in enumerate(zip(lines, ports, strict=True)):
            group.create_task(_channel(channels, place, line, port))


async def _channel(channels: Channels, place: int, line: Line, port: int) -> None:
    async def send(piece: bytes) -> None:
        await channels.send(2 * place, piece)

    async def fail(text: bytes) -> None:
        await channels.send(2 * place + 1, text)

    with suppress(ConnectionError):
        await send(port.to_bytes(2, "little"))
        await fail(port.to_bytes(2, "little"))
        await line.run(send, fail)
