"""One connection pool to one API server, and what its answers mean.

An answer is one of three things, and the difference decides whether something may be done twice:

- it came, 2xx: the write is durable;
- it came, 4xx: `ApiRefusal`, the write did not happen;
- it did not come, or 5xx: `ApiUnknown`, the write may have happened. Only a read can tell.

Objects are plain JSON values, decoded by msgspec. Configuration and credentials (kubeconfig, in-cluster, token files,
exec plug-ins) are kubernetes_asyncio's; its typed models are not used, they are too slow for a watch.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

import msgspec

from phalanx import __version__
from phalanx.client.credentials import read_credentials, tls_context
from phalanx.client.http import Http
from phalanx.client.kind import Kind
from phalanx.client.tally import Tally
from phalanx.errors import PhalanxError

Object = dict[str, Any]
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_CONNECTIONS = 48  # calls beyond these wait here, not in the server; each watch holds one
_TIMEOUT_S = 30.0
_BUSY_RETRIES = 8


class ApiError(PhalanxError):
    """A call that did not succeed."""


class ApiRefusal(ApiError):
    """The server said no (4xx): nothing was changed."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, dict(details or {})


class ApiUnknown(ApiError):
    """No answer, or a 5xx: whether a write happened is not known until the object is read."""


class Connection:
    """Calls to one API server. Use as `async with await Connection.open(path) as connection`."""

    def __init__(self, server: str, *, headers: Mapping[str, str], tls: ssl.SSLContext | None) -> None:
        self.server = server.rstrip("/")
        self.tally = Tally()
        common = {"accept": JSON, "user-agent": f"phalanx/{__version__}", **headers}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in common.items())
        self._http = Http(self.server, tls=tls, limit=_CONNECTIONS)

    @classmethod
    async def open(cls, kubeconfig: str | Path | None = None, context: str | None = None) -> Connection:
        """From a kubeconfig file, else $KUBECONFIG, else ~/.kube/config, else the pod's service account."""
        found = await read_credentials(kubeconfig, context)
        headers = {}
        if token := await found.get_api_key_with_prefix("BearerToken"):
            headers["Authorization"] = token
        return cls(str(found.host), headers=headers, tls=tls_context(found))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._http.close()

    # --- calls ----------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Any:
        """The decoded answer. 429 is waited out as Retry-After says: the server did not take the call up.

        Raises ApiRefusal (4xx: nothing changed) or ApiUnknown (no answer or 5xx)."""
        data = b"" if body is None else msgspec.json.encode(body)
        head = f"{self._head}content-type: {content_type}\r\n" if data else self._head
        target = _target(path, params)
        for attempt in range(_BUSY_RETRIES + 1):
            try:
                with self.tally.attempt(method, path) as made:
                    answer = await self._http.call(method, target, head, data, timeout_s=_TIMEOUT_S)
                    made.code = answer.status
            except OSError as error:
                raise self._unknown(method, path, error) from error
            if answer.status == 429 and attempt < _BUSY_RETRIES and "retry-after" in answer.headers:
                await asyncio.sleep(float(answer.headers["retry-after"]))
                continue
            return _decode(answer.status, answer.headers.get("content-type", ""), answer.body)
        raise AssertionError("unreachable")

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return await self._object("GET", kind.path(namespace, name))

    async def list(self, kind: Kind, namespace: str = "", **params: str) -> Object:
        """The whole list as one List object; pages of 500 are joined."""
        path, query = kind.path(namespace), {"limit": "500", **params}
        whole = await self._object("GET", path, params=query)
        token = whole["metadata"].get("continue")
        while token:
            page = await self._object("GET", path, params={**query, "continue": token})
            whole["items"].extend(page["items"])
            token = page["metadata"].get("continue")
        return whole

    async def create(
        self, kind: Kind, body: Object, namespace: str = "", subresource: str = "", name: str = ""
    ) -> Object:
        return await self._object("POST", kind.path(namespace, name, subresource), body=body)

    async def replace(self, kind: Kind, body: Object, subresource: str = "") -> Object:
        meta = body["metadata"]
        return await self._object("PUT", kind.path(meta.get("namespace", ""), meta["name"], subresource), body=body)

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Any,
        namespace: str = "",
        subresource: str = "",
        content_type: str = MERGE_PATCH,
        **params: str,
    ) -> Object:
        path = kind.path(namespace, name, subresource)
        return await self._object("PATCH", path, body=body, params=params, content_type=content_type)

    async def delete(self, kind: Kind, name: str, namespace: str = "", body: Object | None = None) -> Object:
        return await self._object("DELETE", kind.path(namespace, name), body=body)

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], read_timeout_s: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of a long answer (watch, log -f). Raises as `request` does, also in the middle."""
        try:
            target = _target(path, params)
            async with self._http.stream(target, self._head, timeout_s=_TIMEOUT_S, quiet_timeout_s=read_timeout_s) as (
                answer,
                chunks,
            ):
                if "watch" in params:
                    self.tally.watched(path, answer.status)
                if answer.status >= 300:
                    content = b"".join([chunk async for chunk in chunks])
                    _decode(answer.status, answer.headers.get("content-type", ""), content)
                yield _lines(chunks)
        except OSError as error:
            raise self._unknown("GET", path, error) from error

    # --- inside ---------------------------------------------------------------------------------------------------

    async def _object(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Object:
        answer: Object = await self.request(method, path, body=body, params=params, content_type=content_type)
        return answer

    def _unknown(self, method: str, path: str, error: OSError) -> ApiUnknown:
        return ApiUnknown(f"{method} {self.server}{path}: {error or type(error).__name__}")


def _target(path: str, params: Mapping[str, str] | None) -> str:
    """Path and query of a request; names in a path may hold what a URL may not."""
    query = f"?{urlencode(params)}" if params else ""
    return quote(path, safe="/:@!$&'()*+,;=~") + query


def _decode(code: int, content_type: str, content: bytes) -> Any:
    if code >= 500:
        raise ApiUnknown(f"the API server answered {code}: {content[:500].decode(errors='replace')}")
    is_json = content_type.startswith(JSON) and content
    value: Any = msgspec.json.decode(content) if is_json else content.decode(errors="replace")
    if code >= 400:
        status = value if isinstance(value, dict) else {}
        message = status.get("message") or f"the API server answered {code}"
        raise ApiRefusal(code, status.get("reason", ""), message, status.get("details"))
    return value


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a stream, whatever their length and however they were cut into chunks."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
    if rest:
        yield rest
