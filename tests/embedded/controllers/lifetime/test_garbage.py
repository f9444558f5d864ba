"""Garbage collection on the real embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import CONFIG_MAPS, CRDS, JOBS, NODES, PODS, SECRETS, Kind
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, controllers, scenario

pytestmark = pytest.mark.slow  # real processes


def owned_by(*owners: Object, **fields: Any) -> dict[str, Any]:
    """Metadata with references to these owners."""
    return {
        "ownerReferences": [
            {
                "apiVersion": one["apiVersion"],
                "kind": one["kind"],
                "name": one["metadata"]["name"],
                "uid": uid,
                **fields,
            }
            for one in owners
            for uid in [one["metadata"]["uid"]]
        ]
    }


def test_dependents_follow_their_last_owner(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        one, other = await here.make(CONFIG_MAPS, "one"), await here.make(CONFIG_MAPS, "other")
        await here.make(SECRETS, "child", metadata=owned_by(one, other))
        await here.connection.delete(CONFIG_MAPS, "one", here.namespace)
        child = await here.until(
            lambda: here.get(SECRETS, "child"), lambda found: len(found["metadata"]["ownerReferences"]) == 1
        )
        assert child["metadata"]["ownerReferences"][0]["name"] == "other"
        await here.connection.delete(CONFIG_MAPS, "other", here.namespace)
        await here.gone(SECRETS, "child")

    scenario(api_server, play)


def test_an_owner_that_never_existed_is_no_owner(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        real = await here.make(CONFIG_MAPS, "real")
        forged = {**real, "metadata": {**real["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
        await here.make(SECRETS, "orphan", metadata=owned_by(forged))
        await here.make(SECRETS, "child", metadata=owned_by(real))
        await here.gone(SECRETS, "orphan")
        assert await here.get(SECRETS, "child") is not None

    scenario(api_server, play)


def test_foreground_deletion_waits_for_what_blocks_it(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        owner = await here.make(CONFIG_MAPS, "owner")
        held = owned_by(owner, blockOwnerDeletion=True) | {"finalizers": ["example.com/hold"]}
        await here.make(SECRETS, "held", metadata=held)
        await here.connection.delete(CONFIG_MAPS, "owner", here.namespace, {"propagationPolicy": "Foreground"})
        await here.until(lambda: here.get(SECRETS, "held"), lambda found: "deletionTimestamp" in found["metadata"])
        assert await here.get(CONFIG_MAPS, "owner") is not None
        await here.set(SECRETS, "held", metadata={"finalizers": None})
        await here.gone(SECRETS, "held")
        await here.gone(CONFIG_MAPS, "owner")

    scenario(api_server, play)


def test_orphans_lose_their_owner_and_the_tracking_finalizer(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.job()
        [pod] = await here.pods(1)
        await here.connection.delete(JOBS, "j", here.namespace, {"propagationPolicy": "Orphan"})
        await here.gone(JOBS, "j")
        left = await here.until(
            lambda: here.get(PODS, pod["metadata"]["name"]), lambda found: "finalizers" not in found["metadata"]
        )
        assert "ownerReferences" not in left["metadata"]
        assert "deletionTimestamp" not in left["metadata"]

    scenario(api_server, play)


def test_a_cluster_scoped_owner_can_own_what_is_in_a_namespace(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        name = f"n-{here.namespace}"
        node = await here.make(NODES, name)
        await here.make(CONFIG_MAPS, "child", metadata=owned_by(node))
        await here.connection.delete(NODES, name)
        await here.gone(CONFIG_MAPS, "child")

    scenario(api_server, play)


def test_custom_resources_are_owners_and_dependents(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        kind = await _define_widgets(here)
        parent = await here.make(CONFIG_MAPS, "parent")
        widget = await here.make(kind, "w", metadata=owned_by(parent))
        await here.make(SECRETS, "child", metadata=owned_by(widget))
        await here.connection.delete(CONFIG_MAPS, "parent", here.namespace)
        await here.gone(kind, "w")
        await here.gone(SECRETS, "child")

    scenario(api_server, play)


class Blind(Connection):
    """It sees none of a group, as if they were gone whenever it asks; `missed`: it has asked."""

    group: str
    missed: asyncio.Event

    @asynccontextmanager
    async def stream(self, path: str, *more: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        if f"/{self.group}/" in path:
            self.missed.set()
            raise ApiRefusal(404, "NotFound", "the server could not find the requested resource")
        async with super().stream(path, *more) as lines:
            yield lines


def test_a_kind_that_goes_before_it_was_listed_keeps_nobody_waiting(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        kind = await _define_widgets(here)
        async with await Blind.open(api_server.kubeconfig) as connection:
            connection.group, connection.missed = kind.group, asyncio.Event()
            async with controllers(connection):
                await connection.missed.wait()
                await here.connection.delete(CRDS, f"widgets.{kind.group}")
                owner = await here.make(CONFIG_MAPS, "owner")
                await here.make(SECRETS, "child", metadata=owned_by(owner))
                await here.connection.delete(CONFIG_MAPS, "owner", here.namespace)
                await here.gone(SECRETS, "child")

    scenario(api_server, play, settings=None)


async def _define_widgets(here: Cluster) -> Kind:
    """A custom kind of this namespace's own group, once it is served."""
    group = f"{here.namespace}.example.com"
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    await here.make(CRDS, f"widgets.{group}", spec=spec)
    await here.until(lambda: here.get(CRDS, f"widgets.{group}"), _established)
    return Kind(group=group, plural="widgets", name="Widget")


def _established(crd: Object) -> bool:
    entries = crd.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in entries)
