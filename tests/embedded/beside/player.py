"""Send conversations to two API servers, and compare code, media type, warnings and body of each answer."""

from __future__ import annotations

import asyncio
import random
import string
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.embedded.beside.answers import seen
from tests.embedded.beside.conversation import Ask, Conversation, changed
from tests.embedded.oracle.normalise import Names, differences, substituted
from tests.embedded.oracle.replay import Server

PATIENCE_S = 20.0
_ABSENT = {"uid": "00000000-0000-0000-0000-000000000000", "continue": "absent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request of a conversation, and where the two answers differ."""

    conversation: Conversation
    number: int
    differences: Sequence[Mapping[str, Any]]

    @property
    def ask(self) -> Ask:
        return self.conversation.asks[self.number]


class _Variables(dict[str, Any]):
    """Values of `${name}`. A value that no answer delivered has the same stand-in on both sides."""

    def __missing__(self, name: str) -> str:
        kind = name.rstrip(string.digits)
        return str(self["start"]) if kind == "rv" else _ABSENT[kind]


def server_of(kubeconfig: Path) -> Server:
    """Return the server of a kubeconfig whose current context has a user with a token."""
    config = yaml.safe_load(kubeconfig.read_text())
    named = {part: {one["name"]: one for one in config[part]} for part in ("clusters", "users", "contexts")}
    context = named["contexts"][config["current-context"]]["context"]
    url = named["clusters"][context["cluster"]]["cluster"]["server"]
    return Server(url, named["users"][context["user"]]["user"]["token"], max_poll_s=PATIENCE_S)


@dataclass(slots=True)
class _Side:
    """One server, and what it has answered in one conversation."""

    server: Server
    variables: _Variables
    answers: list[dict[str, Any]] = field(default_factory=list)
    names: Names = field(default_factory=lambda: Names({}))

    async def send(self, ask: Ask) -> Any:
        request = self._request(ask)
        end_s = time.monotonic() + PATIENCE_S
        got = await self._sent(request)
        while ask.until and got["status"] != ask.until and time.monotonic() < end_s:
            await asyncio.sleep(0.1)
            got = await self._sent(request)
        self._note(got, len(self.answers))
        self.answers.append(got)
        return seen(got, self.names, ask.path, managed=ask.managed)

    async def _sent(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self.server.send(request)
        except aiohttp.ClientError as error:
            return {"status": 0, "contentType": "", "body": type(error).__name__}

    def _request(self, ask: Ask) -> dict[str, Any]:
        headers = {"Content-Type": ask.media, **ask.headers}
        request: dict[str, Any] = {"method": ask.method, "path": ask.path, "headers": headers}
        body = changed(self.answers[ask.base]["body"], ask.edits) if ask.base is not None else ask.body
        if isinstance(body, str):
            request["raw"] = body
        elif body is not None:
            request["body"] = body
        return substituted(request, self.variables)

    def _note(self, got: Mapping[str, Any], number: int) -> None:
        """Give the identity and the version of the answer a name, so that they are compared by their place."""
        meta = got["body"].get("metadata") if isinstance(got["body"], dict) else None
        if not isinstance(meta, dict):
            return
        for key, name in (("resourceVersion", "rv"), ("uid", "uid"), ("continue", "continue")):
            if isinstance(value := meta.get(key), str) and value:
                self.variables[f"{name}{number}"] = value
                if name == "rv":
                    self.variables["start"] = value  # where watches begin that follow a refused request
                if value not in self.names.variables.values():
                    self.names.variables[f"{name}{number}"] = value


async def play(ours: Server, theirs: Server, conversation: Conversation, word: str) -> list[Step]:
    """Send one conversation to both servers."""
    namespace = f"b{conversation.seed}-{word}"
    sides = [_Side(one, _Variables(ns=namespace, id=f"{conversation.seed}{word}")) for one in (ours, theirs)]
    steps = []
    made = {"metadata": {"name": namespace}}
    for one in sides:
        answer = await one.server.send(_plain("POST", "/api/v1/namespaces", made))
        one.variables["start"] = answer["body"]["metadata"]["resourceVersion"]
    try:
        for number, ask in enumerate(conversation.asks):
            mine, real = await asyncio.gather(*(one.send(ask) for one in sides))
            steps.append(Step(conversation=conversation, number=number, differences=differences(real, mine)))
    finally:
        for path in (*conversation.cleanup, "/api/v1/namespaces/${ns}"):
            plain = [substituted(_plain("DELETE", path), one.variables) for one in sides]
            await asyncio.gather(*(one.server.send(request) for one, request in zip(sides, plain, strict=True)))
    return steps


def _plain(method: str, path: str, body: Any = None) -> dict[str, Any]:
    return {"method": method, "path": path, **({} if body is None else {"body": body})}


async def play_all(ours: Server, theirs: Server, conversations: Sequence[Conversation], *, jobs: int) -> list[Step]:
    """Play conversations side by side; none sees the objects of another."""
    word = "".join(random.choices(string.ascii_lowercase, k=5))
    gate = asyncio.Semaphore(jobs)

    async def one(conversation: Conversation) -> list[Step]:
        async with gate:
            return await play(ours, theirs, conversation, word)

    async with ours, theirs:
        return [step for steps in await asyncio.gather(*map(one, conversations)) for step in steps]
