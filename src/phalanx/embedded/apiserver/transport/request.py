"""The request that handlers get, and the response that they return."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import parse_qs

from phalanx.embedded.apimachinery.meta.resource import User
from phalanx.embedded.apiserver.storage.store import encode
from phalanx.embedded.apiserver.transport.negotiation import JSON, Accept

Query = Mapping[str, list[str]]
_NO_QUERY: Query = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request. `accept`: the accepted forms; never empty. `user_agent`: names the field manager if the query does
    not."""

    method: str
    path: str
    query: Query
    user: User
    accept: tuple[Accept, ...]
    content_type: str = ""
    user_agent: str = ""
    host: str = ""
    body: bytes = b""
    websocket_key: str = ""  # not empty if the client asks for a WebSocket with one of `websocket_protocols`
    websocket_protocols: str = ""
    spdy_protocols: str = ""  # not empty if the client asks for SPDY with one of these protocols
    warnings: list[str] = field(default_factory=list)  # sent with the response, even if it is a refusal

    def text(self, name: str, default: str = "") -> str:
        """Return the first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default

    def flag(self, name: str) -> bool:
        """Return True if a boolean parameter is present and neither `false` nor `0`."""
        values = self.query.get(name)
        return values is not None and values[0].lower() not in ("false", "0")

    @property
    def manager(self) -> str:
        """Return the field manager: the one in the query, or else the first word of the user agent, as in
        kube-apiserver."""
        return self.text("fieldManager") or self.user_agent.split("/", 1)[0][:128] or "unknown"


class Stream(Protocol):
    """A response in pieces. The receiver must call `aclose`, even if it has read nothing. The class is not an async
    generator, because closing a generator that has not started runs none of its code."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class Tunnel(Stream, Protocol):
    """A connection whose client has switched to another protocol. Both sides may write at any time. The first pieces of
    the tunnel are the response to the client's request for the protocol."""

    def write(self, data: bytes) -> bool:
        """Accept bytes that the client has sent. Return True if the client should wait for `drained`."""

    async def drained(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response to a request. `stream`: sent instead of `body`, each piece as soon as it is ready. `tunnel`: used
    instead of `body` and `stream`."""

    code: int = 200
    body: bytes = b""
    media: str = JSON
    warnings: tuple[str, ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream: Stream | None = None
    tunnel: Tunnel | None = None


def parse_query(raw: bytes) -> Query:
    """Return the parameters of a query: `a=1&b=` -> {"a": ["1"], "b": [""]}."""
    return parse_qs(raw.decode("latin-1"), keep_blank_values=True) if raw else _NO_QUERY


def json_response(value: object, code: int = 200) -> Response:
    return Response(code=code, body=encode(value) + b"\n")


def text_response(text: str, code: int = 200) -> Response:
    return Response(code=code, body=text.encode(), media="text/plain; charset=utf-8")
