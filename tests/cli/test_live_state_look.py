"""What a command that looks once asks a server that shows its user one namespace and no more."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from phalanx.cli.cluster.live_state.look import look
from phalanx.client.connection import ApiRefusal
from phalanx.client.kind import JOBS, LIMIT_RANGES, NODES, RESOURCE_QUOTAS, VOLUME_CLAIMS, VOLUMES, Kind
from phalanx.client.tally import Tally
from phalanx.kube.install.definitions import QUEUES
from tests import clockwork
from tests.kube.double import Api, Client, Object, job, node

WITHHELD = (LIMIT_RANGES, RESOURCE_QUOTAS, VOLUME_CLAIMS, VOLUMES)


class Shared(Client):
    """A server for a user who may list the namespace `default`, nodes, queues and classes. `asked`: path -> the number
    of requests."""

    lists_by_watch = False
    server = "https://shared"

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.asked, self.tally = Counter[str](), Tally()

    async def create(self, kind: Kind, body: Object, namespace: str = "", subresource: str = "", name: str = "") -> Any:
        return {"status": {"allowed": body["spec"]["resourceAttributes"]["namespace"] == "default"}}

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        raise ApiRefusal(404, "NotFound", f"{kind.plural} {name!r} not found")

    async def request(self, method: str, path: str, **_: Any) -> Any:
        self.asked[path] += 1
        if any(path == kind.path() for kind in WITHHELD):
            raise ApiRefusal(403, "Forbidden", f"you may not list {path}")
        return await super().request(method, path)

    @asynccontextmanager
    async def stream(self, *_: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        await asyncio.Event().wait()  # nothing changes any more
        yield  # type: ignore[misc]  # never reached


class Everything(Shared):
    """A server for a user who may list all namespaces."""

    async def create(self, kind: Kind, body: Object, namespace: str = "", subresource: str = "", name: str = "") -> Any:
        return {"status": {"allowed": True}}


def test_an_invalid_object_is_logged_by_the_scheduler_and_not_by_each_command(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        api = Api()
        api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
        api.put(JOBS, {**job("odd", 1), "spec": 5})
        api.put(JOBS, job("his", 2))
        shared: Any = Everything(api)
        snapshot = await look(shared)
        assert (snapshot.partial, list(snapshot.cluster.jobs)) == (False, ["default/his"])

    with caplog.at_level(logging.WARNING, "phalanx.kube"):
        clockwork.run(scene())
    assert not [one for one in caplog.records if "odd" in one.getMessage()]


def test_what_a_user_may_not_list_is_asked_for_once_and_he_does_not_wait() -> None:
    """The patience of a scheduler, which asks a server that has just started again, is 3.5 s for each command."""

    async def scene() -> None:
        api = Api()
        api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
        api.put(NODES, node("n1", 16))
        api.put(JOBS, job("his", 2))
        shared: Any = Shared(api)
        began_s = asyncio.get_running_loop().time()
        snapshot = await look(shared, "default")
        assert snapshot.partial
        assert list(snapshot.jobs) == ["default/his"]
        assert {kind.plural: shared.asked[kind.path()] for kind in WITHHELD} == {kind.plural: 1 for kind in WITHHELD}
        assert asyncio.get_running_loop().time() - began_s < 0.5

    clockwork.run(scene())
