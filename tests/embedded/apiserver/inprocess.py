"""The server without a process or a socket: requests go straight to the application."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from phalanx.embedded.apiserver.app.api import Api
from phalanx.embedded.apiserver.auth.authentication import token_of, write_tokens
from phalanx.embedded.apiserver.server import open_api
from phalanx.embedded.apiserver.storage.settings import StoreSettings
from phalanx.embedded.apiserver.transport import request
from phalanx.embedded.apiserver.transport.http import RawRequest


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: Any
    warnings: tuple[str, ...]


class Stream:
    """A watch that is open."""

    def __init__(self, pieces: request.Stream) -> None:
        self._pieces = pieces
        self._lines: list[bytes] = []

    async def next(self) -> Any:
        """The next event; None when the stream has ended."""
        while not self._lines:
            piece = await asyncio.wait_for(anext(aiter(self._pieces), None), 240)
            if piece is None:
                return None
            self._lines = piece.splitlines()
        return json.loads(self._lines.pop(0))

    async def close(self) -> None:
        """The client goes away."""
        await self._pieces.aclose()


class InProcess:
    """A client of an `Api` in the same event loop."""

    def __init__(self, api: Api, token: str) -> None:
        self.api, self.token = api, token

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, data: Path, **settings: Any) -> AsyncIterator[Self]:
        data.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 (once per test)
        found = replace(StoreSettings(data_dir=data), **settings)
        if not found.tokens.exists():
            write_tokens(found.tokens, [("admin", "admin", ("system:masters",))])
        api = await open_api(found)
        try:
            yield cls(api, token_of(found.tokens, "admin"))
        finally:
            await api.shutdown()

    def request(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> RawRequest:
        path, _, query = path.partition("?")
        headers = {b"authorization": f"Bearer {self.token}".encode(), b"content-type": media.encode()}
        return RawRequest(method, path, query.encode(), headers, body)

    async def ask(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Answer:
        data = b"" if body is None else json.dumps(body).encode()
        response = await self.api(self.request(method, path, data, media))
        return Answer(response.code, json.loads(response.body or b"null"), response.warnings)

    async def make(self, path: str, obj: Any) -> Any:
        """Create an object that must be accepted."""
        answer = await self.ask("POST", path, obj)
        assert answer.code == 201, answer.body
        return answer.body

    async def watch(self, path: str, accept: str = "") -> Stream:
        """Open a watch. Nothing is read from it but by `next`."""
        request = self.request("GET", path)
        if accept:
            request.headers[b"accept"] = accept.encode()
        response = await self.api(request)
        assert response.stream is not None, response.body
        return Stream(response.stream)


Scene = Callable[[InProcess], Coroutine[Any, Any, None]]


@contextlib.contextmanager
def played(data: Path, **settings: Any) -> Iterator[Callable[[Scene], None]]:
    """Return a function that plays scenes, on one server. A start takes longer than most scenes, so
    the tests of a module share a server, and each makes objects of its own names."""
    with asyncio.Runner() as runner:
        starting = InProcess.started(data, **settings)
        server = runner.run(starting.__aenter__())
        try:
            yield lambda scene: runner.run(scene(server))
        finally:
            runner.run(starting.__aexit__(None, None, None))
