"""Read missing fields of node groups whose nodes are created by Machines.

The fields that the file leaves out are read from annotations of the group's MachineDeployment or MachineSet: bounds,
capacity, labels and taints. The Cluster Autoscaler uses the same annotations to scale a group from zero."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from phalanx.cli.local.node_groups.file import EFFECTS, PODS_OF_A_NODE, GroupInFile
from phalanx.cli.local.node_groups.provider_fields import MachineProvider
from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.quantity import QuantityError, amount
from phalanx.errors import PhalanxError
from phalanx.model.node import Taint
from phalanx.model.pod import PODS, Amounts, amounts
from phalanx.providers.counted.machines import MachineSet

CAPACITY, OPENSHIFT = "capacity.cluster-autoscaler.kubernetes.io", "machine.openshift.io"
BOUND = "cluster-api-autoscaler-node-group"  # GROUP/BOUND-min-size
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
# resource -> pairs of (annotation, unit for a number without a unit) in order of preference; the first existing
# annotation is used
RESOURCES = {
    "cpu": ((f"{CAPACITY}/cpu", ""), (f"{OPENSHIFT}/vCPU", "")),
    "memory": ((f"{CAPACITY}/memory", ""), (f"{OPENSHIFT}/memoryMb", "Mi")),
    "ephemeral-storage": ((f"{CAPACITY}/ephemeral-disk", ""),),
    PODS: ((f"{CAPACITY}/maxPods", ""), (f"{OPENSHIFT}/maxPods", "")),
}
_WHOLE = re.compile(r"-?[0-9]{1,9}")
GPU_COUNT, GPU_TYPE, GPU = (f"{CAPACITY}/gpu-count", f"{OPENSHIFT}/GPU"), f"{CAPACITY}/gpu-type", "nvidia.com/gpu"


async def complete(group: GroupInFile, of: MachineSet, connection: Connection) -> GroupInFile:
    """Return the group with its missing fields, which are read from the annotations of its MachineDeployment or
    MachineSet `of`. Raises PhalanxError if the object cannot be read, or if its annotations are invalid."""
    name = f"node group {group.group.name}"
    try:
        owner = await connection.get(of.kind, of.name, of.namespace)
    except ApiError as error:
        why = str(error)
        if isinstance(error, ApiRefusal) and error.code == 404:
            why = f"there is no such object at {connection.server}, or {of.kind.api_version} is not installed there"
        raise PhalanxError(f"{name}: {of} cannot be read: {why}") from None
    noted = owner["metadata"].get("annotations") or {}
    try:
        return _completed(group, of, noted, instance_type(owner))
    except ValueError as error:
        raise PhalanxError(f"{name}: the annotations of {of} cannot be used: {error}") from None


def _completed(group: GroupInFile, of: MachineSet, noted: Mapping[str, str], machine_type: str) -> GroupInFile:
    """Return the group with its missing fields, which are read from the annotations `noted` and the machine type.
    Raises ValueError."""
    assert isinstance(group.provider, MachineProvider)
    found, template = group.group, group.group.template
    has = template.allocatable if "allocatable" in group.given else capacity(noted)
    if not has:
        raise ValueError(f"there is no {CAPACITY}/cpu; write `allocatable` of a node into the file")
    bound = f"{of.kind.group}/{BOUND}"
    least = found.min_nodes if "min" in group.given else _bound(noted, f"{bound}-min-size", found.min_nodes)
    most = found.max_nodes if "max" in group.given else _bound(noted, f"{bound}-max-size", found.max_nodes)
    if not 0 <= least <= most:
        raise ValueError(f"the minimum of {least} and the maximum of {most} nodes are not valid bounds")
    typed = {INSTANCE_TYPE: machine_type} if machine_type else {}
    template = replace(
        template,
        allocatable=has,
        labels=tuple(sorted({**typed, **dict(_labels(noted)), **dict(template.labels)}.items())),
        taints=template.taints if "taints" in group.given else tuple(_taints(noted)),
    )
    return replace(group, group=replace(found, template=template, min_nodes=least, max_nodes=most))


def _bound(noted: Mapping[str, str], key: str, default: int) -> int:
    text = noted.get(key, str(default))
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{key}: {text!r} is not a whole number")
    return int(text)


def instance_type(owner: Object) -> str:
    """Return the machine type of an OpenShift MachineSet; "" if it names none."""
    spec = ((owner.get("spec") or {}).get("template") or {}).get("spec") or {}
    value = (spec.get("providerSpec") or {}).get("value") or {}
    return next((str(value[key]) for key in ("instanceType", "vmSize", "machineType") if value.get(key)), "")


def capacity(noted: Mapping[str, str]) -> Amounts:
    """Return the amounts of a node from the annotations; empty if the annotations have no CPU. Raises ValueError."""
    found: dict[str, int] = {}
    for resource, keys in RESOURCES.items():
        key, unit = next(((key, unit) for key, unit in keys if key in noted), ("", ""))
        if key:
            found[resource] = _amount(resource, key, noted[key] + (unit if noted[key].isdecimal() else ""))
    gpus = next((key for key in GPU_COUNT if key in noted), "")
    if gpus and (count := _amount(GPU, gpus, noted[gpus])):
        found[noted.get(GPU_TYPE, GPU)] = count
    return amounts({PODS: PODS_OF_A_NODE, **found}) if "cpu" in found else ()


def _amount(resource: str, key: str, text: str) -> int:
    try:
        found = amount(resource, text)
    except QuantityError as error:
        raise ValueError(f"{key}: {error}") from None
    if found < 0:
        raise ValueError(f"{key}: {text!r} is below 0")
    return found


def _labels(noted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for text in filter(None, noted.get(f"{CAPACITY}/labels", "").split(",")):
        key, equals, value = text.strip().partition("=")
        if not (key and equals):
            raise ValueError(f"{CAPACITY}/labels: {text!r} is not KEY=VALUE")
        yield key, value


def _taints(noted: Mapping[str, str]) -> Iterator[Taint]:
    for text in filter(None, noted.get(f"{CAPACITY}/taints", "").split(",")):
        what, _, effect = text.strip().rpartition(":")
        key, _, value = what.partition("=")
        if not key or effect not in EFFECTS:
            raise ValueError(f"{CAPACITY}/taints: {text!r} is not KEY=VALUE:EFFECT")
        yield Taint(key, value, effect)
