"""The server without a process or a socket: requests go straight to the ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from phalanx.embedded.apiserver.app import Api
from phalanx.embedded.apiserver.authentication import token_of, write_tokens
from phalanx.embedded.apiserver.server import open_api
from phalanx.embedded.apiserver.settings import Settings


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: Any
    headers: dict[str, str]


@dataclass(slots=True)
class Stream:
    """A watch that is open: `lines` grows as events arrive."""

    task: asyncio.Task[None]
    received: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def next(self) -> Any:
        """The next event; None when the stream has ended."""
        return await asyncio.wait_for(self.received.get(), 5)

    async def close(self) -> None:
        """The client goes away."""
        self.gone.set()
        await asyncio.wait_for(self.task, 5)


class InProcess:
    """A client of an `Api` in the same event loop."""

    def __init__(self, api: Api, token: str) -> None:
        self.api, self.token = api, token

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, data: Path, **settings: Any) -> AsyncIterator[Self]:
        data.mkdir(parents=True, exist_ok=True)
        found = replace(Settings(data_dir=data), **settings)
        if not found.tokens.exists():
            write_tokens(found.tokens, [("admin", "admin", ("system:masters",))])
        api = await open_api(found)
        try:
            yield cls(api, token_of(found.tokens, "admin"))
        finally:
            await api.shutdown()

    def _scope(self, method: str, path: str, media: str) -> dict[str, Any]:
        path, _, query = path.partition("?")
        headers = [(b"authorization", f"Bearer {self.token}".encode()), (b"content-type", media.encode())]
        return {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": headers}

    async def ask(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Answer:
        data = b"" if body is None else json.dumps(body).encode()
        head: dict[str, Any] = {}
        pieces: list[bytes] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": data}

        async def send(message: Any) -> None:
            head.update(message) if message["type"] == "http.response.start" else pieces.append(message["body"])

        await self.api(self._scope(method, path, media), receive, send)
        headers = {name.decode(): value.decode() for name, value in head["headers"]}
        return Answer(head["status"], json.loads(b"".join(pieces) or b"null"), headers)

    async def make(self, path: str, obj: Any) -> Any:
        """Create an object that must be accepted."""
        answer = await self.ask("POST", path, obj)
        assert answer.code == 201, answer.body
        return answer.body

    def watch(self, path: str, *, reading: asyncio.Event | None = None) -> Stream:
        """Open a watch. While `reading` is not set, the client reads nothing."""

        async def receive() -> dict[str, Any]:
            await stream.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if reading is not None:
                await reading.wait()
            for line in message.get("body", b"").splitlines():
                stream.received.put_nowait(json.loads(line))
            if message["type"] == "http.response.body" and not message.get("more_body"):
                stream.received.put_nowait(None)

        call = self.api(self._scope("GET", path, ""), receive, send)
        stream = Stream(asyncio.ensure_future(call))  # type: ignore[arg-type] # ASGI calls are coroutines
        return stream
