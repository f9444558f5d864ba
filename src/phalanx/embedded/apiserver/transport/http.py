"""HTTP/1.1, as far as an API server needs it.

Each client connection has a `ServerConnection`. The library httptools parses the received bytes. Each complete request
becomes a task, which calls the application, and the response is sent in one write. (With a general ASGI server, a third
of the time of a pod's creation would be spent in that server: docs/decisions/0010.) The requests of one connection are
handled in order, one at a time.

A stream is sent in chunks. While the client does not read, the stream waits (`pause_writing`), so a slow client fills
only the buffer of its own watch. When a client disconnects, its stream ends, but a write that the server has already
accepted is completed.

Connections and memory are limited (`HttpLimits`). The server calls `expire` every few seconds. `expire` closes a
connection if it is idle for too long, if its request stays incomplete for too long, or if its client does not read the
response for too long. If all bodies together take too much memory, the connection with the oldest incomplete request is
closed."""

from __future__ import annotations

import asyncio
import http
import logging
import math
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import unquote

import httptools

from phalanx.embedded.apimachinery.connections import Connections
from phalanx.embedded.apiserver.transport import websocket
from phalanx.embedded.apiserver.transport.request import Response, Stream, Tunnel
from phalanx.embedded.apiserver.transport.websocket import Listener, WebSocketBroken

_log = logging.getLogger(__name__)
_KEPT_HEADERS = frozenset({b"authorization", b"accept", b"content-type", b"user-agent", b"host"}) | {
    b"impersonate-user",
    b"impersonate-group",
    b"impersonate-uid",
}
_PASSED_ON = b"/proxy"  # a request whose URL contains this may be forwarded to a pod, so all its headers are kept
_WRITE_HIGH_WATER_BYTES = 2**20
_PIPELINE_LIMIT = 16
_HEADERS_LIMIT_BYTES = 64 * 1024  # the limit on the headers together with the URL
_STATUS_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in http.HTTPStatus}


def _ignore_user(user: str, limited: bool) -> None:
    """Do nothing. This is the default of `RawRequest.known`."""


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A parsed request. `headers`: the headers that the server uses, with names in lower case."""

    method: str
    path: str
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes
    keep_alive: bool = True
    chunked_ok: bool = True
    websocket_key: bytes = b""  # not empty if the client asks for a stream over WebSocket
    websocket_protocols: bytes = b""
    spdy_protocols: bytes = b""  # not empty if the client asks for SPDY with one of these protocols
    raw_path: bytes = b""  # the path as the client sent it, with its escapes
    others: tuple[tuple[bytes, bytes], ...] = ()  # all other headers of a request that will be forwarded
    # a function that is called with the user, and with True if the user's connections are limited
    known: Callable[[str, bool], None] = _ignore_user


Application = Callable[[RawRequest], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """The limits of a connection. `held_bytes`: the limit on the total size of all request bodies to which the server
    has not responded yet, over all connections. A connection whose bodies have fewer than `small_bytes` bytes is not
    closed because of this limit. `request_s`: the longest time from the first byte of a request to its last.
    `unread_s`: how long a client may leave its response unread."""

    body_bytes: int
    held_bytes: int = 256 * 2**20
    small_bytes: int = 256 * 2**10
    idle_s: float = 300.0
    request_s: float = 60.0
    unread_s: float = 60.0


# The first bytes of a request, up to its path. The method consists of capital letters.
_UNKNOWN_METHOD = re.compile(rb"(?!TRACE )[A-Z]{2,20} ")


class IncomingRequest:
    """The request that a connection receives at present. The parser calls the methods `on_…`. `begun_s`: the time when
    the first byte of the incomplete request arrived; None if there is no such request."""

    def __init__(self, connection: ServerConnection, transport: asyncio.Transport, limits: HttpLimits) -> None:
        self._connection, self._transport, self._limits = connection, transport, limits
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._headers_bytes = 0
        self.websocket_key = self._websocket_protocols = self._spdy_protocols = b""
        self._others: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._body_bytes = 0
        self.begun_s: float | None = None

    def feed(self, data: bytes) -> bytes | None:
        """Parse received bytes. If a request switches to another protocol (such as WebSocket), return the bytes after
        this request; otherwise return None."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return data[upgrade.args[0] :]
        except httptools.HttpParserInvalidMethodError:
            return self._feed_unknown_method(data)
        except httptools.HttpParserError:
            self._connection.refuse(400, "the request is not HTTP/1.1")
        return None

    def _feed_unknown_method(self, data: bytes) -> bytes | None:
        """Parse a request again after the parser has failed, because it does not know the method. The method is
        replaced by TRACE, which the parser knows and the server refuses on every path."""
        found = _UNKNOWN_METHOD.match(data)
        if found is None:
            self._connection.refuse(400, "the request is not HTTP/1.1")
            return None
        self._parser = httptools.HttpRequestParser(self)
        return self.feed(b"TRACE" + data[found.end() - 1 :])

    @property
    def body_bytes(self) -> int:
        """Return the number of received bytes of the body, at most the limit on a body."""
        return min(self._body_bytes, self._limits.body_bytes)

    def drop_body(self) -> None:
        """Free the memory of the body, because the request will not be handled."""
        self._body = []

    def on_message_begin(self) -> None:
        self._url, self._headers, self._headers_bytes = b"", {}, 0
        self.websocket_key = self._websocket_protocols = self._spdy_protocols = b""
        self._others = []
        self._body, self._body_bytes, self.begun_s = [], 0, time.monotonic()

    def on_url(self, url: bytes) -> None:
        self._headers_bytes += len(url)
        if self._headers_bytes > _HEADERS_LIMIT_BYTES:
            self._connection.refuse(414, "the URL of the request is too long")
            return
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self._headers_bytes += len(name) + len(value)
        if self._headers_bytes > _HEADERS_LIMIT_BYTES:
            self._connection.refuse(431, "the headers of the request are too large")
        elif name in _KEPT_HEADERS:
            before = self._headers.get(name)
            self._headers[name] = value if before is None else before + b"," + value
        elif name == b"sec-websocket-key":
            self.websocket_key = value
        elif name == b"sec-websocket-protocol":
            self._websocket_protocols = b", ".join(one for one in (self._websocket_protocols, value) if one)
        elif name == b"x-stream-protocol-version":
            self._spdy_protocols = b", ".join(one for one in (self._spdy_protocols, value) if one)
        elif name == b"expect" and value.lower() == b"100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif _PASSED_ON in self._url:
            self._others.append((name, value))

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes or self._connection.closing:
            return
        self._body.append(body)
        self._connection.limit_held_bytes()

    def on_message_complete(self) -> None:
        self.begun_s = None
        if self._connection.closing:
            return
        path, _, query = self._url.partition(b"?")
        if not path.startswith(b"/"):  # proxies send the absolute form of the URL
            path = httptools.parse_url(self._url).path or b"/"
        text = path.decode("latin-1")
        if self._body_bytes > self._limits.body_bytes:
            self._connection.refuse(413, f"Request entity too large: limit is {self._limits.body_bytes}")
            return
        request = RawRequest(
            self._parser.get_method().decode("latin-1"),
            unquote(text) if "%" in text else text,
            query,
            self._headers,
            b"".join(self._body),
            self._parser.should_keep_alive(),
            self._parser.get_http_version() != "1.0",
            self.websocket_key if self._parser.should_upgrade() else b"",
            self._websocket_protocols,
            self._spdy_protocols if self._parser.should_upgrade() else b"",
            path,
            tuple(self._others),
            self._connection.claim,
        )
        self._body, self._body_bytes = [], 0
        self._connection.receive(request)


class Upgrade:
    """Handles the bytes that a client sends after it has requested another protocol: WebSocket, or a tunnel to a node.
    `websocket`: True after the client and the server have agreed on WebSocket."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.websocket = False
        self._listener: Listener | None = None
        self._tunnel: Tunnel | None = None  # if set, the tunnel gets all bytes that the client sends
        self._draining: asyncio.Task[None] | None = None

    def listen(self, data: bytes) -> None:
        """Receive the bytes after a request for WebSocket. `data`: the first of these bytes."""
        self._listener = Listener()
        self._hear(self._listener, data)

    def join(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel

    def receive(self, data: bytes) -> bool:
        """Pass the bytes on. Return False if the connection still uses HTTP."""
        if self._tunnel is not None:
            self._pass_on(self._tunnel, data)
        elif self._listener is not None:
            self._hear(self._listener, data)
        else:
            return False
        return True

    def _pass_on(self, tunnel: Tunnel, data: bytes) -> None:
        if tunnel.write(data) and self._draining is None:
            self._transport.pause_reading()
            self._draining = asyncio.get_running_loop().create_task(self._resume(tunnel))

    async def _resume(self, tunnel: Tunnel) -> None:
        try:
            await tunnel.drained()
            self._draining = None
            self._transport.resume_reading()
        except OSError:
            self._transport.close()

    def _hear(self, listener: Listener, data: bytes) -> None:
        """Pass the bytes that follow a request for another protocol on to the listener of this protocol."""
        try:
            for answer in listener.hear(data):
                if not self.websocket or answer is None:
                    self._transport.close()
                    return
                self._transport.write(answer)
        except WebSocketBroken:
            self._transport.close()

    def end(self) -> None:
        """End the wait for the tunnel, because the connection is closed."""
        if self._draining is not None:
            self._draining.cancel()


class ServerConnection(asyncio.Protocol):
    """A connection of a client. `closing`: True if the server accepts no further requests on it."""

    def __init__(self, app: Application, open_connections: Connections[ServerConnection], limits: HttpLimits) -> None:
        self._app, self._open, self._limits = app, open_connections, limits
        self._transport: asyncio.Transport
        self._incoming: IncomingRequest
        self._upgrade: Upgrade
        self._waiting: deque[RawRequest] = deque()
        self._task: asyncio.Task[None] | None = None
        self._streaming = False
        # not None while the client does not read; done when it reads again
        self._resumed: asyncio.Future[None] | None = None
        self.closing = False
        self._unread_s: float | None = None  # the time when the client stopped reading; None while it reads
        self.user, self.limited, self.active_s = "", False, time.monotonic()

    # --- calls of the transport ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment] # uvloop's TLS transport is one in all but name
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER_BYTES)
        self._incoming = IncomingRequest(self, self._transport, self._limits)
        self._upgrade = Upgrade(self._transport)
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        self.closing = True
        self._waiting.clear()
        self._incoming.drop_body()
        self.resume_writing()
        self._upgrade.end()
        if self._streaming and self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._upgrade.receive(data):
            return
        following = self._incoming.feed(data)
        if following is not None:
            # A watch may continue as a WebSocket. Any other upgrade is ignored, and the connection closes after the
            # response.
            self.closing = True
            if self._incoming.websocket_key:
                self._upgrade.listen(following)

    def pause_writing(self) -> None:
        self._resumed, self._unread_s = asyncio.get_running_loop().create_future(), time.monotonic()

    def resume_writing(self) -> None:
        self._unread_s = None
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)
        self._resumed = None

    @property
    def unread_s(self) -> float:
        return math.inf if self._unread_s is None else self._unread_s

    @property
    def unread_bytes(self) -> int:
        return 0 if self._unread_s is None else self._transport.get_write_buffer_size()

    @property
    def held_bytes(self) -> int:
        """Return the number of received body bytes of requests to which the server has not responded yet."""
        return self._incoming.body_bytes + sum(len(one.body) for one in self._waiting)

    # --- calls of the incoming request -----------------------------------------------------------------------------

    def limit_held_bytes(self) -> None:
        """If all connections together hold too many bytes, close the connection with the oldest incomplete request."""
        limits = self._limits
        if self.held_bytes <= limits.small_bytes:
            return
        holding = [one for one in self._open if one.held_bytes > limits.small_bytes]
        if sum(one.held_bytes for one in holding) <= limits.held_bytes:
            return
        _log.warning("a connection was closed: all request bodies together exceed %d bytes", limits.held_bytes)
        longest = min(holding, key=lambda one: math.inf if (at_s := one._incoming.begun_s) is None else at_s)
        longest.refuse(429, "the bodies of all present requests are too large together; try again")

    def receive(self, request: RawRequest) -> None:
        """Handle a complete request, after the requests that came before it."""
        self.active_s = time.monotonic()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._answer(request))
            return
        self._waiting.append(request)
        if len(self._waiting) >= _PIPELINE_LIMIT or self.held_bytes > self._limits.body_bytes:
            self._transport.pause_reading()

    def claim(self, user: str, limited: bool) -> None:
        """Record the user of the connection. `limited`: True if the user's connections are limited."""
        if not self._transport.is_closing():
            self._open.claim(self, user, limited=limited)

    # --- answering -----------------------------------------------------------------------------------------------

    async def _answer(self, request: RawRequest) -> None:
        try:
            response = await self._app(request)
            if response.tunnel is not None:
                await self._join(response.tunnel)
            elif response.stream is not None:
                await self._send_stream(response, response.stream, request)
            elif not self._transport.is_closing():
                last = not request.keep_alive or self.closing
                self._transport.write(_head(response, last, len(response.body)) + _shown(response, request))
                if self._resumed is not None:
                    self._open.unread(self)
                    await self._resumed
            if not request.keep_alive or self.closing:
                self._transport.close()
        except asyncio.CancelledError:
            pass  # the client has disconnected, or the server stops
        except Exception:  # a defect in a stream ends only its connection
            _log.exception("%s %s", request.method, request.path)
            self._transport.abort()
        finally:
            self._next()

    def _next(self) -> None:
        self._task, self._streaming = None, False
        self.active_s = time.monotonic()
        if self._waiting and not self.closing:
            self._task = asyncio.get_running_loop().create_task(self._answer(self._waiting.popleft()))
            self._transport.resume_reading()

    async def _send_stream(self, response: Response, stream: Stream, request: RawRequest) -> None:
        """Send the pieces of a stream as they arrive. The head is sent at once, so that the client sees that its watch
        is open even if no event occurs."""
        self._streaming = True
        head, wrap, end = _framing(response, request)
        try:
            if self._transport.is_closing():
                return
            self._upgrade.websocket = wrap is websocket.text
            self._transport.write(head)
            async for piece in stream:
                self._transport.write(wrap(piece))
                if self._resumed is not None:
                    await self._resumed
            self._transport.write(end)
            if wrap is not _chunk:
                self._transport.close()
        finally:
            await stream.aclose()

    async def _join(self, tunnel: Tunnel) -> None:
        """Pass on bytes in both directions until one side closes its connection."""
        self._streaming = True
        self._upgrade.join(tunnel)
        try:
            async for piece in tunnel:
                self._transport.write(piece)
                if self._resumed is not None:
                    await self._resumed
            self._transport.close()
        finally:
            await tunnel.aclose()

    def refuse(self, code: int, why: str) -> None:
        """Respond with an error and close the connection, because the received bytes are not a valid request."""
        if self.closing:
            return
        self.closing = True
        self._incoming.drop_body()
        body = why.encode()
        head = _STATUS_LINES[code] + b"content-type: text/plain\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)
        self._transport.close()

    # --- ending --------------------------------------------------------------------------------------------------

    def finish(self) -> asyncio.Task[None] | None:
        """Accept no further requests. Return the task of the request that is being handled, so that the caller can wait
        for it; None if no request is being handled."""
        self.closing = True
        if self._task is None:
            self._transport.close()
        return self._task

    def abort(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    def expire(self, now_s: float) -> None:
        """Close the connection if its request, its unread response or its idle time has exceeded a time-out. `now_s`:
        the present time of the monotonic clock."""
        limits = self._limits
        if self._unread_s is not None and self._unread_s < now_s - limits.unread_s:
            self.abort()
        elif self._task is None and self._incoming.begun_s is not None:
            if self._incoming.begun_s < now_s - limits.request_s:
                self.refuse(408, "the request was not complete in time")
        elif self._task is None and self.active_s < now_s - limits.idle_s:
            self._transport.close()


def _framing(response: Response, request: RawRequest) -> tuple[bytes, Callable[[bytes], bytes], bytes]:
    """Return the framing of a stream: the first bytes, a function that frames each piece, and the last bytes."""
    if request.websocket_key and response.media.startswith("application/json"):
        return websocket.head(request.websocket_key), websocket.text, websocket.close()
    if request.chunked_ok:
        return _head(response, last=False, length=None), _chunk, b"0\r\n\r\n"
    return _head(response, last=True, length=-1), bytes, b""


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def _head(response: Response, last: bool, length: int | None) -> bytes:
    """Return the head of a response. `length`: the number of bytes in the body; None if the body is sent in chunks;
    negative if the body ends when the connection closes."""
    parts = [_STATUS_LINES.get(response.code) or b"HTTP/1.1 %d Unknown\r\n" % response.code]
    if response.code != 204:
        parts.append(b"content-type: " + response.media.encode() + b"\r\n")
    parts += [b"%b: %b\r\n" % header for header in response.headers]
    parts += [b"warning: " + _warning(text) + b"\r\n" for text in response.warnings]
    if length is None:
        parts.append(b"transfer-encoding: chunked\r\n")
    elif length >= 0 and response.code != 204:
        parts.append(b"content-length: %d\r\n" % length)
    parts.append(b"connection: close\r\n\r\n" if last else b"\r\n")
    return b"".join(parts)


def _shown(response: Response, request: RawRequest) -> bytes:
    return b"" if request.method == "HEAD" or response.code == 204 else response.body


def _warning(text: str) -> bytes:
    """Return the value of a Warning header. Line breaks in `text`, which may come from a user, do not end the header
    line."""
    clean = "".join(sign if sign.isprintable() else " " for sign in text)
    quoted = clean.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode()
