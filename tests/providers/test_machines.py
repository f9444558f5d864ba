"""Nodes that are Machines of Cluster API and of OpenShift: their states, the order of removal, and a whole gang."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.local.node_groups import annotation_fields
from phalanx.cli.local.node_groups.backends import machine_set
from phalanx.cli.local.node_groups.file import GroupInFile, read_node_groups
from phalanx.cli.local.node_groups.provider_fields import MachineProvider
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import NODES, PODS, Kind
from phalanx.errors import PhalanxError
from phalanx.model.node import Taint
from phalanx.providers.counted.calls import CountedProvider, NodeState, Scale
from phalanx.providers.counted.machines import DELETE, Machines, MachineSet
from phalanx.providers.provider import ProviderError
from tests.kube.double import Object, job, node
from tests.providers.test_autoscaler import bound, played, scheduler, submit, until

OWNERS = Kind(group="cluster.x-k8s.io", version="v1beta1", plural="machinedeployments", name="MachineDeployment")
SETS = Kind(group="machine.openshift.io", version="v1beta1", plural="machinesets", name="MachineSet")
OWNER = MachineSet(OWNERS, "default", "gpu", ("group", "g"))
MARK = DELETE[OWNERS.group]


def machine(name: str, number: int, on: str = "", **status: Any) -> Object:
    """Return a Machine. `number`: the second of its creation time. `on`: the name of its node."""
    created = f"2026-01-01T00:00:{number:02}Z"
    return {
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": created, "annotations": {}},
        "status": {**({"nodeRef": {"name": on}} if on else {}), **status},
    }


@dataclass
class There:
    """A cluster with a MachineDeployment of these Machines."""

    replicas: int
    machines: dict[str, Object] = field(default_factory=dict)
    labelled: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    marked: list[str] = field(default_factory=list)
    looks: int = 0

    async def get(self, kind: Kind, name: str, namespace: str) -> Object:
        if kind.plural == "machines":
            self.looks += 1
            if self.looks > 1:  # the controller has deleted the Machine by now
                self.machines.pop(name, None)
            if name not in self.machines:
                raise ApiRefusal(404, "NotFound", name)
            return self.machines[name]
        assert (kind, name, namespace) == (OWNERS, "gpu", "default")
        spec = {"replicas": self.replicas, "selector": {"matchLabels": {"b": "2", "a": "1"}}}
        return {"kind": "MachineDeployment", "metadata": {"name": "gpu", "annotations": self.annotations}, "spec": spec}

    async def list(self, kind: Kind, namespace: str, *, labelSelector: str) -> Object:  # noqa: N803 (the API's name)
        assert (kind.plural, namespace, labelSelector) == ("machines", "default", "a=1,b=2")
        return {"items": list(self.machines.values())}

    async def patch(self, kind: Kind, name: str, body: Object, namespace: str = "", subresource: str = "") -> Object:
        if kind is NODES:
            assert body == {"metadata": {"labels": {"group": "g"}}}
            self.labelled.append(name)
        elif kind is OWNERS:
            assert subresource == "scale"
            self.replicas = body["spec"]["replicas"]
        elif name in self.machines:
            assert body == {"metadata": {"annotations": {MARK: "true"}}}
            self.marked.append(name)
        else:
            raise ApiRefusal(404, "NotFound", name)
        return {}


def there(replicas: int, *machines: Object) -> There:
    return There(replicas, {each["metadata"]["name"]: each for each in machines})


def backend(of: There, nodes: dict[str, Object] | None = None) -> Machines:
    return Machines(of, OWNER, of, None if nodes is None else nodes.get)  # type: ignore[arg-type]  # a double


def states(found: Any) -> dict[str, str]:
    return {each.name: each.state for each in found}


def test_each_machine_and_each_missing_one_is_a_node() -> None:
    deleted = machine("m4", 4, "n4")
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    broken = machine("m3", 3, phase="Failed", failureMessage="no quota")
    of = there(5, machine("m1", 1, "n1"), machine("m2", 2), broken, deleted)
    found = asyncio.run(backend(of).nodes("g"))
    expected = {"m1": "running", "m2": "starting", "m3": "failed", "m4": "removing"}
    assert states(found) == {**expected, "gpu/0": "starting", "gpu/1": "starting"}
    assert next(each.message for each in found if each.name == "m3") == "Machine m3 failed: no quota"


def test_a_number_of_machines_that_nobody_means_is_an_error() -> None:
    with pytest.raises(ProviderError, match=r"has spec\.replicas 2000000000; at most"):
        asyncio.run(backend(there(2_000_000_000)).nodes("g"))


def test_surplus_machines_are_leaving_marked_ones_first_and_young_ones_without_node_next() -> None:
    of = there(2, machine("m1", 1, "n1"), machine("m2", 2), machine("m3", 3), machine("m4", 4, "n4"))
    of.machines["m1"]["metadata"]["annotations"][MARK] = "true"
    found = asyncio.run(backend(of).nodes("g"))
    assert states(found) == {"m1": "removing", "m2": "starting", "m3": "removing", "m4": "running"}


def test_a_node_is_labelled_before_its_machine_counts_as_running() -> None:
    of, nodes = there(2, machine("m1", 1, "n1"), machine("m2", 2, "n2")), {"n1": node("n1")}
    assert states(asyncio.run(backend(of, nodes).nodes("g"))) == {"m1": "running", "m2": "starting"}
    assert of.labelled == ["n1"]
    nodes["n1"]["metadata"]["labels"] = {"group": "g"}
    asyncio.run(backend(of, nodes).nodes("g"))
    assert of.labelled == ["n1"]


def test_a_removed_node_is_that_of_a_marked_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phalanx.providers.counted.machines.LOOK_S", 0.0)

    async def scene() -> None:
        of = there(2, machine("m1", 1, "n1"), machine("m2", 2, "n2"))
        provider = CountedProvider(backend(of), lambda name: "")
        assert await provider.scale("g", (), ["n1", "stranger"]) == {
            "stranger": "MachineDeployment default/gpu has no Machine of this node"
        }
        assert (of.replicas, of.marked, of.looks) == (1, ["m1"], 2)
        await provider.scale("g", ["g-1", "g-2"], ())
        assert of.replicas == 3
        await provider.scale("g", (), ["g-2"])
        assert (of.replicas, of.marked) == (2, ["m1"]), "a Machine that does not exist yet was cancelled"

    asyncio.run(scene())


def test_a_failed_machine_is_that_of_a_request_and_goes_when_the_request_is_given_up() -> None:
    async def scene() -> None:
        of = there(0)
        provider = CountedProvider(backend(of), lambda name: "")
        await provider.scale("g", ["g-1", "g-2"], ())
        broken = machine("m1", 1, phase="Failed", errorMessage="no quota")
        broken["metadata"]["creationTimestamp"] = "2099-01-01T00:00:00Z"
        of.machines |= {"m1": broken, "m2": machine("m2", 2)}
        status = await provider.status("g")
        assert status.failed == {"g-1": "Machine m1 failed: no quota"}
        assert [each.name for each in status.requested] == ["g-2"]
        of.looks = 1
        await provider.scale("g", (), ["g-1"])
        assert (of.replicas, of.marked) == (1, ["m1"])

    asyncio.run(scene())


def test_errors_name_the_object() -> None:
    class Gone(There):
        async def get(self, kind: Kind, name: str, namespace: str) -> Object:
            raise ApiRefusal(404, "NotFound", "machinedeployments gpu not found")

    with pytest.raises(ProviderError, match=r"Machines of MachineDeployment default/gpu cannot be read: .*not found"):
        asyncio.run(backend(Gone(0)).nodes("g"))
    scale = Scale(2, (), ("gpu/0",), {})
    of = there(3)
    assert asyncio.run(backend(of).scale("g", scale)) == {}
    assert (of.replicas, NodeState(name="a", state="failed").failed_after(0.0)) == (2, False)


# --- annotations -----------------------------------------------------------------------------------------------------

CAPACITY = annotation_fields.CAPACITY


def completed(text: str, tmp_path: Path, annotations: dict[str, str]) -> GroupInFile:
    file = tmp_path / "groups.yaml"
    file.write_text(f"nodeGroups: [{{name: g, provider: {{machines: {{name: gpu}}}}, {text}}}]")
    (group,) = read_node_groups(file)
    assert isinstance(group.provider, MachineProvider)
    owner = There(0, annotations=annotations)
    of = machine_set(group, group.provider)
    return asyncio.run(annotation_fields.complete(group, of, owner))  # type: ignore[arg-type]  # a double


def test_annotations_state_what_the_file_does_not(tmp_path: Path) -> None:
    noted = {
        f"{CAPACITY}/cpu": "16",
        f"{CAPACITY}/memory": "128G",
        f"{CAPACITY}/gpu-type": "amd.com/gpu",
        f"{CAPACITY}/gpu-count": "2",
        f"{CAPACITY}/maxPods": "200",
        f"{CAPACITY}/labels": "zone=b, arch=amd64",
        f"{CAPACITY}/taints": "gpu=yes:NoSchedule",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "7",
    }
    found = completed("", tmp_path, noted).group
    amounts = {"cpu": 16_000, "memory": 128 * 10**9, "amd.com/gpu": 2, "pods": 200}
    assert dict(found.template.allocatable) == amounts
    assert dict(found.template.labels) == {"zone": "b", "arch": "amd64", "phalanx.dev/node-group": "g"}
    assert found.template.taints == (Taint("gpu", "yes", "NoSchedule"),)
    assert (found.min_nodes, found.max_nodes) == (1, 7)
    mine = completed("min: 0, max: 3, taints: [], labels: {zone: c}, allocatable: {cpu: 4}", tmp_path, noted).group
    assert dict(mine.template.allocatable) == {"cpu": 4_000, "pods": 110}
    assert (mine.min_nodes, mine.max_nodes, mine.template.taints) == (0, 3, ())
    assert dict(mine.template.labels)["zone"] == "c"


def test_openshift_states_megabytes_and_gpus() -> None:
    noted = {f"machine.openshift.io/{key}": text for key, text in (("vCPU", "4"), ("memoryMb", "16384"), ("GPU", "1"))}
    found = dict(annotation_fields.capacity(noted))
    assert found == {"cpu": 4_000, "memory": 16 * 2**30, "nvidia.com/gpu": 1, "pods": 110}
    assert annotation_fields.capacity({}) == ()
    value = {"spec": {"template": {"spec": {"providerSpec": {"value": {"instanceType": "g4dn.xlarge"}}}}}}
    assert [annotation_fields.instance_type(each) for each in (value, {})] == ["g4dn.xlarge", ""]


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("other", "", "there is no capacity.cluster-autoscaler.kubernetes.io/cpu; write `allocatable`"),
        (f"{CAPACITY}/cpu", "many", "the annotations of MachineDeployment default/gpu cannot be used: "),
        (f"{CAPACITY}/labels", "a", "'a' is not KEY=VALUE"),
        (f"{CAPACITY}/taints", "a=b", "'a=b' is not KEY=VALUE:EFFECT"),
        ("cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "-1", "are not valid bounds"),
    ],
)
def test_annotations_that_cannot_be_used_are_refused(tmp_path: Path, key: str, value: str, error: str) -> None:
    with pytest.raises(PhalanxError) as caught:
        completed("", tmp_path, {**({f"{CAPACITY}/cpu": "1"} if key != "other" else {}), key: value})
    assert error in str(caught.value)


# --- a whole gang ----------------------------------------------------------------------------------------------------

FILE = """
nodeGroups:
- {name: capi, provider: {machines: {name: capi}}, idle: 0s, price: 1}
- name: ocp
  provider: {machines: {apiVersion: machine.openshift.io/v1beta1, namespace: default, name: ocp}}
  idle: 0s
  price: 2
"""
DEFINITIONS = Kind(
    group="apiextensions.k8s.io", plural="customresourcedefinitions", name="CustomResourceDefinition", namespaced=False
)


def definition(kind: Kind) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": kind.plural, "kind": kind.name, "singular": kind.name.lower()}
    return {
        "apiVersion": DEFINITIONS.api_version,
        "kind": DEFINITIONS.name,
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{**version, "subresources": {"status": {}, "scale": scale}}],
        },
    }


async def control(user: Connection, kind: Kind, name: str, seen: list[int]) -> None:
    """Act as the controllers do: create a Machine and its Node for each replica, and delete the marked ones of a
    surplus."""
    machines = kind._replace(plural="machines", name="Machine")
    for number in range(1000):
        owner = await user.get(kind, name, "default")
        wanted = owner["spec"]["replicas"]
        if not seen or seen[-1] != wanted:
            seen.append(wanted)
        found = (await user.list(machines, "default", labelSelector=f"of={name}"))["items"]
        if len(found) < wanted:
            title = f"{name}-{number}"
            meta = {"name": title, "namespace": "default", "labels": {"of": name}}
            await user.create(
                machines, {"apiVersion": machines.api_version, "kind": "Machine", "metadata": meta}, "default"
            )
            body = node(f"node-{title}", 4)
            await user.create(NODES, {"apiVersion": "v1", "kind": "Node", **body})
            await user.patch(NODES, f"node-{title}", {"status": body["status"]}, subresource="status")
            await user.patch(NODES, f"node-{title}", {"spec": {"taints": None}})
            status = {"status": {"nodeRef": {"name": f"node-{title}"}}}
            await user.patch(machines, title, status, "default", "status")
        elif len(found) > wanted:
            marked = [each for each in found if DELETE[kind.group] in (each["metadata"].get("annotations") or {})]
            assert marked, "a Machine that nobody marked would go"
            await user.delete(machines, marked[0]["metadata"]["name"], "default")
            with contextlib.suppress(ApiRefusal):
                await user.delete(NODES, marked[0]["status"]["nodeRef"]["name"])
        await asyncio.sleep(0.05)


@pytest.mark.slow
def test_a_gang_gets_machines_of_both_kinds_and_they_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phalanx.providers.provider.BINDINGS_S", 0.0)
    monkeypatch.setattr("phalanx.providers.provision.LOOK_S", 0.1)
    (tmp_path / "groups.yaml").write_text(FILE)
    seen: dict[str, list[int]] = {"capi": [], "ocp": []}
    capacity = {f"{CAPACITY}/cpu": "4", "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "2"}

    async def prepare(user: Connection) -> None:
        for kind in (OWNERS, SETS, *(each._replace(plural="machines", name="Machine") for each in (OWNERS, SETS))):
            await user.create(DEFINITIONS, definition(kind))
        for kind, name in ((OWNERS, "capi"), (SETS, "ocp")):
            meta = {"name": name, "namespace": "default", "annotations": capacity}
            spec = {"replicas": 0, "selector": {"matchLabels": {"of": name}}}
            body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec}
            await retried(lambda kind=kind, body=body: user.create(kind, body, "default"))

    async def scene(user: Connection) -> None:
        await prepare(user)
        controllers = [
            asyncio.create_task(control(user, kind, name, seen[name]))
            for kind, name in ((OWNERS, "capi"), (SETS, "ocp"))
        ]
        try:
            async with scheduler(user, read_node_groups(tmp_path / "groups.yaml")) as (informers, _, _):
                await submit(user, job("gang", 3, "4"))
                await until(lambda: len(bound(informers)) == 3)
                assert len(set(bound(informers))) == 3
                for pod in list(informers(PODS).objects):
                    await user.patch(
                        PODS, pod.partition("/")[2], {"status": {"phase": "Succeeded"}}, "default", "status"
                    )
                await until(lambda: not informers(NODES).objects)
        finally:
            for task in controllers:
                task.cancel()
            ended = await asyncio.gather(*controllers, return_exceptions=True)
            print(ended, seen)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended

    played(scene, tmp_path / "server")
    assert (max(seen["capi"]), max(seen["ocp"])) == (2, 1), "the cheaper ones, up to the maximum of the annotation"
    assert (seen["capi"][-1], seen["ocp"][-1]) == (0, 0)
    assert seen["ocp"] == [0, 1, 0], "bought once"


async def retried(create: Callable[[], Any]) -> None:
    """Retry until the new kind is served."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(ApiRefusal):
                await create()
                return
            await asyncio.sleep(0.02)
