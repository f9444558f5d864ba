"""Connect to the step daemon of a pod through the API server. This is necessary if the caller is outside of the
cluster, or if a network policy blocks connections to the address of the pod.

`pods/exec` starts the program `pipe` in the pod, which copies bytes to the daemon of the pod and back. The API server
forwards these bytes over an encrypted WebSocket (RFC 6455) with the subprotocol v4.channel.k8s.io. The caller gets an
ordinary socket. A thread with its own event loop copies bytes between the other end of this socket and the WebSocket.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import struct
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import suppress
from urllib.parse import urlencode

import msgspec

from phalanx.errors import PhalanxError
from phalanx.slurm.cluster.api import PODS, ApiClient
from phalanx.slurm.jobs.steps.pods.channel import Broken

CONTAINER = "batch"
_PROTOCOL = "v4.channel.k8s.io"
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_AT_A_TIME = 1 << 16


def connect(api: ApiClient, pod: str, command: list[str], timeout_s: float) -> socket.socket:
    """Start a program in the pod, and return a socket that is connected to its standard input and output. Raises Broken
    if the program cannot be started. Raises TimeoutError after `timeout_s` seconds."""
    ours, theirs = socket.socketpair()
    opened: Future[None] = Future()
    threading.Thread(target=lambda: asyncio.run(_serve(api, pod, command, theirs, opened)), daemon=True).start()
    try:
        opened.result(timeout_s)
    except BaseException:
        ours.close()
        raise
    return ours


async def _serve(api: ApiClient, pod: str, command: list[str], inner: socket.socket, opened: Future[None]) -> None:
    """Copy bytes between the socket and the WebSocket until one side ends. `inner`: the other end of the caller's
    socket. `opened`: a future that gets a result when the program has started, or the error if it cannot be started."""
    with inner:
        try:
            reader, writer = await _opened(api, pod, command)
        except (PhalanxError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            opened.set_exception(error if isinstance(error, Broken) else Broken(f"pod {pod}: {error}"))
            return
        inner_reader, inner_writer = await asyncio.open_connection(sock=inner)
        opened.set_result(None)
        link = _Link(reader, writer)
        ways = {
            asyncio.create_task(_outwards(inner_reader, link)), asyncio.create_task(_inwards(link, inner_writer, pod))
        }  # fmt: skip
        _, left = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for one in (inner_writer, writer):
            one.close()


async def _opened(api: ApiClient, pod: str, command: list[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open the WebSocket to `pods/exec`, and return its streams. Raises Broken if the API server refuses; raises
    PhalanxError, OSError."""
    host, port, tls = api.endpoint()
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=1 << 20)
    wanted = [("container", CONTAINER), *((name, "true") for name in ("stdin", "stdout", "stderr"))]
    query = urlencode([*wanted, *(("command", word) for word in command)])
    lines = [
        f"GET {api.path(PODS)}/{pod}/exec?{query} HTTP/1.1",
        f"Host: [{host}]:{port}" if ":" in host else f"Host: {host}:{port}",
        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}", f"Sec-WebSocket-Protocol: {_PROTOCOL}",
        *(f"{name}: {value}" for name, value in api.headers.items()),
    ]  # fmt: skip
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    if head.split(maxsplit=2)[1] != "101":
        said = await reader.read(_AT_A_TIME)
        writer.close()
        raise Broken(f"pod {pod}: the API server does not start a program in it: {_message(said, head)}")
    return reader, writer


def _message(content: bytes, head: str) -> str:
    try:
        return str(msgspec.json.decode(content)["message"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return head.partition("\r\n")[0]


async def _outwards(inner: asyncio.StreamReader, link: _Link) -> None:
    while part := await inner.read(_AT_A_TIME):
        await link.send(_BINARY, bytes((_STDIN,)) + part)
    await link.send(_CLOSE, struct.pack("!H", 1000))


async def _inwards(link: _Link, inner: asyncio.StreamWriter, pod: str) -> None:
    async for message in link.messages():
        if message[:1] == bytes((_STDOUT,)):
            inner.write(message[1:])
            await inner.drain()
        elif message[:1] == bytes((_STDERR,)):
            os.write(2, f"srun: pod {pod}: ".encode() + message[1:])


class _Link:
    """The client side of a WebSocket connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, kind: int, content: bytes) -> None:
        """Send a frame. The protocol requires that the frames of clients are masked."""
        length = len(content)
        short = length if length < 126 else 126 if length < 1 << 16 else 127
        head = bytes((0x80 | kind, 0x80 | short))
        head += b"" if short < 126 else length.to_bytes(2 if short == 126 else 8)
        mask = os.urandom(4)
        key = (mask * (length // 4 + 1))[:length]
        masked = (int.from_bytes(content) ^ int.from_bytes(key)).to_bytes(length)
        self._writer.write(head + mask + masked)
        await self._writer.drain()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield each message when all its frames have arrived, until the server ends the connection."""
        whole = b""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                first, second = await self._reader.readexactly(2)
                length = second & 0x7F
                if length > 125:
                    length = int.from_bytes(await self._reader.readexactly(2 if length == 126 else 8))
                content = await self._reader.readexactly(length)
                kind = first & 0x0F
                if kind == _CLOSE:
                    return
                if kind == _PING:
                    await self.send(_PONG, content)
                elif kind != _PONG:
                    whole += content
                    if first & 0x80:
                        yield whole
                        whole = b""
