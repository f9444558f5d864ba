"""What another process on this machine answers, as an aggregated API server does on a cluster.

That are Kueue's visibility API, of which the scheduler alone knows the order, Phalanx' own (`NUMBERS`), and the paths
below `/ws/v1/`, which are of no API group, for dashboards made for YuniKorn. For these paths roles say by
`nonResourceURLs` who may read them, and who may post a file to be checked.

Who asks, and whether he may, is decided here as for any other path; the question then goes to a Unix socket in the data
directory. While nobody listens there the answer is 503, as of an APIService that is not available.

One path is answered for ever, a line for each event. As many such streams may be open as YuniKorn allows, of one user
and in all. Nothing is kept here for who does not read, and `transport.http` closes his connection after a while.

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

from phalanx.embedded.apiserver.apimachinery.meta.resource import Resource, Subresource
from phalanx.embedded.apiserver.apimachinery.meta.status import ApiError
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.request import Request, Response

GROUP = "visibility.kueue.x-k8s.io"
NUMBERS = "visibility.phalanx.dev"
GROUPS = frozenset({GROUP, NUMBERS})
DASHBOARDS = "/ws/v1/"
_CHECKED = "/ws/v1/validate-conf"
_MOST_CHECKED = 1 << 20  # bytes: as of a ConfigMap
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
        subresources=(Subresource(name=name, kind=f"{kind}{name.title()}", verbs=("get",)),),
    )
    for kind, namespaced, name in (("Queue", False, "summary"), ("Job", True, "reason"))
)


class _Asked(NamedTuple):
    """The part of a request that is passed on."""

    method: str
    target: str
    body: bytes


class Aggregated:
    """Answers for those groups and paths. `folder`: where the socket lies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._streams: Counter[str] = Counter()  # open ones, by user

    async def get(self, request: Request) -> Response:
        """Return the answer of whoever serves the path. Raises `ApiError` 405, 413, 503."""
        if request.method != ("POST" if request.path == _CHECKED else "GET"):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        body = request.body if request.method == "POST" else b""
        if len(body) > _MOST_CHECKED:
            message = f"the file has {len(body)} bytes; a ConfigMap holds {_MOST_CHECKED}"
            raise ApiError(413, "RequestEntityTooLarge", message)
        path = quote(request.path)
        query = urlencode([(key, value) for key, values in request.query.items() for value in values])
        asked = _Asked(request.method, f"{path}?{query}", body)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                if request.path == _STREAM:
                    return await self._follow(request, asked)
                code, answer = await self._ask(asked)
            value: Any = msgspec.json.decode(answer)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ApiError(
                503,
                "ServiceUnavailable",
                f"the scheduler, which answers for {path}, is not there: {error or type(error).__name__}. Try again.",
                retry_after_s=1,
            ) from None
        media, encoded = negotiation.render(request.accept, value)
        return Response(code=code, body=encoded, media=media)

    async def _follow(self, request: Request, asked: _Asked) -> Response:
        """Return a stream, piece by piece as it comes. Raises `ApiError` 503, OSError, ValueError."""
        user = request.user.name
        if self._streams.total() >= MOST_STREAMS or self._streams[user] >= MOST_STREAMS_OF_ONE:
            raise ApiError(
                503,
                "ServiceUnavailable",
                f"Too many streaming connections: {self._streams[user]} of {user}, of {MOST_STREAMS_OF_ONE}, and "
                f"{self._streams.total()} in all, of {MOST_STREAMS}. Close one, or ask for /ws/v1/events/batch",
            )
        self._streams[user] += 1
        try:
            code, reader, writer = await _opened(self._folder, asked)
        except BaseException:
            self._closed(user)
            raise
        return Response(code=code, stream=_Pieces(reader, writer, lambda: self._closed(user)))

    def _closed(self, user: str) -> None:
        self._streams[user] -= 1
        if not self._streams[user]:
            del self._streams[user]

    async def _ask(self, asked: _Asked) -> tuple[int, bytes]:
        """Raises OSError, ValueError."""
        code, reader, writer = await _opened(self._folder, asked)
        try:
            parts: list[bytes] = []
            size = 0
            while piece := await reader.read(2**16):
                parts.append(piece)
                size += len(piece)
                if size > _MOST_BYTES:
                    raise ValueError("its answer is too long")
            return code, b"".join(parts)
        finally:
            writer.close()


class _Pieces:
    """The pieces of an answer, as they come. `closed`: called when nobody reads them any more."""

    def __init__(self, reader: StreamReader, writer: StreamWriter, closed: Callable[[], None]) -> None:
        self._reader, self._writer, self._closed = reader, writer, closed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with suppress(OSError):  # who answers has ended
            while piece := await self._reader.read(2**16):
                yield piece

    async def aclose(self) -> None:
        self._writer.close()
        self._closed()


async def _opened(folder: Path, asked: _Asked) -> tuple[int, StreamReader, StreamWriter]:
    """Ask whoever listens in the folder; return the code of his answer, and where the rest of it comes. Raises OSError,
    ValueError."""
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY)  # a socket's own path may be short only
    try:
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{SOCKET}")
    finally:
        os.close(directory)
    try:
        head = f"{asked.method} {asked.target} HTTP/1.0\r\nHost: scheduler\r\nContent-Length: {len(asked.body)}\r\n\r\n"
        writer.write(head.encode("ascii") + asked.body)
        status = await reader.readuntil(b"\r\n\r\n")
        return int(status.split(b" ", 2)[1]), reader, writer
    except BaseException:
        writer.close()
        raise
