"""What another process on this machine answers, as an aggregated API server does on a cluster: Kueue's visibility API,
of which the scheduler alone knows the order, and the paths below `/ws/v1/`, which are of no API group, for dashboards
made for YuniKorn: roles say by `nonResourceURLs` who may read these, and who may post a file to be checked.

Who asks, and whether he may, is decided here as for any other path; the question then goes to a Unix socket in the data
directory. While nobody listens there the answer is 503, as of an APIService that is not available.

Source: k8s.io/kube-aggregator/pkg/apiserver/handler_proxy.go.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from phalanx.embedded.apiserver.apimachinery.meta.resource import Resource, Subresource
from phalanx.embedded.apiserver.apimachinery.meta.status import ApiError
from phalanx.embedded.apiserver.transport import negotiation
from phalanx.embedded.apiserver.transport.request import Request, Response

GROUP = "visibility.kueue.x-k8s.io"
DASHBOARDS = "/ws/v1/"
_CHECKED = "/ws/v1/validate-conf"
_MOST_CHECKED = 1 << 20  # bytes: as of a ConfigMap
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


class Aggregated:
    """Answers for those groups and paths. `folder`: where the socket lies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

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
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                code, answer = await self._ask(request.method, f"{path}?{query}", body)
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

    async def _ask(self, method: str, target: str, body: bytes) -> tuple[int, bytes]:
        """Raises OSError, ValueError."""
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)  # a socket's own path may be short only
        try:
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{SOCKET}")
        finally:
            os.close(folder)
        try:
            head = f"{method} {target} HTTP/1.0\r\nHost: scheduler\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode("ascii") + body)
            status = await reader.readuntil(b"\r\n\r\n")
            parts: list[bytes] = []
            size = 0
            while piece := await reader.read(2**16):
                parts.append(piece)
                size += len(piece)
                if size > _MOST_BYTES:
                    raise ValueError("its answer is too long")
            return int(status.split(b" ", 2)[1]), b"".join(parts)
        finally:
            writer.close()
