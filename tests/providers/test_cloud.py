"""Nodes of a cloud provider that speaks `externalgrpc`, and is late, refusing, forgetful, priced or lossy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.commands.administer.node_group_findings import PROBLEM, WARNING, of_node_groups
from phalanx.cli.local.node_groups.cloud_fields import complete_cloud
from phalanx.cli.local.node_groups.file import GroupInFile, read_node_groups
from phalanx.cli.local.node_groups.provider_fields import CloudProvider
from phalanx.client.connection import Connection
from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import QUEUES
from phalanx.model.reason import ReasonCode
from phalanx.providers.counted.calls import CountedProvider
from phalanx.providers.counted.cloud import Instances
from phalanx.providers.counted.cloud_protocol import RUNNING, CloudAddress, message
from phalanx.providers.provider import EmptyNodes, ProviderError, Status
from tests.kube.double import Api, Client, Object, job, node
from tests.providers.cloud import Cloud, CloudGroup, template
from tests.providers.test_autoscaler import add_node, bound, code, played, scheduler, submit, until

LABEL = ("group", "g")


def served(tmp_path: Path, cloud: Cloud, scene: Callable[[CloudAddress], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), cloud.served(tmp_path / "cloud.sock") as at:
            await scene(at)

    asyncio.run(run())


def provided(at: CloudAddress, api: Api) -> CountedProvider:
    """The provider of the group `g`, whose Nodes are those of `api`."""
    nodes: Callable[[], Any] = lambda: api.objects[NODES].values()  # noqa: E731 (it is passed on)
    backend = Instances(at, "g", nodes, LABEL, Client(api))  # type: ignore[arg-type]  # a double
    return CountedProvider(backend, lambda name: api.objects[NODES].get(name, {}).get("spec", {}).get("providerID", ""))


def join(api: Api, instance: str, name: str) -> None:
    """The instance joins the cluster as a Node."""
    api.put(NODES, {**node(name), "spec": {"providerID": instance}})


def names(status: Status) -> list[str]:
    return [each.name for each in status.requested]


def test_nodes_are_bought_once_although_answers_are_lost_and_are_there_when_they_have_joined(tmp_path: Path) -> None:
    cloud, api = Cloud({"g": CloudGroup()}, loses={"NodeGroupIncreaseSize": 1}), Api()

    async def scene(at: CloudAddress) -> None:
        provider = provided(at, api)
        with pytest.raises(ProviderError, match=r"cannot be called: the connection was cut"):
            await provider.scale("g", ["g-1", "g-2"], ())
        assert await provider.scale("g", ["g-1", "g-2"], ()) == {}
        assert cloud.bought == [("g", 2)]
        assert names(await provider.status("g")) == ["g-1", "g-2"], "the provider has still to create them"
        first = cloud.create("g")
        assert names(await provider.status("g")) == ["g-1", "g-2"]
        cloud.groups["g"].instances[first].instanceState = RUNNING
        assert len(names(await provider.status("g"))) == 2, "it runs, and has not joined"
        join(api, first, "n1")
        assert names(await provider.status("g")) == ["g-2"]
        assert api.objects[NODES]["n1"]["metadata"]["labels"] == {"group": "g"}

    served(tmp_path, cloud, scene)


def test_a_request_that_is_given_up_leaves_nothing_whatever_became_of_it(tmp_path: Path) -> None:
    cloud, api = Cloud({"g": CloudGroup()}), Api()

    async def scene(at: CloudAddress) -> None:
        provider, here = provided(at, api), cloud.groups["g"]
        await provider.scale("g", ["g-0"], ())
        cloud.loses["NodeGroupIncreaseSize"] = 1
        with pytest.raises(ProviderError):
            await provider.scale("g", ["g-1", "g-2", "g-3"], ())
        cloud.create("g")  # of g-0
        second = cloud.create("g")
        await provider.scale("g", (), ["g-1", "g-2", "g-3"])
        assert (here.target, len(here.instances), cloud.deleted) == (1, 1, [second])
        here.refuses = "no A100 in\n zone b"
        with pytest.raises(ProviderError, match="with RESOURCE_EXHAUSTED: no A100 in zone b"):
            await provider.scale("g", ["g-4"], ())
        await provider.scale("g", (), ["g-4"])
        assert (here.target, names(await provider.status("g"))) == (1, ["g-0"]), "what others wait for stays"

    served(tmp_path, cloud, scene)


def test_an_instance_that_fails_ends_its_request_and_is_removed(tmp_path: Path) -> None:
    cloud, api = Cloud({"g": CloudGroup()}), Api()

    async def scene(at: CloudAddress) -> None:
        provider = provided(at, api)
        await provider.status("g")
        await provider.scale("g", ["g-1", "g-2"], ())
        broken = cloud.create("g", error="spot price is too high")
        status = await provider.status("g")
        assert (status.failed, names(status)) == (
            {"g-1": f"instance {broken} failed: OUT_OF_STOCK: spot price is too high"},
            ["g-2"],
        )
        await provider.scale("g", (), ["g-1"])
        assert (cloud.deleted, cloud.groups["g"].target) == ([broken], 1)

    served(tmp_path, cloud, scene)


def test_an_empty_node_is_deleted_by_its_id_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.providers.provider.BINDINGS_S", 0.0)
    cloud, api = Cloud({"g": CloudGroup()}), Api()

    async def scene(at: CloudAddress) -> None:
        provider = EmptyNodes(provided(at, api), Client(api))  # type: ignore[arg-type]  # a double
        await provider.scale("g", ["g-1", "g-2"], ())
        for name in ("n1", "n2"):
            join(api, cloud.create("g", RUNNING), name)
        join(api, "cloud:///other/1", "stranger")
        first = api.objects[NODES]["n1"]["spec"]["providerID"]
        cloud.loses["NodeGroupDeleteNodes"] = 1
        with pytest.raises(ProviderError):
            await provider.scale("g", (), ["n1"])
        assert await provider.scale("g", (), ["n1"]) == {}, "it has been deleted"
        refused = await provider.scale("g", (), ["stranger"])
        assert list(refused) == ["stranger"]
        assert "has no instance of this node in group g" in refused["stranger"]
        assert (cloud.deleted, cloud.groups["g"].target) == ([first], 1)
        assert sorted(api.objects[NODES]) == ["n2", "stranger"]

    served(tmp_path, cloud, scene)


def test_an_instance_that_others_delete_is_not_bought_again(tmp_path: Path) -> None:
    """The provider still lists it, and says no state."""
    cloud, api = Cloud({"g": CloudGroup()}), Api()

    async def scene(at: CloudAddress) -> None:
        provider = provided(at, api)
        await provider.scale("g", ["g-1", "g-2"], ())
        for name in ("n1", "n2"):
            join(api, cloud.create("g", 0), name)
        cloud.groups["g"].target = 1
        await provider.scale("g", ["g-3"], ())
        assert cloud.bought == [("g", 2), ("g", 1)]

    served(tmp_path, cloud, scene)


@pytest.mark.parametrize(
    ("target", "ids", "error"),
    [
        (2**31 - 1, (), "reports 0 instances, and a target size of 2147483647 of group g; at most"),
        (-1, (), "a target size of -1"),
        (1, ("",), "without id, or twice"),
        (1, ("+0",), "without id, or twice"),
    ],
)
def test_a_provider_that_says_nonsense_is_not_believed(
    tmp_path: Path, target: int, ids: tuple[str, ...], error: str
) -> None:
    instances = {each: message("InstanceStatus")() for each in ids}
    cloud = Cloud({"g": CloudGroup(target=target, instances=instances)})

    async def scene(at: CloudAddress) -> None:
        with pytest.raises(ProviderError, match=error):
            await provided(at, Api()).status("g")

    served(tmp_path, cloud, scene)


def in_file(tmp_path: Path, *fields: str) -> GroupInFile:
    file, more = tmp_path / "groups.yaml", "".join(f"  {each}\n" for each in fields)
    provider = f"provider: {{externalgrpc: {{address: 'unix:{tmp_path}/cloud.sock', group: g}}}}"
    file.write_text(f"nodeGroups:\n- name: gpu\n  {provider}\n{more}")
    return read_node_groups(file)[0]


async def completed(group: GroupInFile) -> GroupInFile:
    assert isinstance(group.provider, CloudProvider)
    return await complete_cloud(group, group.provider)


def test_a_provider_that_is_away_stops_no_scheduler_that_has_a_complete_file(tmp_path: Path) -> None:
    own = in_file(tmp_path, "allocatable: {cpu: 6}")
    assert asyncio.run(completed(own)) == own
    with pytest.raises(PhalanxError, match=r"node group gpu: the cloud provider at .* cannot be called"):
        asyncio.run(completed(in_file(tmp_path)))


def test_doctor_names_instances_that_have_not_joined_and_providers_that_are_away(tmp_path: Path) -> None:
    cloud, own = Cloud({"g": CloudGroup(target=3)}), in_file(tmp_path, "allocatable: {cpu: 6}")

    class Cluster:
        async def list(self, kind: Any) -> Object:
            return {"items": [{**node("n1"), "spec": {"providerID": first}}]}

    first = cloud.create("g", RUNNING)
    cloud.create("g", RUNNING)

    async def scene(at: CloudAddress) -> None:
        (found,) = await of_node_groups(Cluster(), [own])  # type: ignore[arg-type]  # a double
        assert (found.state, found.text) == (
            WARNING,
            "its provider lists 2 starting, 1 running; the cluster has 0 of its nodes; not in the cluster: n1",
        )
        assert "phalanx.dev/node-group=gpu" in found.mend

    served(tmp_path, cloud, scene)
    (found,) = asyncio.run(of_node_groups(Cluster(), [own]))  # type: ignore[arg-type]  # a double
    assert found.state == PROBLEM


GROUPS = """
nodeGroups:
- {name: full, provider: {externalgrpc: {address: "unix:SOCKET", group: full}}}
- {name: late, timeout: 1s, delay: 1s, provider: {externalgrpc: {address: "unix:SOCKET", group: late}}}
- {name: sure, idle: 0s, provider: {externalgrpc: {address: "unix:SOCKET", group: sure}}}
"""


async def joined(user: Connection, cloud: Cloud, name: str) -> str:
    """An instance of `sure` is created, and joins the cluster. Return its id."""
    instance = cloud.create("sure", RUNNING)
    await add_node(user, name, {"pool": "sure"}, instance)
    return instance


async def polled(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110 (a provider and the scheduler's state tell nobody)
            await asyncio.sleep(0.02)


@pytest.mark.slow
def test_the_cheapest_group_that_delivers_gets_a_gang_started_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`full` refuses, `late` never creates an instance, and `sure` loses a node while the gang waits."""
    monkeypatch.setattr("phalanx.providers.provision.LOOK_S", 0.1)
    monkeypatch.setattr("phalanx.providers.provision.FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("phalanx.providers.provider.BINDINGS_S", 0.0)
    prices = {"sure": 3.0, "full": 1.0, "late": 2.0}
    cloud = Cloud({name: CloudGroup(price=price, node=template(name, cpu="4")) for name, price in prices.items()})
    cloud.groups["full"].refuses = "no capacity in zone b"

    async def scene(user: Connection) -> None:
        (tmp_path / "groups.yaml").write_text(GROUPS.replace("SOCKET", str(tmp_path / "c.sock")))
        async with (
            cloud.served(tmp_path / "c.sock"),
            scheduler(user, read_node_groups(tmp_path / "groups.yaml")) as (informers, cluster, _),
        ):
            nodes = informers(NODES).objects
            quota = {"spec": {"quotas": [{"limit": {"cpu": 8}}]}}
            await user.create(
                QUEUES, {"apiVersion": "phalanx.dev/v1", "kind": "Queue", "metadata": {"name": "q"}, **quota}
            )
            await submit(user, job("gang", 2, "4", queue="q"), job("poor", 1, "4", queue="q"))
            await polled(lambda: cloud.groups["sure"].target == 2)
            assert code(cluster, "gang") is ReasonCode.WAITING_FOR_NODES
            assert code(cluster, "poor") is ReasonCode.QUEUE_LIMIT
            await user.delete(JOBS, "poor", "default")
            first = await joined(user, cloud, "n1")
            await polled(lambda: len(cluster.columns.groups.coming) == 1)
            cloud.lose(first)
            await user.delete(NODES, "n1")
            await polled(lambda: len(cluster.columns.groups.coming) == 2)
            assert bound(informers) == [], "half a gang starts nothing"
            await joined(user, cloud, "n2")
            await polled(lambda: cloud.groups["sure"].target == 2)
            await joined(user, cloud, "n3")
            await until(lambda: sorted(bound(informers)) == ["n2", "n3"])
            for pod in list(informers(PODS).objects):
                await user.patch(PODS, pod.partition("/")[2], {"status": {"phase": "Succeeded"}}, "default", "status")
            await until(lambda: not nodes)

    played(scene, tmp_path / "server")
    assert [name for name, _ in cloud.bought] == ["late", "sure", "sure"], "each once, by price"
    assert all(each.target == 0 and not each.instances for each in cloud.groups.values())
