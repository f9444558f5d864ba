"""Both sides of a connection joined: what the client says goes to who answered its handshake, and the reverse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from phalanx.embedded.apimachinery.meta.status import ApiError
from phalanx.embedded.apiserver.endpoints.subresources.node_client import refused
from phalanx.embedded.apiserver.transport.request import Response
from phalanx.embedded.apiserver.transport.websocket import Unwrapper, wrapped

_ANSWER_TIMEOUT_S = 10.0
_WAITING_MOST_BYTES = 2**20
_PIECE_BYTES = 64 * 1024


async def answered(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handshake: bytes, spdy: str = ""
) -> Response:
    """Return the answer to the handshake, and the connection after it. `spdy`: the client uses SPDY, not WebSocket.
    Raises `ApiError` if it refuses the handshake."""
    try:
        writer.write(handshake)
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            head = await reader.readuntil(b"\r\n\r\n")
            code = int(head.split(b" ", 2)[1])
            if code != 101:
                text = await reader.read(Tunnel.HEAD_BYTES)
                raise refused(code, text.decode(errors="replace"))
    except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        writer.close()
        raise ApiError(500, "InternalError", f"error dialing backend: {error}") from None
    except ApiError:
        writer.close()
        raise
    return Response(code=101, tunnel=SpdyTunnel(spdy, reader, writer) if spdy else Tunnel(head, reader, writer))


class Tunnel:
    """The other side of a connection. Iterating yields the data for the client, beginning with the answer to its
    handshake."""

    HEAD_BYTES = 64 * 1024  # the longest answer to a handshake

    def __init__(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._head, self._reader, self._writer = head, reader, writer
        writer.transport.set_write_buffer_limits(high=_WAITING_MOST_BYTES)

    def write(self, data: bytes) -> bool:
        """Pass on what the client says. Return whether it should wait until `drained`."""
        self._writer.write(data)
        return self._writer.transport.get_write_buffer_size() > _WAITING_MOST_BYTES

    async def drained(self) -> None:
        """Wait until the node has read enough. Raises OSError."""
        await self._writer.drain()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._head
        while piece := await self._read():
            yield piece

    async def _read(self) -> bytes:
        """Return the next data of the other side; b"" if it has disconnected."""
        try:
            return await self._reader.read(_PIECE_BYTES)
        except OSError:
            return b""

    async def aclose(self) -> None:
        self._writer.close()


class SpdyTunnel(Tunnel):
    """A tunnel whose client speaks SPDY, and whose other side has it in binary messages of a WebSocket."""

    def __init__(self, protocol: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            f"X-Stream-Protocol-Version: {protocol}\r\n\r\n"
        )
        super().__init__(head.encode(), reader, writer)

    def write(self, data: bytes) -> bool:
        return super().write(wrapped(data))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._head
        messages = Unwrapper()
        while not messages.over and (piece := await self._read()):
            yield messages.hear(piece)
