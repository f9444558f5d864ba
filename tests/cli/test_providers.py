"""`cli/local/node_groups/providers.py`: fields of a group from the annotations of its machines; its provider."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.local.node_groups import providers
from phalanx.cli.local.node_groups.file import GroupInFile, read_node_groups
from phalanx.cli.local.node_groups.provider_fields import MachineProvider
from phalanx.cli.local.node_groups.providers import complete, documents, instance_type, machine_set, provisioning
from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.errors import PhalanxError
from phalanx.model.node import Taint
from phalanx.providers.autoscaler import AutoscalerProvider
from phalanx.providers.counted.called import Program, Webhook
from phalanx.providers.provider import EmptyNodes

PREFIX = "capacity.cluster-autoscaler.kubernetes.io"
BOUND = "cluster.x-k8s.io/cluster-api-autoscaler-node-group"
MACHINES = "machines: {kind: MachineDeployment, namespace: default, name: gpu}"


def groups(folder: Path, *texts: str) -> tuple[GroupInFile, ...]:
    file = folder / "groups.yaml"
    file.write_text("nodeGroups:\n" + "".join(f"- {{{text}}}\n" for text in texts))
    return read_node_groups(file)


def machines(folder: Path, more: str = "") -> GroupInFile:
    (found,) = groups(folder, f"name: gpu, provider: {{{MACHINES}}}{more}")
    return found


def completed(group: GroupInFile, noted: dict[str, str] | None, spec: Any = None) -> GroupInFile:
    """Complete the group from a MachineDeployment with these annotations."""

    async def get(*_: Any) -> Any:
        return {"metadata": {"name": "gpu", "annotations": noted}, "spec": spec}

    assert isinstance(group.provider, MachineProvider)
    connection: Any = SimpleNamespace(get=get, server="https://there")
    return asyncio.run(complete(group, machine_set(group, group.provider), connection))


def noted(**values: str) -> dict[str, str]:
    return {f"{PREFIX}/{name.replace('_', '-')}": value for name, value in values.items()}


def test_annotations_state_what_the_file_leaves_out(tmp_path: Path) -> None:
    said = {
        **noted(cpu="4", memory="8Gi", gpu_count="2", gpu_type="amd.com/gpu", ephemeral_disk="10Gi", maxPods="50"),
        **noted(labels="zone=a, tier=", taints="gpu=yes:NoSchedule, old:NoExecute"),
        f"{BOUND}-min-size": "1",
        f"{BOUND}-max-size": "5",
    }
    found = completed(machines(tmp_path), said).group
    assert (found.min_nodes, found.max_nodes) == (1, 5)
    assert dict(found.template.allocatable) == {
        "cpu": 4000,
        "memory": 8 << 30,
        "ephemeral-storage": 10 << 30,
        "pods": 50,
        "amd.com/gpu": 2,
    }
    assert {("zone", "a"), ("tier", "")} <= set(found.template.labels)
    assert found.template.taints == (Taint("gpu", "yes", "NoSchedule"), Taint("old", "", "NoExecute"))


def test_the_file_takes_precedence(tmp_path: Path) -> None:
    own = machines(
        tmp_path, ", min: 2, max: 3, allocatable: {cpu: 1}, labels: {zone: b}, taints: [{key: own, effect: NoSchedule}]"
    )
    said = {**noted(cpu="much", labels="zone=a,more=x", taints="bad"), f"{BOUND}-min-size": "x"}
    found = completed(own, said).group
    assert (found.min_nodes, found.max_nodes) == (2, 3)
    assert dict(found.template.allocatable)["cpu"] == 1000
    assert dict(found.template.labels).items() >= {"zone": "b", "more": "x"}.items()
    assert found.template.taints == (Taint("own", "", "NoSchedule"),)


def test_annotations_of_openshift_and_its_unit_of_memory(tmp_path: Path) -> None:
    prefix = "machine.openshift.io"
    said = {f"{prefix}/vCPU": "8", f"{prefix}/memoryMb": "1024", f"{prefix}/GPU": "1", f"{prefix}/maxPods": "20"}
    template = {"template": {"spec": {"providerSpec": {"value": {"vmSize": "Standard_A"}}}}}
    found = completed(machines(tmp_path), said, template).group.template
    amounts = {"cpu": 8000, "memory": 1 << 30, "nvidia.com/gpu": 1, "pods": 20}
    assert dict(found.allocatable) == amounts
    assert dict(found.labels)["node.kubernetes.io/instance-type"] == "Standard_A"
    both = {**said, **noted(cpu="2", memory="1Gi")}
    assert dict(completed(machines(tmp_path), both).group.template.allocatable)["cpu"] == 2000


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (None, f"there is no {PREFIX}/cpu; write `allocatable` of a node into the file"),
        (noted(memory="8Gi"), f"there is no {PREFIX}/cpu"),
        (noted(cpu="many"), f"{PREFIX}/cpu: 'many' is not a quantity"),
        (noted(cpu="-4"), f"{PREFIX}/cpu: '-4' is below 0"),
        (noted(cpu="4", gpu_count="-1"), f"{PREFIX}/gpu-count: '-1' is below 0"),
        (noted(cpu="4", labels="zone"), f"{PREFIX}/labels: 'zone' is not KEY=VALUE"),
        (noted(cpu="4", labels="=a"), f"{PREFIX}/labels: '=a' is not KEY=VALUE"),
        (noted(cpu="4", taints="gpu=yes"), f"{PREFIX}/taints: 'gpu=yes' is not KEY=VALUE:EFFECT"),
        (noted(cpu="4", taints="gpu:Never"), f"{PREFIX}/taints: 'gpu:Never' is not KEY=VALUE:EFFECT"),
        ({**noted(cpu="4"), f"{BOUND}-min-size": "few"}, f"{BOUND}-min-size: 'few' is not a whole number"),
        ({**noted(cpu="4"), f"{BOUND}-max-size": "1_0"}, f"{BOUND}-max-size: '1_0' is not a whole number"),
        ({**noted(cpu="4"), f"{BOUND}-min-size": "3", f"{BOUND}-max-size": "2"}, "the minimum of 3 and the maximum of"),
        ({**noted(cpu="4"), f"{BOUND}-min-size": "-1"}, "the minimum of -1"),
    ],
)
def test_invalid_annotations_are_named(said: dict[str, str] | None, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(PhalanxError) as caught:
        completed(machines(tmp_path), said)
    assert str(caught.value).startswith("node group gpu: the annotations of ")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (ApiRefusal(404, "NotFound", "gone"), "there is no such object at https://there, or cluster.x-k8s.io/"),
        (ApiRefusal(403, "Forbidden", "you may not"), "cannot be read: .*you may not"),
        (ApiUnknown("away"), "cannot be read: .*away"),
    ],
)
def test_an_object_that_cannot_be_read_is_named(error: Exception, complaint: str, tmp_path: Path) -> None:
    async def get(*_: Any) -> Any:
        raise error

    group = machines(tmp_path)
    assert isinstance(group.provider, MachineProvider)
    connection: Any = SimpleNamespace(get=get, server="https://there")
    with pytest.raises(PhalanxError, match=f"node group gpu: .*gpu.* {complaint}"):
        asyncio.run(complete(group, machine_set(group, group.provider), connection))


@pytest.mark.parametrize(
    "owner",
    [{}, {"spec": None}, {"spec": {"template": None}}, {"spec": {"template": {"spec": {"providerSpec": None}}}}],
)
def test_an_object_without_a_machine_type(owner: Any) -> None:
    assert instance_type(owner) == ""


def cache(*_: Any) -> Any:
    return SimpleNamespace(objects={}, subscribe=lambda take: None)


def provided(found: tuple[GroupInFile, ...]) -> Any:
    async def play() -> Any:
        async with asyncio.TaskGroup() as tasks:
            made = await provisioning(found, SimpleNamespace(), cache, tasks)
            for task in list(getattr(tasks, "_tasks", ())):
                task.cancel()
        return made

    return asyncio.run(play())


def test_without_groups_there_is_no_provisioning() -> None:
    assert provided(()) is None


def test_each_group_gets_its_provider_and_autoscaled_groups_share_one(tmp_path: Path) -> None:
    found = groups(
        tmp_path,
        "name: a, provider: {autoscaler: {}}, allocatable: {cpu: 8}, nodeLabel: pool=a",
        "name: rack, provider: {exec: {command: [/bin/true]}}, allocatable: {cpu: 8}",
        "name: b, provider: {autoscaler: {}}, allocatable: {cpu: 8}, nodeLabel: pool=b",
    )
    made = provided(found)
    by_name = {name: calls._provider for name, calls in made._lines.items()}
    assert made.group_labels[("pool", "a")] == "a"
    assert set(made.group_labels.values()) == {"a", "b", "rack"}
    assert isinstance(by_name["rack"], EmptyNodes)
    assert by_name["a"] is by_name["b"]
    assert isinstance(by_name["a"], AutoscalerProvider)


def test_the_backend_calls_the_program_or_the_server(tmp_path: Path) -> None:
    program, server = groups(
        tmp_path,
        "name: rack, provider: {exec: {command: [/bin/true], timeout: 7s}}, allocatable: {cpu: 8}",
        "name: web, provider: {webhook: {url: 'http://127.0.0.1:1/n'}}, allocatable: {cpu: 8}",
    )
    found: Any = [documents(each.provider) for each in (program, server)]
    assert [type(each._caller) for each in found] == [Program, Webhook]


def test_the_provider_id_of_a_node() -> None:
    nodes: Any = SimpleNamespace(objects={"a": {"spec": {"providerID": "aws://1"}}, "b": {"spec": None}, "c": {}})
    assert [providers.provider_id(nodes, name) for name in ("a", "b", "c", "none")] == ["aws://1", "", "", ""]


def test_names_of_slurms_nodes_are_a_hostlist() -> None:
    assert providers.hostlist(["n1", "n2", "n4"]) == "n[1-2,4]"
