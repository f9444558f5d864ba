"""`cli/local/node_groups/annotation_fields.py`: fields of a group from the annotations of its machines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.cli.local.node_groups.annotation_fields import complete, instance_type
from phalanx.cli.local.node_groups.backends import machine_set
from phalanx.cli.local.node_groups.file import GroupInFile
from phalanx.cli.local.node_groups.provider_fields import MachineProvider
from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.errors import PhalanxError
from phalanx.model.node import Taint
from tests.cli.test_providers import machines

PREFIX = "capacity.cluster-autoscaler.kubernetes.io"
BOUND = "cluster.x-k8s.io/cluster-api-autoscaler-node-group"


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
