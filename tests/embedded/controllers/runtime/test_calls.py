"""A controller's own writes are in its cache at once, and an owned object is created once."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import PODS, SERVICES, Kind
from phalanx.embedded.controllers.runtime.calls import Calls, create_owned

OWNER: Object = {"metadata": {"name": "j", "namespace": "n", "uid": "u1"}}


class Server:
    """A server with one namespace, which counts the calls that it answers at a time."""

    def __init__(self, **objects: Object) -> None:
        self.objects, self.at_once, self.most = objects, 0, 0

    async def create(self, kind: Kind, body: Object, namespace: str) -> Object:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        name = body["metadata"]["name"]
        if name in self.objects:
            raise ApiRefusal(409, "AlreadyExists", f"{name} already exists")
        meta = {**body["metadata"], "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"}
        self.objects[name] = {**body, "metadata": meta}
        return self.objects[name]

    async def get(self, kind: Kind, name: str, namespace: str) -> Object:
        return self.objects[name]

    async def delete(self, kind: Kind, name: str, namespace: str, body: Object) -> Object:
        if body["preconditions"]["uid"] != self.objects[name]["metadata"]["uid"]:
            raise ApiRefusal(409, "Conflict", "the UID in the precondition does not match")
        return {"kind": "Status", "metadata": {}, "status": "Success"} | {"gone": self.objects.pop(name)}


def calls(server: Server, **more: Any) -> Calls:
    api = cast(Connection, server)
    caches = {kind: Informer(api, kind) for kind in (PODS, SERVICES)}
    return Calls(api, caches.__getitem__, **more)


def body(name: str, owner: str = "u1") -> Object:
    reference = {"kind": "Job", "name": "j", "uid": owner, "controller": True}
    return {"metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}", "ownerReferences": [reference]}}


def test_a_write_is_known_before_the_watch_tells_it() -> None:
    async def scene() -> None:
        known = calls(Server())
        cache = known.cache(PODS)
        made = await known.create(PODS, body("p"), "n")
        assert cache.objects["n/p"] == made
        await known.remove(PODS, made)
        assert cache.objects == {}

    asyncio.run(scene())


def test_an_object_of_another_uid_is_not_removed() -> None:
    async def scene() -> None:
        server = Server()
        known = calls(server)
        made = await known.create(PODS, body("p"), "n")
        await known.remove(PODS, {**made, "metadata": {**made["metadata"], "uid": "before"}})  # it is gone: no error
        assert list(server.objects) == ["p"]

    asyncio.run(scene())


def test_so_many_calls_at_a_time_and_no_more() -> None:
    async def scene() -> None:
        server = Server()
        known = calls(server, in_flight=3)
        await asyncio.gather(*(known.create(PODS, body(f"p{at}"), "n") for at in range(10)))
        assert server.most == 3

    asyncio.run(scene())


def test_an_owned_object_is_created_once_and_a_strangers_is_an_error() -> None:
    async def scene() -> None:
        known = calls(Server(theirs=body("theirs", owner="u2")))
        made, new = await create_owned(known, SERVICES, body("s"), OWNER)
        assert new
        assert await create_owned(known, SERVICES, body("s"), OWNER) == (made, False)
        with pytest.raises(ApiRefusal) as refused:
            await create_owned(known, SERVICES, body("theirs"), OWNER)
        assert refused.value.reason == "AlreadyExists"

    asyncio.run(scene())
