"""`streams/forward.py`: connections of `kubectl port-forward` to the ports of a pod."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from phalanx.embedded.node.streams import forward, spdy
from phalanx.embedded.node.streams.forward import TUNNEL, Line
from tests.embedded.node.streams.test_spdy import opened

HERE = "127.0.0.1"
Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send everything back, and close after the end of the input."""
    while piece := await reader.read(1 << 16):
        writer.write(piece)
    writer.write(b"|end")
    await writer.drain()
    writer.close()


@asynccontextmanager
async def program(serve: Served = echo) -> AsyncIterator[int]:
    """A program in a pod; yields its port."""
    server = await asyncio.start_server(serve, HERE, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def free_port() -> int:
    async with program() as port:
        return port


class Heard:
    """What a client gets of one connection."""

    def __init__(self) -> None:
        self.data, self.error = b"", b""

    async def send(self, piece: bytes) -> None:
        self.data += piece

    async def fail(self, text: bytes) -> None:
        self.error += text


# --- one connection ---------------------------------------------------------------------------------------------------


async def test_data_passes_in_both_directions_until_both_have_ended() -> None:
    async with program() as port:
        line, heard = Line(HERE, port), Heard()
        for piece in (b"one ", b"two", None):
            await line.give(piece)
        await line.run(heard.send, heard.fail)
    assert (heard.data, heard.error) == (b"one two|end", b"")


async def test_a_port_on_which_nothing_listens_is_an_error_of_the_client() -> None:
    port, heard = await free_port(), Heard()
    await Line(HERE, port).run(heard.send, heard.fail)
    assert heard.data == b""
    assert heard.error.startswith(f"error forwarding port {port}: dial {HERE}:{port}: ".encode())


async def test_an_address_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", hang)
    monkeypatch.setattr(forward, "_CONNECT_S", 0.01)
    heard = Heard()
    await Line(HERE, 1).run(heard.send, heard.fail)
    assert heard.error.startswith(b"error forwarding port 1: dial 127.0.0.1:1: ")


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close without reading the request, as a server that refuses an upload."""
    writer.close()


async def test_a_client_does_not_wait_for_a_program_that_has_hung_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the whole tunnel would wait, with all of its other connections."""
    monkeypatch.setattr(forward, "_WAITING_PIECES", 2)
    async with program(hangs_up) as port:
        line, heard = Line(HERE, port), Heard()
        await line.give(b"x")
        await line.give(b"x")
        waits = asyncio.ensure_future(line.give(b"x"))
        await line.run(heard.send, heard.fail)
        await asyncio.wait_for(waits, 60)
        for _ in range(5):
            await asyncio.wait_for(line.give(b"late"), 60)
    assert heard.error == b""


async def test_a_program_that_reads_slowly_holds_up_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "_WAITING_PIECES", 1)
    line = Line(HERE, 1)
    await line.give(b"x")
    waits = asyncio.ensure_future(line.give(b"y"))
    await asyncio.sleep(0)
    assert not waits.done()
    waits.cancel()


# --- a WebSocket with SPDY in it --------------------------------------------------------------------------------------


@asynccontextmanager
async def node(query: str = "", *protocols: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A client whose handshake the node has answered."""
    application = web.Application()

    async def answer(request: web.Request) -> web.StreamResponse:
        return await forward.forward(request, HERE)

    application.router.add_get("/", answer)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, HERE, 0).start()
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"http://{HERE}:{runner.addresses[0][1]}/{query}", protocols=protocols) as socket,
        ):
            yield socket
    finally:
        await runner.cleanup()


class Kubectl:
    """The client's side of a tunnel. `streams`: what came on each stream. `ended`: the streams that have ended."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._packer = socket, zlib.compressobj(zdict=spdy.DICTIONARY)
        self._heard = spdy.SpdyConnection()
        self.streams: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.reset: set[int] = set()
        self.pings: list[bytes] = []

    async def connect(self, number: int, port: object, stream: int) -> None:
        """Open the two streams of a connection: `stream` for errors, and the next one for data."""
        for at, kind in ((stream, "error"), (stream + 2, "data")):
            headers = {"streamtype": kind, "port": str(port), "requestid": str(number)}
            await self._socket.send_bytes(opened(at, headers, self._packer, last=kind == "error"))

    async def send(self, stream: int, data: bytes, *, last: bool = False) -> None:
        await self._socket.send_bytes(spdy.data_frame(stream, data, last=last))

    async def until(self, *ended: int) -> None:
        """Wait until these streams have ended or were reset."""
        async with asyncio.timeout(60):
            while not set(ended) <= self.ended | self.reset:
                await self.hear()

    async def hear(self) -> None:
        data = (await self._socket.receive()).data
        kind = int.from_bytes(data[2:4]) if data[0] & 0x80 else 0
        stream = int.from_bytes(data[8:12] if kind else data[:4]) & 0x7FFFFFFF
        if kind == 0:
            self.streams[stream] = self.streams.get(stream, b"") + data[8:]
            if data[4] & 1:
                self.ended.add(stream)
        elif kind == 3:
            self.reset.add(stream)
        elif kind == 6:
            self.pings.append(data)


async def test_a_tunnel_carries_several_connections() -> None:
    async with program() as port, node("", TUNNEL) as socket:
        client = Kubectl(socket)
        for number, stream in enumerate((1, 5)):
            await client.connect(number, port, stream)
        await client.send(7, b"second", last=True)
        await client.send(3, b"first", last=True)
        await client.until(1, 3, 5, 7)
        assert client.streams == {3: b"first|end", 7: b"second|end", 1: b"", 5: b""}


async def test_an_error_comes_on_the_error_stream_of_its_connection() -> None:
    port = await free_port()
    async with node("", TUNNEL) as socket:
        client = Kubectl(socket)
        await client.connect(0, port, 1)
        await client.until(1, 3)
        assert client.streams[1].startswith(f"error forwarding port {port}".encode())
        assert client.streams[3] == b""


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x", ""])
async def test_a_port_that_cannot_be_is_refused(port: str) -> None:
    async with node("", TUNNEL) as socket:
        client = Kubectl(socket)
        await client.connect(0, port, 1)
        await client.until(3)
        assert client.reset == {3}


async def test_a_client_has_a_limited_number_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "_MOST_CONNECTIONS", 1)
    async with program() as port, node("", TUNNEL) as socket:
        client = Kubectl(socket)
        await client.connect(0, port, 1)
        await client.connect(1, port, 5)
        await client.until(7)
        await client.send(3, b"", last=True)
        await client.until(3)
        await client.connect(2, port, 9)
        await client.send(11, b"", last=True)
        await client.until(11)
        assert client.reset == {7}


async def test_a_reset_ends_its_connection_alone() -> None:
    gone = asyncio.Event()

    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await reader.read()
        gone.set()
        writer.close()

    async with program(waits) as port, program() as other, node("", TUNNEL) as socket:
        client = Kubectl(socket)
        await client.connect(0, port, 1)
        await client.connect(1, other, 5)
        while not client.streams.get(3):
            await client.hear()
        await socket.send_bytes(spdy.reset(3))
        await asyncio.wait_for(gone.wait(), 60)
        await client.send(7, b"still", last=True)
        await client.until(7)
        assert client.streams[7] == b"still|end"


async def test_a_ping_is_answered_and_nonsense_ends_the_tunnel() -> None:
    async with node("", TUNNEL) as socket:
        client, ping = Kubectl(socket), b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x07"
        await socket.send_bytes(ping)
        await client.hear()
        assert client.pings == [ping]
        await socket.send_bytes(b"\x80\x02" + bytes(10))
        assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


async def test_connections_end_with_their_client() -> None:
    gone = asyncio.Event()

    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await reader.read()
        gone.set()
        writer.close()

    async with program(waits) as port:
        async with node("", TUNNEL) as socket:
            client = Kubectl(socket)
            await client.connect(0, port, 1)
            while not client.streams.get(3):
                await client.hear()
        await asyncio.wait_for(gone.wait(), 60)


# --- channels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    ["", "?ports=", "?ports=x", "?ports=0", "?ports=65536", "?ports=1&ports=1,", "?ports=" + ",".join("1" * 65)],
)
async def test_the_ports_of_channels_are_between_1_and_64(query: str) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as raised:
        async with node(query, "v4.channel.k8s.io"):
            pass
    assert raised.value.status == 400


async def test_each_port_has_a_channel_for_data_and_one_for_errors() -> None:
    closed = await free_port()
    async with program() as port, node(f"?ports={port},{closed}", "v4.channel.k8s.io") as socket:
        heard: dict[int, bytes] = {}
        await socket.send_bytes(b"\x00hello")
        async with asyncio.timeout(60):
            while not (heard.get(0, b"").endswith(b"hello") and len(heard.get(3, b"")) > 2):
                data = (await socket.receive()).data
                heard[data[0]] = heard.get(data[0], b"") + data[1:]
        assert heard[0] == struct.pack("<H", port) + b"hello", "the first message of a channel is its port"
        assert heard[1] == struct.pack("<H", port)
        assert heard[2] == struct.pack("<H", closed)
        assert heard[3].startswith(struct.pack("<H", closed) + b"error forwarding port")


async def test_messages_for_channels_that_do_not_exist_are_ignored() -> None:
    async with program() as port, node(f"?ports={port}", "v4.channel.k8s.io") as socket:
        for channel in (1, 2, 9):
            await socket.send_bytes(bytes([channel]) + b"x")
        await socket.send_bytes(b"\x00y")
        heard = b""
        async with asyncio.timeout(60):
            while not heard.endswith(b"y"):
                data = (await socket.receive()).data
                heard += data[1:] if data[0] == 0 else b""
        assert heard == struct.pack("<H", port) + b"y"
