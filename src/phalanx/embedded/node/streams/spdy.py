"""SPDY/3.1 for port-forward, exec and attach: the protocol, and the use of its streams as the channels of a command.

The first part implements the needed part of the protocol: streams with headers, data, half-closed streams, pings. Newer
clients send SPDY inside a WebSocket (`SPDY/3.1+portforward.k8s.io`). For older clients, the API server puts the SPDY
data into a WebSocket. Neither side uses flow control, as in the library of Kubernetes (moby/spdystream). Headers are
compressed by one zlib stream for each direction, with the dictionary of the draft.

The second part uses the streams of a connection as the channels of an exec or attach, for older clients. The client
opens one stream for each channel, with the header `streamType`. The command starts when all streams that the query
requests are open. The end of a command is reported on the error stream, as a `v1.Status`.

Sources: SPDY Protocol - Draft 3.1 (sections 2.2 to 2.6); k8s.io/cri-streaming, remotecommand/httpstream.go, and
client-go/tools/remotecommand.
"""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import WSMsgType, web

from phalanx.embedded.node.streams.channels import CLOSE, ERROR, RESIZE, STDERR, STDIN, STDOUT

SYN_REPLY, RST_STREAM, PING = 2, 3, 6  # types of frames that the server sends
FIN = 0x01
_VERSION = 3
_FRAME_MOST_BYTES = 2**20
_HEADERS_MOST_BYTES = 64 * 1024
# The dictionary of section 2.6.10.1. The first part contains names and values, each preceded by its length. The rest
# has no lengths.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    "Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug "
    "Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(len(word).to_bytes(4) + word.encode() for word in (one.replace("_", " ") for one in _WORDS.split()))
    + _TAIL.encode()
)


class SpdyBroken(Exception):
    """Raised if the client does not follow SPDY/3.1, or exceeds a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpdyOpened:
    """A frame: the client has opened a stream."""

    stream: int
    headers: dict[str, str]
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """A frame with data of a stream. `last`: True if the client sends no more data on the stream."""

    stream: int
    data: bytes
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A frame: the client has cancelled a stream."""

    stream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinged:
    """A frame: a ping. `answer`: the frame that the server must send in response."""

    answer: bytes


Frame = SpdyOpened | Data | Reset | Pinged


class SpdyConnection:
    """The server's side of the protocol for one connection. The caller sends and receives the bytes."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    # --- received data -----------------------------------------------------------------------------------------------

    def hear(self, data: bytes) -> Iterator[Frame]:
        """Add received bytes, and yield all frames that are complete now. Raises SpdyBroken."""
        self._rest += data
        while len(self._rest) >= 8:
            size = int.from_bytes(self._rest[5:8])
            if size > _FRAME_MOST_BYTES:
                raise SpdyBroken("a frame that is too long")
            if len(self._rest) < 8 + size:
                return
            head, body = bytes(self._rest[:8]), bytes(self._rest[8 : 8 + size])
            del self._rest[: 8 + size]
            if (frame := self._frame(head, body)) is not None:
                yield frame

    def _frame(self, head: bytes, body: bytes) -> Frame | None:
        first, flags = int.from_bytes(head[:4]), head[4]
        if not first & 0x80000000:
            return Data(stream=first, data=body, last=bool(flags & FIN))
        if first >> 16 & 0x7FFF != _VERSION:
            raise SpdyBroken("another version than 3")
        try:
            match first & 0xFFFF:
                case 1:  # SYN_STREAM
                    stream = int.from_bytes(body[:4]) & 0x7FFFFFFF
                    return SpdyOpened(stream=stream, headers=self._headers(body[10:]), last=bool(flags & FIN))
                case 3:  # RST_STREAM
                    return Reset(stream=int.from_bytes(body[:4]) & 0x7FFFFFFF)
                case 6:  # PING
                    return Pinged(answer=_control(PING, 0, body))
                # A HEADERS frame has no further effect, but it must be decompressed, because the following headers
                # depend on it.
                case 8:
                    self._headers(body[4:])
        except (zlib.error, struct.error, UnicodeDecodeError) as error:
            raise SpdyBroken(str(error)) from None
        return None

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block, _HEADERS_MOST_BYTES)
        if self._inflate.unconsumed_tail:
            raise SpdyBroken("headers that are too long")
        (count,) = struct.unpack_from("!I", plain)
        found, at = {}, 4
        for _ in range(count):
            name, at = _text(plain, at)
            value, at = _text(plain, at)
            found[name.lower()] = value
        return found

    # --- sent frames ------------------------------------------------------------------------------------------------

    def accepted(self, stream: int) -> bytes:
        """Return the frame that accepts a stream: SYN_REPLY without headers."""
        block = self._deflate.compress((0).to_bytes(4)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(SYN_REPLY, 0, stream.to_bytes(4) + block)


def data_frame(stream: int, payload: bytes, *, last: bool = False) -> bytes:
    """Return a frame of data. `last`: True if nothing more is sent on the stream."""
    return stream.to_bytes(4) + bytes((FIN if last else 0,)) + len(payload).to_bytes(3) + payload


def reset(stream: int) -> bytes:
    """Return the frame that cancels a stream: RST_STREAM with the code CANCEL."""
    return _control(RST_STREAM, 0, stream.to_bytes(4) + (5).to_bytes(4))


def _control(kind: int, flags: int, body: bytes) -> bytes:
    return (0x8000 | _VERSION).to_bytes(2) + kind.to_bytes(2) + bytes((flags,)) + len(body).to_bytes(3) + body


def _text(plain: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("!I", plain, at)
    end = at + 4 + size
    if end > len(plain):
        raise SpdyBroken("a header that is cut off")
    return plain[at + 4 : end].decode(), end


# --- channels ---------------------------------------------------------------------------------------------------------

# over SPDY, both versions have the same protocol
PROTOCOLS = ("SPDY/3.1+v5.channel.k8s.io", "SPDY/3.1+v4.channel.k8s.io")
_CHANNELS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
_OPENING_S = 30.0


class SpdyChannels:
    """The channels of a command over SPDY. The methods are those of `Channels`. Call `open` first. `asked`: the
    channels that the client will open."""

    def __init__(self, asked: frozenset[int]) -> None:
        self._socket = web.WebSocketResponse(protocols=PROTOCOLS)
        self._connection = SpdyConnection()
        self._asked = asked
        self._streams: dict[int, int] = {}  # channel -> stream
        self._channels: dict[int, int] = {}  # stream -> channel
        self._early: deque[tuple[int, bytes]] = deque()

    async def open(self, request: web.Request) -> web.WebSocketResponse:
        """Respond to the handshake, and wait for the streams. Close the connection if the client does not open them in
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
            await self._socket.send_bytes(data_frame(stream, data))

    async def finish(self, status: dict[str, Any]) -> None:
        """Send the final status of the command, and close the connection."""
        await self.send(ERROR, json.dumps({"metadata": {}, **status}).encode())
        for channel in (STDOUT, STDERR, ERROR):
            if (stream := self._streams.get(channel)) is not None:
                await self._socket.send_bytes(data_frame(stream, b"", last=True))
        await self._socket.close()

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (channel, data) as they arrive, until the client disconnects."""
        heard: deque[tuple[int, bytes]] | None = self._early
        while heard is not None:
            for one in heard:
                yield one
            heard = await self._hear()

    async def _hear(self) -> deque[tuple[int, bytes]] | None:
        """Return the data in the next message; None if the client has disconnected or does not follow SPDY."""
        message = await self._socket.receive()
        if message.type is not WSMsgType.BINARY:
            return None
        found: deque[tuple[int, bytes]] = deque()
        try:
            for frame in self._connection.hear(message.data):
                match frame:
                    case SpdyOpened():
                        await self._open(frame)
                    case Data() if (channel := self._channels.get(frame.stream)) is not None:
                        found += [(channel, frame.data)] if frame.data else []
                        found += [(CLOSE, bytes((channel,)))] if frame.last else []
                    case Pinged():
                        await self._socket.send_bytes(frame.answer)
        except (SpdyBroken, ConnectionError):
            return None
        return found

    async def _open(self, frame: SpdyOpened) -> None:
        channel = _CHANNELS.get(frame.headers.get("streamtype", ""))
        if channel is None or channel in self._streams:
            await self._socket.send_bytes(reset(frame.stream))
            return
        self._streams[channel], self._channels[frame.stream] = frame.stream, channel
        await self._socket.send_bytes(self._connection.accepted(frame.stream))
