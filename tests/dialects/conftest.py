"""One `phalanx up` with simulated nodes that all modules share, and one whose node is this machine, because a start
costs more than most tests. Each module gets the cluster in its original state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from phalanx.client.connection import Connection
from tests.cli.upstart import Up, started
from tests.dialects.manifests import SIMULATED, Cluster

# What the cluster writes by itself: kinds, names, and the start of namespaces.
OWN_KINDS = {"componentstatuses", "controllerrevisions", "endpoints", "endpointslices", "events", "leases"}
OWN_NAMES, OWN_SPACES = {"kube-root-ca.crt"}, "kube-"
# Queues of Volcano and KAI that are created again after each deletion.
STANDING = {
    "scheduling.volcano.sh": {"default", "root"},
    "scheduling.run.ai": {"default-queue", "default-parent-queue"},
}
ROUNDS = 20  # of deletions, after which something is made again and again


@pytest.fixture(scope="package")
def shared_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Up, set[str]]]:
    """The shared cluster, and the paths of its initial objects."""
    with started(tmp_path_factory.mktemp("simulated"), *SIMULATED) as up:
        yield up, asyncio.run(contents(up))


@pytest.fixture(scope="package")
def shared_local_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Up, set[str]]]:
    """The shared cluster of this machine, and the paths of its initial objects."""
    with started(tmp_path_factory.mktemp("local"), "--stop-pods") as up:
        yield up, asyncio.run(contents(up))


@pytest.fixture(scope="module")
def local(shared_local_up: tuple[Up, set[str]]) -> Iterator[Up]:
    up, before = shared_local_up
    yield up
    asyncio.run(restore(up, before))


@pytest.fixture(scope="module")
def simulated(shared_up: tuple[Up, set[str]]) -> Iterator[Up]:
    up, before = shared_up
    yield up
    asyncio.run(restore(up, before))


async def contents(up: Up) -> set[str]:
    """Return the paths of all objects that can be deleted."""
    async with await Connection.open(up.data / "kubeconfig") as api:
        return {path async for path in _paths(api)}


async def restore(up: Up, before: set[str]) -> None:
    """Delete what there is beyond that."""
    async with await Connection.open(up.data / "kubeconfig") as api:
        cluster = Cluster(api)
        for _ in range(ROUNDS):
            if not (more := {path async for path in _paths(api)} - before):
                return
            cluster.made = sorted(more)
            await cluster.clear()
    raise AssertionError(f"these come back whenever they are deleted: {sorted(more)}")


async def _paths(api: Connection) -> AsyncIterator[str]:
    groups = (await api.request("GET", "/apis"))["groups"]
    versions = [f"/apis/{version['groupVersion']}" for one in groups for version in one["versions"]]
    listed = set[tuple[str, str]]()  # a kind that is served in several versions is listed in one
    for root in ("/api/v1", *versions):
        for kind in (await api.request("GET", root))["resources"]:
            name = kind["name"]
            if "/" in name or name in OWN_KINDS or not {"list", "delete"} <= set(kind["verbs"]):
                continue
            if (of := (root.rpartition("/")[0], name)) in listed:
                continue
            listed.add(of)
            for one in (await api.request("GET", f"{root}/{name}"))["items"]:
                meta = one["metadata"]
                if meta["name"] in OWN_NAMES or meta.get("namespace", "").startswith(OWN_SPACES):
                    continue
                if name == "queues" and meta["name"] in STANDING.get(root.split("/")[2], ()):
                    continue
                space = f"namespaces/{meta['namespace']}/" if kind["namespaced"] else ""
                yield f"{root}/{space}{name}/{meta['name']}"
