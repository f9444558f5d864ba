"""Plays drawn requests against a server in this process, as a user who may do little, and notes what must not be.

Requests go as bytes through the server's own HTTP, over a transport that keeps what is answered. What must not be: an
answer of 5xx (but for the few that the real server gives, recorded in tests/embedded/oracle), a request that takes
longer than a second, an answer that is no HTTP or no JSON, memory that grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import yaml

from phalanx.embedded.apimachinery.connections import Connections
from phalanx.embedded.apiserver.app.api import Api
from phalanx.embedded.apiserver.auth.authentication import token_of, write_tokens
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.server import open_api
from phalanx.embedded.apiserver.storage.settings import Retention, StoreSettings
from phalanx.embedded.apiserver.transport.http import HttpLimits, RawRequest, ServerConnection
from phalanx.embedded.apiserver.transport.protobuf import protobuf
from phalanx.embedded.apiserver.transport.request import Response
from tests.embedded.fuzz.grammar import Asked, Grammar, Resource

USER, NAMESPACE, OTHERS = "hostile", "hostile", ("default", "kube-system", "other", "missing")
MOMENTS = 50
LIMIT_S, WAIT_S = 1.0, 60.0  # of the processor; and on the clock, which a busy machine does not keep
# The real server answers these with 500 (504 the one that begins with Timeout): recorded conversations say so, or its
# source does (k8s.io/apimachinery/pkg/util/strategicpatch, k8s.io/apiserver/pkg/storage).
OF_THE_REAL_SERVER = (
    'no endpoints available for service "',  # with the next two 503, of proxies: pkg/registry/core/service/storage,
    "no service port ",
    "error trying to reach service: ",  # and k8s.io/apimachinery/pkg/util/proxy
    "the scheduler, which serves ",  # 503, as of an APIService whose server is away: k8s.io/kube-aggregator
    "resourceVersion should not be set on objects to be created",
    "strconv.ParseUint: parsing",
    "resourceVersion: Invalid value:",
    "target.name: Required value",
    "target.kind: Unsupported value:",
    "failed to create typed patch object",
    "failed to convert new object",
    "unknown patch type: ",
    "merging lists cannot yet be specified in the patch",
    "map: ",  # … does not contain declared merge key
    "The order in patch list:",
    "cannot merge lists without merge key for ",
    "list element types are not identical",
    "Timeout: Too large resource version: ",
    "Internal error occurred: the spec replicas field ",
    "Internal error occurred: This pod has more than one PodDisruptionBudget",
)
_CRON_TAB: Any = {
    "metadata": {"name": "crontabs.fuzz.example.com"},
    "spec": {
        "group": "fuzz.example.com",
        "scope": "Namespaced",
        "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"},
                },
                "additionalPrinterColumns": [{"name": "Cron", "type": "string", "jsonPath": ".spec.cron"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["cron"],
                                "x-kubernetes-validations": [
                                    {"rule": "!has(self.count) || self.count < 100", "message": "too many"},
                                    {"rule": "self.cron.matches('^[* a-z0-9]+$')"},
                                ],
                                "properties": {
                                    "cron": {"type": "string", "pattern": "^(([* a-z0-9]+)+)+$", "maxLength": 100_000},
                                    "count": {"type": "integer", "format": "int32", "multipleOf": 1, "default": 1},
                                    "size": {"x-kubernetes-int-or-string": True},
                                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "items": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {"name": {"type": "string"}, "value": {"type": "number"}},
                                        },
                                    },
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
_POLICY: Any = {
    "metadata": {"name": "fuzz"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
        },
        "validations": [{"expression": "!has(object.metadata.labels) || object.metadata.labels.all(k, k != 'evil')"}],
    },
}


@dataclass(slots=True, kw_only=True)
class Played:
    """What was seen. `bad`: what must not be, each kind once, with the request that showed it."""

    requests: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    slowest_s: float = 0.0
    slowest: Asked | None = None
    bad: dict[str, Asked] = field(default_factory=dict)
    rss_bytes: list[int] = field(default_factory=list)  # at fifty moments, the same apart


class Wire(asyncio.Transport):
    """A client's end: what the server writes to it is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    abort = close


class Player:
    """Sends requests to a server, one after the other."""

    def __init__(self, api: Api, token: str) -> None:
        self._api, self._token = api, token
        self._failure: BaseException | None = None

    async def _app(self, raw: RawRequest) -> Response:
        response = await self._api(raw)
        if response.stream is not None:  # a watch has no end of its own
            await response.stream.aclose()
            return Response()
        return response

    async def ask(self, asked: Asked) -> tuple[int, bytes]:
        """(code, body) of the answer; (0, what came) where it is no HTTP."""
        wire = Wire()
        connection = ServerConnection(self._app, Connections(), HttpLimits(body_bytes=3 * 2**20))
        connection.connection_made(wire)
        connection.data_received(_bytes_of(asked, self._token))
        while connection._task is not None:  # nobody else runs it
            await connection._task
        head, _, body = bytes(wire.written).partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 "):
            return (0, bytes(wire.written))
        return int(head[9:12]), body


def _bytes_of(asked: Asked, token: str) -> bytes:
    target = asked.path.encode("utf-8", "surrogatepass").replace(b" ", b"%20") or b"/"
    headers = {"Host": "x", "Authorization": f"Bearer {token}", **asked.headers}
    lines = [f"{name}: {value}".encode() for name, value in headers.items()]
    lines.append(b"Content-Length: %d" % len(asked.body))
    return b"%b %b HTTP/1.1\r\n%b\r\n\r\n%b" % (asked.method.encode(), target, b"\r\n".join(lines), asked.body)


@contextlib.asynccontextmanager
async def hostile_server(data: Path) -> AsyncIterator[tuple[Player, Player]]:
    """A server that keeps little of the past; (the hostile user, an administrator)."""
    settings = StoreSettings(data_dir=data, retention=Retention(events=1000, size_bytes=4 * 2**20))
    data.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 (once)
    write_tokens(settings.tokens, [("admin", "admin", ("system:masters",)), (USER, USER, ())])
    api = await open_api(settings)
    admin = Player(api, token_of(settings.tokens, "admin"))
    try:
        for name in (NAMESPACE, "other"):
            await _make(admin, "/api/v1/namespaces", {"metadata": {"name": name}})
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await _make(admin, definitions, _CRON_TAB)
        await _make(admin, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", _POLICY)
        served = Asked(method="GET", path=f"/apis/fuzz.example.com/v1/namespaces/{NAMESPACE}/crontabs")
        while (await admin.ask(served))[0] != 200:  # noqa: ASYNC110 -- the server's own task
            await asyncio.sleep(0.001)
        await _give_rights(admin)
        yield Player(api, token_of(settings.tokens, USER)), admin
    finally:
        await api.shutdown()


async def _give_rights(admin: Player) -> None:
    """All in a namespace, which he may take from himself."""
    binding = {
        "metadata": {"name": USER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": USER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
    }
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
    await _make(admin, f"{roles}/roles", {"metadata": {"name": USER}, "rules": rules})
    await _make(admin, f"{roles}/rolebindings", binding)


async def _make(player: Player, path: str, obj: Any) -> None:
    code, said = await player.ask(Asked.json("POST", path, obj))
    assert code in (201, 409), said


async def resources(player: Player) -> list[Resource]:
    """Return the resources in discovery."""
    schemas = {(one.api_version, one.kind): one.schema_name for one in RESOURCES}
    versions = ["v1"]
    for group in (await _read(player, "/apis"))["groups"]:
        versions += [one["groupVersion"] for one in group["versions"]]
    found = []
    for version in versions:
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        for one in (await _read(player, root))["resources"]:
            api_version = f"{one['group']}/{one['version']}" if one.get("version") else version
            kind = one["kind"]
            found.append(
                Resource(
                    root=root,
                    api_version=api_version.lstrip("/"),
                    kind=kind,
                    plural=one["name"],
                    namespaced=one["namespaced"],
                    verbs=tuple(one["verbs"]),
                    schema=schemas.get((api_version, kind), ""),
                )
            )
    return found


async def _read(player: Player, path: str) -> Any:
    _, body = await player.ask(Asked(method="GET", path=path, headers={"Accept": "application/json"}))
    return json.loads(body)


async def play(data: Path, requests: int, seed: int, *, as_admin: bool = False) -> Played:
    """So many requests of that seed."""
    async with hostile_server(data) as (hostile, admin):
        player = admin if as_admin else hostile
        grammar = Grammar(Random(seed), await resources(admin), (NAMESPACE, *OTHERS))
        played = Played()
        for number in range(requests):
            asked = grammar.request()
            began_s, work_s = time.monotonic(), time.process_time()
            code, body = await player.ask(asked)
            took_s, work_s = time.monotonic() - began_s, time.process_time() - work_s
            if code >= 500 and asked.method == "HEAD":  # which is told nothing of the reason
                _, body = await player.ask(replace(asked, method="GET"))
            _note(played, asked, code, body, took_s, work_s)
            if number % 50 == 0:
                await _give_rights(admin)
            if number % max(1, requests // MOMENTS) == 0:
                gc.collect()
                played.rss_bytes.append(rss_bytes())
        return played


def _note(played: Played, asked: Asked, code: int, body: bytes, took_s: float, work_s: float) -> None:
    played.requests += 1
    played.codes[code] += 1
    if took_s > played.slowest_s:
        played.slowest_s, played.slowest = took_s, asked
    if work_s > LIMIT_S or took_s > WAIT_S:
        played.bad.setdefault(f"{took_s:.1f} s for {asked.method} {asked.path}", asked)
    if code == 0:
        played.bad.setdefault(f"no HTTP: {body[:80]!r}", asked)
    if code >= 500:
        message = _message(body)
        if not message.startswith(OF_THE_REAL_SERVER):
            played.bad.setdefault(f"{code} {message[:100]}", asked)


def _message(body: bytes) -> str:
    """Return the message of a Status in any format (JSON is YAML too)."""
    try:
        return str((protobuf.decode(body) if body.startswith(protobuf.MAGIC) else yaml.safe_load(body))["message"])
    except (yaml.YAMLError, ValueError, KeyError, TypeError):
        return repr(body[:80])


def rss_bytes() -> int:
    """The memory of this process."""
    line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) * 1024
