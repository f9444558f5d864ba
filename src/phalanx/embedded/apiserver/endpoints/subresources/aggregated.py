"""What another process on this machine answers, as an aggregated API server does on a cluster: Kueue's visibility API,
of which the scheduler alone knows the order, and the paths below `/ws/v1/`, which are of no API group, for dashboards
made for YuniKorn: roles say by `nonResourceURLs` who may read these.

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
        """Return the answer of whoever serves the path. Raises `ApiError` 405, 503."""
        if request.method != "GET":
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        path = quote(request.path)
        query = urlencode([(key, value) for key, values in request.query.items() for value in values])
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                code, body = await self._ask(f"{path}?{query}")
            value: Any = msgspec.json.decode(body)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ApiError(
                503,
                "ServiceUnavailable",
                f"the scheduler, which answers for {path}, is not there: {error or type(error).__name__}. Try again.",
                retry_after_s=1,
            ) from None
        media, encoded = negotiation.render(request.accept, value)
        return Response(code=code, body=encoded, media=media)

    async def _ask(self, target: str) -> tuple[int, bytes]:
        """Raises OSError, ValueError."""
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)  # a socket's own path may be short only
        try:
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{SOCKET}")
        finally:
            os.close(folder)
        try:
            writer.write(f"GET {target} HTTP/1.0\r\nHost: scheduler\r\n\r\n".encode("ascii"))
            head = await reader.readuntil(b"\r\n\r\n")
            parts: list[bytes] = []
            size = 0
            while piece := await reader.read(2**16):
                parts.append(piece)
                size += len(piece)
                if size > _MOST_BYTES:
                    raise ValueError("its answer is too long")
            return int(head.split(b" ", 2)[1]), b"".join(parts)
        finally:
            writer.close()
