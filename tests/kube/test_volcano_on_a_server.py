"""Volcano's kinds on the embedded API server: our definitions of them are accepted, served, and written to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from phalanx import loop
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.kind import CRDS, NODES, PODS
from phalanx.dialects.volcano.dialect import VOLCANO
from phalanx.dialects.volcano.kinds import POD_GROUPS, QUEUES
from phalanx.embedded.controllers.runtime.calls import SharedInformers
from phalanx.kube.install.definitions import install_dialect
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.world.opening import open_world
from phalanx.model.policy import Policy
from phalanx.state.cluster import Cluster
from tests.embedded.apiserver.process import ServerProcess
from tests.kube.test_real_server import furnish
from tests.kube.test_volcano import ON, member

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A separate server, because the remaining objects would disturb other tests."""
    with ServerProcess.started(tmp_path_factory.mktemp("volcano")) as found:
        yield found


def body(kind: Any, name: str, **fields: Any) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, **fields}


async def until_phase(user: Connection, name: str, phase: str) -> Object:
    async with asyncio.timeout(90):
        while True:
            found = await user.get(POD_GROUPS, name, "default")
            if (found.get("status") or {}).get("phase") == phase:
                return found
            await asyncio.sleep(0.1)


def test_a_group_on_a_server(server: ServerProcess) -> None:
    async def scene() -> None:
        async with await Connection.open(server.kubeconfig) as user, SharedInformers(user) as informers:
            await install_dialect(user, VOLCANO)
            await user.create(QUEUES, body(QUEUES, "narrow", spec={"capability": {"cpu": 4}, "reclaimable": False}))
            await furnish(user)
            for name, count in (("fits", 2), ("large", 6)):
                spec = {"minMember": count, "queue": "narrow", "minResources": {"cpu": count}}
                await user.create(POD_GROUPS, body(POD_GROUPS, name, spec=spec), "default")
                for number in range(count):
                    pod = member(f"{name}-{number}", name)
                    pod["spec"]["containers"][0]["image"] = "x"
                    await user.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod}, "default")
            async with open_world(user, informers, KubeSettings(dialects=ON)) as world:
                deciding = asyncio.ensure_future(loop.run(world, Cluster(), Policy(), time.time))
                await until_phase(user, "fits", "Running")
                waits = await until_phase(user, "large", "Pending")
                deciding.cancel()
                await asyncio.gather(deciding, return_exceptions=True)
            (condition,) = waits["status"]["conditions"]
            assert condition["message"].startswith("6/6 tasks in gang unschedulable: NeverWithinLimit: ")

    asyncio.run(scene())


def test_what_the_definition_does_not_allow(server: ServerProcess) -> None:
    async def scene() -> None:
        async with await Connection.open(server.kubeconfig) as user:
            await install_dialect(user, VOLCANO)
            with pytest.raises(ApiRefusal, match="dequeueStrategy"):
                await user.create(QUEUES, body(QUEUES, "odd", spec={"dequeueStrategy": "lifo"}))

    asyncio.run(scene())


def test_a_definition_without_a_status_subresource(server: ServerProcess) -> None:
    """Volcano's own is so: its scheduler writes the whole object."""

    async def scene() -> None:
        async with await Connection.open(server.kubeconfig) as user, SharedInformers(user) as informers:
            await install_dialect(user, VOLCANO)
            name = f"{POD_GROUPS.plural}.{POD_GROUPS.group}"
            definition = await user.get(CRDS, name)
            (version,) = definition["spec"]["versions"]
            await user.patch(CRDS, name, {"spec": {"versions": [{**version, "subresources": {}}]}})
            if not (await user.list(NODES))["items"]:
                await furnish(user)
            await user.create(POD_GROUPS, body(POD_GROUPS, "plain", spec={"minMember": 1}), "default")
            pod = member("plain-0", "plain")
            pod["spec"]["containers"][0]["image"] = "x"
            await user.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod}, "default")
            async with open_world(user, informers, KubeSettings(dialects=ON)) as world:
                deciding = asyncio.ensure_future(loop.run(world, Cluster(), Policy(), time.time))
                found = await until_phase(user, "plain", "Running")
                deciding.cancel()
                await asyncio.gather(deciding, return_exceptions=True)
            assert found["spec"]["minMember"] == 1

    asyncio.run(scene())
