"""Replay recorded conversations with a real kube-apiserver (v1.36.2) against a server, and compare every answer.

A case is a JSON file: steps of request and expected answer. A step may capture values for later steps, may be polled
until it matches (for controllers), and may be a watch whose stream is open while its sub-steps run. README.md beside
this file describes the format and the recordings.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import random
import re
import ssl
import string
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
from yarl import URL

from tests.embedded.oracle.jsonpath import remove, select, value_at
from tests.embedded.oracle.normalise import Names, differences, normalise, substituted, without_managed_fields

CASES = Path(__file__).parent / "cases"
REQUEST_TIMEOUT_S = 120.0
PATIENCE_S = 90.0  # with what must come; a busy machine may stall for long
_URL_SAFE = frozenset(string.ascii_letters + string.digits + "-._~/?&=%:,+;@!'()*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a step; `problems` is empty when it matches."""

    case: str
    step: str
    problems: Sequence[dict[str, Any]] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


class Server:
    """The server under test. Use as an async context."""

    def __init__(self, url: str, token: str, limited_token: str = "", *, max_poll_s: float) -> None:
        self.url, self.max_poll_s = url, max_poll_s
        self.tokens = {"admin": token, "limited": limited_token, "bad": "not-a-valid-token", "none": ""}

    async def __aenter__(self) -> Self:
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        connector = aiohttp.TCPConnector(ssl=tls, limit=200)
        self.session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    def open(self, request: dict[str, Any]) -> Any:
        headers = {"Accept": "application/json", "User-Agent": "oracle/1"}
        if token := self.tokens[request.get("as", "admin")]:
            headers["Authorization"] = f"Bearer {token}"
        data = None
        if "raw" in request or "body" in request:
            data = request["raw"].encode() if "raw" in request else json.dumps(request["body"]).encode()
            headers["Content-Type"] = "application/json"
        path = "".join(c if c in _URL_SAFE else "".join(f"%{b:02X}" for b in c.encode()) for c in request["path"])
        return self.session.request(
            request["method"],
            URL(self.url + path, encoded=True),
            headers=headers | (request.get("headers") or {}),
            data=data,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
        )

    async def send(self, request: dict[str, Any]) -> dict[str, Any]:
        async with self.open(request) as response:
            return answer(response, await response.read())


def answer(response: aiohttp.ClientResponse, raw: bytes) -> dict[str, Any]:
    content_type = response.headers.get("Content-Type", "")
    text = raw.decode("utf-8", "replace")
    found: dict[str, Any] = {"status": response.status, "contentType": content_type.split(";")[0].strip(), "body": text}
    if "json" in content_type or (text[:1] == "{" and "yaml" not in content_type):
        with contextlib.suppress(ValueError):
            found["body"] = json.loads(text)
    if warnings := [re.sub(r'^299 \S+ "(.*)"$', r"\1", one) for one in response.headers.getall("Warning", [])]:
        found["warnings"] = warnings
    if "Retry-After" in response.headers:
        found["retryAfter"] = response.headers["Retry-After"]
    return found


def flat(steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps with their sub-steps."""
    return [one for step in steps for one in (step, *flat(step.get("steps") or []))]


@dataclass(slots=True)
class Run:
    """One run of one case, in a namespace of its own."""

    server: Server
    case: dict[str, Any]
    results: list[Result] = field(default_factory=list)
    names: Names = field(default_factory=lambda: Names({}))

    async def run(self) -> list[Result]:
        word = "".join(random.choices(string.ascii_lowercase, k=7))
        short = re.sub(r"[^a-z0-9-]", "-", self.case["case"])[:48].strip("-")
        self.names.variables |= {"id": word, "ns": f"o-{short}-{word}"}
        own_namespace = self.case.get("namespace", True)
        if own_namespace:
            meta = {"name": self.names.variables["ns"]}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
            await self.server.send({"method": "POST", "path": "/api/v1/namespaces", "body": body})
        try:
            await self.steps(self.case["steps"])
        finally:
            await self.clean_up(own_namespace)
        return self.results

    async def clean_up(self, own_namespace: bool) -> None:
        requests = [one["request"] for one in self.case.get("cleanup") or []]
        if own_namespace:
            requests.append({"method": "DELETE", "path": "/api/v1/namespaces/${ns}"})
        for request in requests:
            try:
                await self.server.send(substituted(request, self.names.variables))
            except (KeyError, aiohttp.ClientError):
                continue

    async def steps(self, steps: Sequence[dict[str, Any]]) -> None:
        for step in steps:
            try:
                await (self.watch(step) if "watch" in step else self.request(step))
            except Exception as error:  # whatever a server sends must not stop the run
                done = {one.step for one in self.results}
                why = f"not run: {type(error).__name__}: {error}"
                for missed in flat([step]):
                    if missed["id"] not in done:
                        self.finish(missed, [{"path": why}])

    def finish(self, step: dict[str, Any], problems: list[dict[str, Any]]) -> None:
        self.results.append(Result(case=self.case["case"], step=step["id"], problems=problems))

    async def request(self, step: dict[str, Any]) -> None:
        request = substituted(step["request"], self.names.variables)
        poll = step.get("poll")
        limit_s = self.server.max_poll_s if poll else 0.0
        end, pause_s = time.monotonic() + limit_s, 0.05
        while True:
            got = await self.server.send(request)
            names = self.names.fork()
            capture(step, got, names)
            problems = compare(step, got, names)
            once = bool(poll) and poll.get("settle") == 0 and got["status"] == step["expect"]["status"]
            if not problems or once or time.monotonic() >= end:
                self.names = names
                self.finish(step, problems)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.5)

    async def watch(self, step: dict[str, Any]) -> None:
        stream = _Stream(step["watch"])
        request = substituted(step["request"], self.names.variables)
        task = asyncio.ensure_future(stream.listen(self.server, request))
        try:
            await _within(stream.opened.wait(), PATIENCE_S)
            await _within(stream.initial(), PATIENCE_S)
            await self.steps(step.get("steps") or [])
            await _within(stream.full.wait(), PATIENCE_S)
            if not task.done():  # what must not come has this long to come
                await asyncio.sleep(step["watch"].get("linger", 0.4))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self.finish(step, compare_watch(step, stream, self.names))


@dataclass(slots=True)
class _Stream:
    """A watch that is open."""

    spec: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)
    refusal: dict[str, Any] | None = None
    content_type: str = ""
    end: str = "open"
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    full: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, server: Server, request: dict[str, Any]) -> None:
        try:
            async with server.open(request) as response:
                if response.status != 200:
                    self.refusal = answer(response, await response.read())
                    return
                self.content_type = response.headers.get("Content-Type", "").split(";")[0].strip()
                self.opened.set()
                async for line in response.content:
                    self.take(line)
                self.end = "closed"
        finally:
            self.opened.set()
            self.full.set()

    def take(self, line: bytes) -> None:
        if line.strip():
            self.events.append(json.loads(line))
            self.changed.set()
        until = self.spec.get("until") or {}
        real = sum(one["type"] != "BOOKMARK" for one in self.events)
        if ("events" in until and real >= until["events"]) or (until.get("bookmark") and real < len(self.events)):
            self.full.set()

    async def initial(self) -> None:
        while len(self.events) < self.spec.get("initial", 0):
            self.changed.clear()
            await self.changed.wait()


async def _within(waiting: Any, limit_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(waiting, limit_s)


# --- comparing ---------------------------------------------------------------------------------------------------


def capture(step: dict[str, Any], got: dict[str, Any], names: Names) -> None:
    for name, path in (step.get("capture") or {}).items():
        if found := select(got["body"], path):
            names.variables[name] = found[0]


def seen(step: dict[str, Any], got: dict[str, Any], names: Names) -> dict[str, Any]:
    """An answer in the form in which the transcript holds its expectation."""
    found: dict[str, Any] = {"status": got["status"]}
    kind = step.get("compare", "full")
    if kind == "status":
        return found
    found["contentType"] = got["contentType"]
    found |= {key: normalise(got[key], names) for key in ("warnings", "retryAfter") if key in got}
    body = normalise(got["body"], names)
    if kind == "subset":
        found["fields"] = {path: value_at(body, path) for path in step["fields"]}
    else:
        found["body"] = body
    return found


def compare(step: dict[str, Any], got: dict[str, Any], names: Names) -> list[dict[str, Any]]:
    """Problems of one answer; none when it matches."""
    want, have = step["expect"], seen(step, got, names)
    if want["status"] != have["status"]:
        return [{"path": "(status)", "expected": want["status"], "actual": have["status"], "body": got["body"]}]
    problems = [
        {"path": f"({key})", "expected": want.get(key), "actual": have.get(key)}
        for key in ("contentType", "warnings", "retryAfter")
        if want.get(key) != have.get(key)
    ]
    for path, value in want.get("fields", {}).items():
        problems += compare_bodies(step, value, have["fields"].get(path), path)
    if "body" in want:
        problems += compare_bodies(step, want["body"], have["body"])
    return problems


def compare_bodies(step: dict[str, Any], want: Any, have: Any, prefix: str = "") -> list[dict[str, Any]]:
    want, have = copy.deepcopy(want), copy.deepcopy(have)
    if not step.get("managedFields"):
        want, have = without_managed_fields(want), without_managed_fields(have)
    for ignored in (step.get("ignore") or []) if not prefix else []:
        remove(want, ignored["path"])
        remove(have, ignored["path"])
    return differences(want, have, prefix)


def compare_watch(step: dict[str, Any], stream: _Stream, names: Names) -> list[dict[str, Any]]:
    want = step["expect"]
    if stream.refusal is not None:
        return compare(step, stream.refusal, names)
    if want["status"] != 200:
        return [{"path": "(status)", "expected": want["status"], "actual": 200}]
    problems = []
    if want.get("contentType") != stream.content_type:
        problems.append({"path": "(contentType)", "expected": want.get("contentType"), "actual": stream.content_type})
    if want.get("end", stream.end) != stream.end:
        problems.append({"path": "(end)", "expected": want["end"], "actual": stream.end})
    return problems + compare_bodies(step, want.get("events"), _events(step, stream, names), "(events)")


def _events(step: dict[str, Any], stream: _Stream, names: Names) -> list[dict[str, Any]]:
    spec, found = step["watch"], []
    for event in stream.events:
        obj = event.get("object") or {}
        notes = (obj.get("metadata") or {}).get("annotations") or {}
        if event["type"] == "BOOKMARK" and not spec.get("bookmarks") and "k8s.io/initial-events-end" not in notes:
            continue
        body = normalise(obj, names)
        if "fields" in step:
            body = {path: value_at(body, path) for path in step["fields"]}
        found.append({"type": event["type"], "object": body})
    if count := spec.get("initial"):
        found[:count] = sorted(found[:count], key=lambda one: json.dumps(one, sort_keys=True))
    return found


# --- many cases --------------------------------------------------------------------------------------------------


def load(group: str) -> list[dict[str, Any]]:
    """The cases of a group."""
    return [json.loads(path.read_text()) for path in sorted(CASES.glob(f"{group}-*.json"))]


async def replay(server: Server, cases: Sequence[dict[str, Any]], *, jobs: int = 4) -> list[Result]:
    """Run cases side by side; none sees the objects of another."""
    gate = asyncio.Semaphore(jobs)

    async def one(case: dict[str, Any]) -> list[Result]:
        async with gate:
            if not await _serves_all(server, case.get("needs") or []):
                missing = [{"path": f"the server does not serve {case['needs']}"}]
                return [Result(case=case["case"], step=s["id"], problems=missing) for s in flat(case["steps"])]
            return await Run(server, case).run()

    async with server:
        return [result for results in await asyncio.gather(*map(one, cases)) for result in results]


async def _serves_all(server: Server, needs: Sequence[str]) -> bool:
    """Are the paths served that a case needs? `limited-user` is a need of every server here."""
    for path in needs:
        if path != "limited-user" and (await server.send({"method": "GET", "path": path}))["status"] != 200:
            return False
    return True
