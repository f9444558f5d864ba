"""An HTTP/1.1 client for one server. It supports what an API client needs: keep-alive, request and response bodies, and
streams.

A scheduler sends thousands of small writes a second, and a general HTTP client would use most of the scheduler's
processor time (docs/decisions/0012-http-of-the-client.md). This client does little work for each call: an
`asyncio.Protocol` sends the request with one write, httptools parses the response, and the standard library provides
TLS.

- A connection carries one call at a time. If it carried several calls, one lost response would make the outcomes of the
  following calls unknown as well. If `limit` calls are in progress, further calls wait for a connection.
- A connection that was idle for more than 20 seconds is not used again, because the server may close it at that moment.
  The outcome of a write would then be unknown.
- Every failure is an `OSError` (`ConnectionError`, `TimeoutError`). After a failure, it is unknown whether the server
executed the request."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import httptools

from phalanx.client.access.proxy import HttpProxy, tunnel

_IDLE_S = 20.0
_STREAM_BUFFER_BYTES = 1 << 20


@dataclass(slots=True)
class HttpAnswer:
    """A response. The names in `headers` are lower case."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Http:
    """A pool of connections to the server of a URL."""

    def __init__(
        self,
        server: str,
        *,
        tls: ssl.SSLContext | None,
        limit: int,
        connect_timeout_s: float = 10.0,
        server_name: str = "",
        proxy: HttpProxy | None = None,
        most_bytes: int = 0,
    ) -> None:
        """Make an empty pool. `server`: the URL. `limit`: the maximum number of concurrent calls. `server_name`: the
        name in the server's certificate, if it differs from the URL's host. `most_bytes`: the largest body of a
        response; 0: no limit."""
        found = urlsplit(server)
        self._server_name, self._proxy, self._most_bytes = server_name, proxy, most_bytes
        self._host = found.hostname or "localhost"
        self._port = found.port or (443 if found.scheme == "https" else 80)
        self._prefix = found.path.rstrip("/")
        self._tls = (tls or ssl.create_default_context()) if found.scheme == "https" else None
        self._limit, self._connect_timeout_s = limit, connect_timeout_s
        self._host_line = f"host: {found.netloc}\r\n"
        self._idle: list[_Channel] = []
        self._open: set[_Channel] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = 0

    async def call(self, method: str, target: str, head: str, body: bytes = b"", *, timeout_s: float) -> HttpAnswer:
        """Send a request and return the whole response. `head`: further header lines, each ended by CRLF."""
        request = self._request(method, target, head, body)
        for last_try in (False, True):
            channel, fresh = await self._take()
            try:
                answer = await channel.call(request, timeout_s)
            except ConnectionError:
                # The server had closed the idle connection. A read is sent again; the outcome of a write is unknown.
                if fresh or last_try or method != "GET" or channel.heard:
                    raise
                continue
            finally:
                self._release(channel)
            return answer
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def stream(
        self, target: str, head: str, *, timeout_s: float, quiet_timeout_s: float | None
    ) -> AsyncIterator[tuple[HttpAnswer, AsyncIterator[bytes]]]:
        """Send a GET request, and yield the response and the chunks of its body as they arrive. `quiet_timeout_s`:
        after this time without data, the connection counts as lost."""
        channel = await self._connect()  # a new connection, because a stream occupies it for minutes
        try:
            answer = await channel.begin(self._request("GET", target, head, b""), timeout_s)
            yield answer, channel.chunks(quiet_timeout_s)
        finally:
            channel.close()
            self._open.discard(channel)

    def close(self) -> None:
        for channel in self._open:
            channel.close()

    def drop_idle(self) -> None:
        """Close idle connections, so that the next calls open new ones with the changed client certificate."""
        for channel in self._idle:
            channel.close()

    def _request(self, method: str, target: str, head: str, body: bytes) -> bytes:
        length = f"content-length: {len(body)}\r\n" if body or method in {"POST", "PUT", "PATCH"} else ""
        return f"{method} {self._prefix}{target} HTTP/1.1\r\n{self._host_line}{head}{length}\r\n".encode() + body

    async def _take(self) -> tuple[_Channel, bool]:
        """Return a connection for a call, and whether the connection is new. Wait if `limit` calls are in progress."""
        if self._taken >= self._limit:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn  # wait until another call ends and `_pass_on` lets this call begin
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._pass_on()
                raise
        else:
            self._taken += 1
        now_s = asyncio.get_running_loop().time()
        while self._idle:
            channel = self._idle.pop()
            if channel.usable and now_s - channel.idle_since_s < _IDLE_S:
                return channel, False
            channel.close()
            self._open.discard(channel)
        try:
            return await self._connect(), True
        except BaseException:
            self._pass_on()
            raise

    async def _connect(self) -> _Channel:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_timeout_s):
            if self._proxy is None:
                name = self._server_name or None if self._tls else None
                transport, channel = await loop.create_connection(
                    _Channel, self._host, self._port, ssl=self._tls, server_hostname=name
                )
            else:
                name = (self._server_name or self._host) if self._tls else None
                sock = await tunnel(self._proxy, self._host, self._port)
                transport, channel = await loop.create_connection(
                    _Channel, sock=sock, ssl=self._tls, server_hostname=name
                )
        _keep_alive(transport.get_extra_info("socket"))
        channel.most_bytes = self._most_bytes
        self._open.add(channel)
        return channel

    def _release(self, channel: _Channel) -> None:
        if channel.usable:
            channel.idle_since_s = asyncio.get_running_loop().time()
            self._idle.append(channel)
        else:
            channel.close()
            self._open.discard(channel)
        self._pass_on()

    def _pass_on(self) -> None:
        """Let the call that has waited longest begin, because another call has ended."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken -= 1


def _keep_alive(sock: socket.socket) -> None:
    """Set TCP keep-alive, so that the kernel detects a lost peer within half a minute, even if this side only reads
    (tcp(7))."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("KEEPIDLE", 15), ("KEEPINTVL", 5), ("KEEPCNT", 3), ("USER_TIMEOUT", 30_000)):
        if (number := getattr(socket, f"TCP_{option}", None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, number, value)


class _Channel(asyncio.Protocol):
    """A connection. `usable`: True if it is open and its last response was read to the end."""

    def __init__(self) -> None:
        self.usable = True
        self.heard = False  # True if a part of the response has arrived
        self.idle_since_s = 0.0
        self.most_bytes = 0  # the longest response body; 0: no limit
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer = HttpAnswer()
        self._parts: list[bytes] = []
        self._done: asyncio.Future[None] | None = None  # done when the response, or a stream's head, is complete
        self._streams = False
        self._news: asyncio.Event | None = None
        self._ended = False
        self._lost: Exception | None = None
        self._buffered = 0

    async def call(self, request: bytes, timeout_s: float) -> HttpAnswer:
        await self._send(request, timeout_s)
        self._answer.body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        return self._answer

    async def begin(self, request: bytes, timeout_s: float) -> HttpAnswer:
        self._streams, self._news = True, asyncio.Event()
        await self._send(request, timeout_s)
        return self._answer

    async def chunks(self, quiet_timeout_s: float | None) -> AsyncIterator[bytes]:
        assert self._news is not None
        while True:
            if self._parts:
                parts, self._parts, self._buffered = self._parts, [], 0
                if self._transport is not None:
                    self._transport.resume_reading()
                yield b"".join(parts)
            elif self._ended:
                return
            elif self._lost is not None:
                raise self._lost
            else:
                self._news.clear()
                async with asyncio.timeout(quiet_timeout_s):
                    await self._news.wait()

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    async def _send(self, request: bytes, timeout_s: float) -> None:
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionResetError("the connection is closed")
        self._answer, self._parts, self.heard = HttpAnswer(), [], False
        self._done = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, self._late)
        self._transport.write(request)
        try:
            await self._done
        except BaseException:  # also if the call was cancelled: a later call must not get the rest of this response
            self.close()
            raise
        finally:
            timer.cancel()
            self._done = None

    def _late(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(TimeoutError("no answer in time"))

    # --- callbacks of the transport and the parser ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass, but has the methods

    def data_received(self, data: bytes) -> None:
        self.heard = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"the server's response is not valid HTTP: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._fail(error if isinstance(error, OSError) else ConnectionResetError("the server closed the connection"))

    def _fail(self, error: Exception) -> None:
        self.usable = False
        self._lost = self._lost or error
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)
        if self._news is not None:
            self._news.set()
        if self._transport is not None:
            with suppress(RuntimeError):
                self._transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()
        if self._streams and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        if self.most_bytes and not self._streams and sum(map(len, self._parts)) > self.most_bytes:
            self._parts = []
            self._fail(ConnectionError(f"the response is larger than {self.most_bytes >> 20} MiB"))
        if self._news is not None:
            self._news.set()
            self._buffered += len(body)
            if self._buffered > _STREAM_BUFFER_BYTES and self._transport is not None:
                self._transport.pause_reading()  # limits the memory: the server waits if the caller reads slowly

    def on_message_complete(self) -> None:
        self._ended = True
        self.usable = self._parser.should_keep_alive() and not self._streams
        if self._news is not None:
            self._news.set()
        elif self._done is not None and not self._done.done():
            self._done.set_result(None)
