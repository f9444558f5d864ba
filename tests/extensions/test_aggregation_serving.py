"""The port, by real handshakes: API servers come in, strangers do not, and who asks gets what he may."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from phalanx.client.connection import ApiUnknown
from phalanx.embedded.apiserver.auth.authority import Pair, make_authority, make_server
from phalanx.embedded.apiserver.endpoints.subresources.aggregated import AGGREGATED
from phalanx.extensions.aggregation import (
    COUNTS_S,
    Answerer,
    Asker,
    DelegatedAuthorizer,
    FrontProxy,
    Handshakes,
    serving,
)

DAY = dt.timedelta(days=1)
PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/a/pendingworkloads"
OF_L = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/l/pendingworkloads"


def authority(name: str) -> Pair:
    return make_authority(name, dt.datetime.now(dt.UTC), DAY)


def client_of(authority: Pair, trusted: bytes, name: str = "front-proxy-client") -> ssl.SSLContext:
    """What an API server shows and trusts."""
    context = ssl.create_default_context(cadata=trusted.decode())
    pair = make_server(authority, name, [name], dt.datetime.now(dt.UTC), DAY)
    with os.fdopen(os.memfd_create("client"), "wb") as file:
        file.write(pair.certificate_pem + pair.key_pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context


@dataclass
class Reviews:
    """An API server that answers access reviews: alice may read everything, bob one LocalQueue."""

    asked: list[Any] = field(default_factory=list)
    broken: bool = False

    async def create(self, kind: Any, body: Any) -> Any:
        self.asked.append(body["spec"])
        if self.broken:
            raise ApiUnknown("it is away")
        spec = body["spec"]
        of_bob = spec["user"] == "bob" and spec.get("resourceAttributes", {}).get("namespace") == "team"
        return {"status": {"allowed": spec["user"] == "alice" or of_bob, "reason": "by RBAC"}}


@dataclass
class Scene:
    """A port, and an API server that is let in."""

    handshakes: Handshakes
    reviews: Reviews
    shown: Pair
    front: Pair
    port: int
    clock_s: list[float]

    async def ask(
        self, path: str, user: str = "alice", tls: ssl.SSLContext | None = None, more: Mapping[str, str] | None = None
    ) -> Any:
        headers = {**({"X-Remote-User": user} if user else {}), **(more or {})}
        connector = aiohttp.TCPConnector(ssl=tls or client_of(self.front, self.shown.certificate_pem))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"https://127.0.0.1:{self.port}{path}", headers=headers) as answer,
        ):
            return answer.status, await answer.json(content_type=None)


@asynccontextmanager
async def opened() -> AsyncIterator[Scene]:
    handshakes, reviews, clock_s = Handshakes(), Reviews(), [0.0]
    front, own = authority("front"), authority("own")
    proxy = FrontProxy(
        authority="",
        names=frozenset({"front-proxy-client"}),
        user=("x-remote-user",),
        uid=(),
        group=("x-remote-group",),
        extra_prefixes=(),
    )

    def view(path: tuple[str, ...], query: Mapping[str, str]) -> Any:
        return {"kind": "PendingWorkloadsSummary", "items": [], "path": path, "query": dict(query)}

    access = DelegatedAuthorizer(reviews, lambda: clock_s[0])  # type: ignore[arg-type]  # it answers as a connection does
    answerer = Answerer(AGGREGATED, view, access, lambda: proxy, lambda code: None)
    async with serving(("127.0.0.1", 0), handshakes, answerer) as port:
        handshakes.show(make_server(own, "served", ["127.0.0.1"], dt.datetime.now(dt.UTC), DAY))
        handshakes.believe(front.certificate_pem.decode())
        yield Scene(handshakes, reviews, own, front, port, clock_s)


def test_an_api_server_gets_the_answer_for_whom_it_asks() -> None:
    async def scene() -> None:
        async with opened() as port:
            code, found = await port.ask(f"{PENDING}?limit=2", more={"X-Remote-Group": "dev"})
            assert (code, found["kind"]) == (200, "PendingWorkloadsSummary")
            assert found["path"] == ["v1beta2", "clusterqueues", "a", "pendingworkloads"]
            assert found["query"] == {"limit": "2"}
            (spec,) = port.reviews.asked
            attributes = {"group": "visibility.kueue.x-k8s.io", "version": "v1beta2", "resource": "clusterqueues"}
            attributes |= {"verb": "get", "subresource": "pendingworkloads", "name": "a"}
            assert spec == {"resourceAttributes": attributes, "user": "alice", "groups": ["dev"]}
            assert (await port.ask(OF_L, "bob"))[0] == 200
            code, refused = await port.ask(PENDING, "bob")
            assert (code, refused["reason"]) == (403, "Forbidden")
            assert 'User "bob" cannot get resource "clusterqueues/pendingworkloads"' in refused["message"]
            assert (await port.ask(PENDING, ""))[0] == 401

    asyncio.run(scene())


def test_discovery_tells_what_is_served() -> None:
    async def scene() -> None:
        async with opened() as port:
            _, found = await port.ask("/apis/visibility.kueue.x-k8s.io/v1beta2")
            assert [one["name"] for one in found["resources"]] == [
                "clusterqueues",
                "clusterqueues/pendingworkloads",
                "localqueues",
                "localqueues/pendingworkloads",
            ]
            accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            _, whole = await port.ask("/apis", more={"Accept": accept})
            assert [one["metadata"]["name"] for one in whole["items"]] == ["visibility.kueue.x-k8s.io"]
            assert (await port.ask("/apis/visibility.kueue.x-k8s.io/v2"))[0] == 404
            assert (await port.ask("/apis/visibility.kueue.x-k8s.io/v1beta2", "bob"))[0] == 403

    asyncio.run(scene())


def test_strangers_get_no_further_than_the_handshake() -> None:
    async def scene() -> None:
        async with opened() as port:
            nobody = ssl.create_default_context(cadata=port.shown.certificate_pem.decode())
            for tls in (nobody, client_of(authority("theirs"), port.shown.certificate_pem)):
                with pytest.raises(aiohttp.ClientError):
                    await port.ask(PENDING, tls=tls)
            assert port.reviews.asked == []
            other = client_of(port.front, port.shown.certificate_pem, "kubelet")
            assert (await port.ask(PENDING, tls=other))[0] == 401, "of the authority, and not named"

    asyncio.run(scene())


def test_an_authority_and_a_certificate_that_are_replaced_count_no_more() -> None:
    """Though the port stays open, and OpenSSL forgets no authority that a context was told."""

    async def scene() -> None:
        async with opened() as port:
            before = client_of(port.front, port.shown.certificate_pem)
            assert (await port.ask(PENDING, tls=before))[0] == 200
            following, shown = authority("next"), authority("shown next")
            port.handshakes.believe(following.certificate_pem.decode())
            with pytest.raises(aiohttp.ClientError):
                await port.ask(PENDING, tls=before)
            assert (await port.ask(PENDING, tls=client_of(following, port.shown.certificate_pem)))[0] == 200
            port.handshakes.show(make_server(shown, "served next", ["127.0.0.1"], dt.datetime.now(dt.UTC), DAY))
            with pytest.raises(aiohttp.ClientError):
                await port.ask(PENDING, tls=client_of(following, port.shown.certificate_pem))
            assert (await port.ask(PENDING, tls=client_of(following, shown.certificate_pem)))[0] == 200
            with pytest.raises(ValueError, match="not a certificate in PEM"):
                port.handshakes.believe("nonsense")
            assert (await port.ask(PENDING, tls=client_of(following, shown.certificate_pem)))[0] == 200

    asyncio.run(scene())


def test_before_anybody_is_known_nobody_gets_in() -> None:
    async def scene() -> None:
        async with opened() as port:
            handshakes = Handshakes()
            answerer = Answerer((), lambda path, query: None, None, lambda: None, lambda code: None)  # type: ignore[arg-type]  # nobody is asked
            async with serving(("127.0.0.1", 0), handshakes, answerer) as empty:
                port.port = empty
                with pytest.raises(aiohttp.ClientError):
                    await port.ask(PENDING)

    asyncio.run(scene())


def test_an_answer_of_the_api_server_counts_for_ten_seconds() -> None:
    reviews, clock_s = Reviews(), [0.0]
    access = DelegatedAuthorizer(reviews, lambda: clock_s[0])  # type: ignore[arg-type]  # it answers as a connection does

    async def scene() -> None:
        alice, bob = Asker(name="alice"), Asker(name="bob")
        for _ in range(3):
            assert await access.verdict(alice, {"resource": "clusterqueues"}, PENDING) == (True, "by RBAC")
            assert await access.verdict(bob, {"resource": "clusterqueues"}, PENDING) == (False, "by RBAC")
        assert len(reviews.asked) == 2
        clock_s[0] = COUNTS_S
        await access.verdict(alice, None, "/apis")
        await access.verdict(alice, {"resource": "clusterqueues"}, PENDING)
        assert len(reviews.asked) == 4

    asyncio.run(scene())


def test_an_api_server_that_does_not_say_is_told_of() -> None:
    async def scene() -> None:
        async with opened() as port:
            port.reviews.broken = True
            code, found = await port.ask(PENDING)
            assert (code, found["reason"]) == (503, "ServiceUnavailable")
            assert "it is away" in found["message"]
            port.reviews.broken = False
            assert (await port.ask(PENDING))[0] == 200

    asyncio.run(scene())
