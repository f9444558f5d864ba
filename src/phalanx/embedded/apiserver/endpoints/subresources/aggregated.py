"""Forward requests to another process on this machine, as kube-apiserver forwards them to an aggregated API server.

The paths are Kueue's visibility API (only the scheduler knows the order of jobs), some paths of Phalanx (`NUMBERS`),
and `/ws/v1/` for YuniKorn's dashboards, which belongs to no API group. Roles grant these paths by `nonResourceURLs`. A
role can grant two rights: to read a path, and to post a configuration file, which the other process only checks.

The API server authenticates and authorizes the user as for any other path, and forwards the request to a Unix socket in
the data directory. While no process listens on the socket, the response is 503, as for an unavailable APIService.

One path returns an endless stream with one line for each event. As in YuniKorn, the number of such streams is limited
for each user and in total. The server buffers nothing for a slow client: `transport.http` closes the connection after a
while.

Sources: k8s.io/kube-aggregator/pkg/apiserver/handler_proxy.go; pkg/webservice/streaming_limit.go of
apache/yunikorn-core (1.9).
"""

from __future__ import annotations

import asyncio
import os
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from phalanx.embedded.apimachinery.meta.resource import Resource, Subresource
from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.request import HttpRequest, Response

GROUP = "visibility.kueue.x-k8s.io"
NUMBERS = "visibility.phalanx.dev"
GROUPS = frozenset({GROUP, NUMBERS})
DASHBOARDS = "/ws/v1/"
_CHECKED = "/ws/v1/validate-conf"
_MOST_CHECKED = 1 << 20  # the largest posted file, in bytes, like the limit of a ConfigMap
_STREAM = "/ws/v1/events/stream"
MOST_STREAMS, MOST_STREAMS_OF_ONE = 100, 15
SOCKET = "scheduler.sock"
_TIMEOUT_S = 10.0
_MOST_BYTES = 256 * 2**20
_PENDING = Subresource(name="pendingworkloads", kind="PendingWorkloadsSummary", verbs=("get",))
AGGREGATED: tuple[Resource, ...] = tuple(
    Resource(
        group=GROUP,
        version=version,
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        namespaced=namespaced,
        verbs=(),
        subresources=(_PENDING,),
    )
    for version in ("v1beta2", "v1beta1")
    for kind, namespaced in (("ClusterQueue", False), ("LocalQueue", True))
)
OF_NUMBERS: tuple[Resource, ...] = tuple(
    Resource(
        group=NUMBERS,
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        namespaced=namespaced,
        verbs=(),
        subresources=tuple(Subresource(name=name, kind=f"{kind}{name.title()}", verbs=("get",)) for name in names),
    )
    for kind, namespaced, names in (
        ("Queue", False, ("summary", "row")),
        ("Job", True, ("reason", "start", "row", "page")),
    )
)


class _ForwardedRequest(NamedTuple):
    """The part of a request that is forwarded."""

    method: str
    target: str
    body: bytes


class Aggregated:
    """Handles requests for these groups and paths. `folder`: the folder of the socket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._streams: Counter[str] = Counter()  # user -> the number of open streams

    async def get(self, request: HttpRequest) -> Response:
        """Return the response of the process that serves the path. Raises `StatusError` 405, 413, 503."""
        if request.method != ("POST" if request.path == _CHECKED else "GET"):
            raise StatusError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        body = request.body if request.method == "POST" else b""
        if len(body) > _MOST_CHECKED:
            message = f"the file has {len(body)} bytes; a ConfigMap holds {_MOST_CHECKED}"
            raise StatusError(413, "RequestEntityTooLarge", message)
        path = quote(request.path)
        query = urlencode([(key, value) for key, values in request.query.items() for value in values])
        forwarded = _ForwardedRequest(request.method, f"{path}?{query}", body)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                if request.path == _STREAM:
                    return await self._follow(request, forwarded)
                code, answer = await self._ask(forwarded)
            value: Any = msgspec.json.decode(answer)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            why = str(error) or type(error).__name__
            raise StatusError(
                503,
                "ServiceUnavailable",
                f"the scheduler, which serves {path}, does not respond: {why}. Try again.",
                retry_after_s=1,
            ) from None
        media, encoded = negotiation.render(request.accept, value)
        return Response(code=code, body=encoded, media=media)

    async def _follow(self, request: HttpRequest, forwarded: _ForwardedRequest) -> Response:
        """Return a stream whose pieces are passed on as they arrive. Raises `StatusError` 503, OSError, ValueError."""
        user = request.user.name
        if self._streams.total() >= MOST_STREAMS or self._streams[user] >= MOST_STREAMS_OF_ONE:
            raise StatusError(
                503,
                "ServiceUnavailable",
                f"Too many streaming connections: {self._streams[user]} of {user}, of {MOST_STREAMS_OF_ONE}, and "
                f"{self._streams.total()} in all, of {MOST_STREAMS}. Close one, or ask for /ws/v1/events/batch",
            )
        self._streams[user] += 1
        try:
            code, reader, writer = await _opened(self._folder, forwarded)
        except BaseException:
            self._closed(user)
            raise
        return Response(code=code, stream=_Pieces(reader, writer, lambda: self._closed(user)))

    def _closed(self, user: str) -> None:
        self._streams[user] -= 1
        if not self._streams[user]:
            del self._streams[user]

    async def _ask(self, forwarded: _ForwardedRequest) -> tuple[int, bytes]:
        """Return the status code and the whole body of the process's response. Raises OSError, and ValueError for a
        body that is too long."""
        code, reader, writer = await _opened(self._folder, forwarded)
        try:
            parts: list[bytes] = []
            size = 0
            while piece := await reader.read(2**16):
                parts.append(piece)
                size += len(piece)
                if size > _MOST_BYTES:
                    raise ValueError("its response is too long")
            return code, b"".join(parts)
        finally:
            writer.close()


class _Pieces:
    """The pieces of a response, as they arrive. `closed`: called when the client has disconnected."""

    def __init__(self, reader: StreamReader, writer: StreamWriter, closed: Callable[[], None]) -> None:
        self._reader, self._writer, self._closed = reader, writer, closed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with suppress(OSError):  # the other process has ended, which ends the stream
            while piece := await self._reader.read(2**16):
                yield piece

    async def aclose(self) -> None:
        self._writer.close()
        self._closed()


async def _opened(folder: Path, forwarded: _ForwardedRequest) -> tuple[int, StreamReader, StreamWriter]:
    """Send the request to the socket in the folder. Return the status code of the response, and the connection from
    which the rest can be read. Raises OSError, ValueError."""
    # a path through /proc/self/fd is short enough for a Unix socket
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{SOCKET}")
    finally:
        os.close(directory)
    try:
        line = f"{forwarded.method} {forwarded.target} HTTP/1.0"
        head = f"{line}\r\nHost: scheduler\r\nContent-Length: {len(forwarded.body)}\r\n\r\n"
        writer.write(head.encode("ascii") + forwarded.body)
        status = await reader.readuntil(b"\r\n\r\n")
        return int(status.split(b" ", 2)[1]), reader, writer
    except BaseException:
        writer.close()
        raise
