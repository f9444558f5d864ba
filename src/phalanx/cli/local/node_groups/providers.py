"""Complete the node groups of a file, and create their providers.

The first part completes groups whose nodes are Machines. It reads the fields that the file leaves out from annotations
of the group's MachineDeployment or MachineSet: bounds, capacity, labels and taints. The Cluster Autoscaler uses the
same annotations to scale a group from zero. The second part creates the provider of each group.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from phalanx.cli.local.node_groups.file import EFFECTS, PODS_OF_A_NODE, GroupInFile
from phalanx.cli.local.node_groups.provider_fields import (
    Autoscaler,
    CloudProvider,
    ExecProvider,
    MachineProvider,
    SlurmProvider,
    WebhookProvider,
)
from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import NODES, Kind
from phalanx.client.quantity import QuantityError, amount
from phalanx.errors import PhalanxError
from phalanx.model.node import NodeGroup, Taint
from phalanx.model.pod import PODS, Amounts, amounts
from phalanx.providers.autoscaler import AutoscalerGroup, AutoscalerProvider
from phalanx.providers.counted.called import Program, Webhook
from phalanx.providers.counted.calls import Backend, CountedProvider, Documents
from phalanx.providers.counted.machines import Machines, MachineSet
from phalanx.providers.counted.suspend import PoweredNodes
from phalanx.providers.provider import EmptyNodes, Provider
from phalanx.providers.provision import Provisioning
from phalanx.providers.simulated import SimulatedProvider
from phalanx.simulator.workload import SimulatedGroup
from phalanx.slurm.notation.hostlist import compress

# --- fields from annotations ------------------------------------------------------------------------------------------

CAPACITY, OPENSHIFT = "capacity.cluster-autoscaler.kubernetes.io", "machine.openshift.io"
BOUND = "cluster-api-autoscaler-node-group"  # GROUP/BOUND-min-size
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
# resource -> (annotation, unit of a number without one) in order of preference; the first existing annotation is used
RESOURCES = {
    "cpu": ((f"{CAPACITY}/cpu", ""), (f"{OPENSHIFT}/vCPU", "")),
    "memory": ((f"{CAPACITY}/memory", ""), (f"{OPENSHIFT}/memoryMb", "Mi")),
    "ephemeral-storage": ((f"{CAPACITY}/ephemeral-disk", ""),),
    PODS: ((f"{CAPACITY}/maxPods", ""), (f"{OPENSHIFT}/maxPods", "")),
}
_WHOLE = re.compile(r"-?[0-9]{1,9}")
GPU_COUNT, GPU_TYPE, GPU = (f"{CAPACITY}/gpu-count", f"{OPENSHIFT}/GPU"), f"{CAPACITY}/gpu-type", "nvidia.com/gpu"


async def complete(group: GroupInFile, of: MachineSet, connection: Connection) -> GroupInFile:
    """Return the group, completed from the annotations of its MachineDeployment or MachineSet `of`. Raises PhalanxError
    if the object cannot be read, or if its annotations are invalid."""
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
    """Return the group, completed from the annotations `noted` and the machine type. Raises ValueError."""
    assert isinstance(group.provider, MachineProvider)
    found, template = group.group, group.group.template
    has = template.allocatable if "allocatable" in group.given else capacity(noted)
    if not has:
        raise ValueError(f"there is no {CAPACITY}/cpu; write `allocatable` of a node into the file")
    bound = f"{of.kind.group}/{BOUND}"
    least = found.min_nodes if "min" in group.given else _bound(noted, f"{bound}-min-size", found.min_nodes)
    most = found.max_nodes if "max" in group.given else _bound(noted, f"{bound}-max-size", found.max_nodes)
    if not 0 <= least <= most:
        raise ValueError(f"the minimum of {least} and the maximum of {most} nodes are no bounds")
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
    """Return the amounts of a node that the annotations state; empty if they do not state the CPU. Raises
    ValueError."""
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


# --- providers --------------------------------------------------------------------------------------------------------


async def provisioning(
    groups: Sequence[GroupInFile],
    connection: Connection,
    informers: Callable[[Kind], Informer],
    tasks: asyncio.TaskGroup,
    simulated: Sequence[SimulatedGroup] = (),
) -> Provisioning | None:
    """Return the node groups with their providers; None if there are no groups. `tasks`: the task group in which
    providers run. `simulated`: the simulated groups. Raises PhalanxError if Machines or a cloud provider cannot be
    read."""
    if not groups and not simulated:
        return None
    found: list[tuple[NodeGroup, Provider]] = []
    if simulated:
        provider = SimulatedProvider(connection, simulated, tasks, Random())
        found += ((each.group, provider) for each in simulated)
    autoscaled: list[AutoscalerGroup] = []
    for each in groups:
        match each.provider:
            case Autoscaler(namespace=namespace, image=image):
                autoscaled.append(AutoscalerGroup(each.group, each.label, namespace, image))
            case MachineProvider() as said:
                found.append(await _machines(each, said, connection, informers(NODES), tasks))
            case SlurmProvider(settings=settings):
                nodes = informers(NODES).objects
                powered = PoweredNodes(settings, hostlist, connection, nodes.get, each.label, tasks)
                found.append((each.group, EmptyNodes(CountedProvider(powered, lambda name: ""), connection)))
            case CloudProvider() as said:
                found.append(await _cloud(each, said, connection, informers(NODES)))
            case ExecProvider() | WebhookProvider() as said:
                calls = CountedProvider(documents(said), lambda name: provider_id(informers(NODES), name))
                found.append((each.group, EmptyNodes(calls, connection)))
    if autoscaled:
        autoscaler = AutoscalerProvider(connection, informers, autoscaled, tasks)
        found += ((each.group, autoscaler) for each in autoscaled)
    return Provisioning(found, time.time, {each.label: each.group.name for each in groups})


def hostlist(names: Iterable[str]) -> str:
    return compress(names, ordered=True)


async def _machines(
    of: GroupInFile, said: MachineProvider, connection: Connection, nodes: Informer, tasks: asyncio.TaskGroup
) -> tuple[NodeGroup, Provider]:
    """Return the group, completed from its annotations, and its provider."""
    there = connection
    if said.kubeconfig is not None:
        there = await Connection.open(said.kubeconfig)
        tasks.create_task(_close_at_the_end(there))
    owner = machine_set(of, said)
    completed = await complete(of, owner, there)

    def node(name: str) -> Object | None:
        return nodes.objects.get(name)

    provider = CountedProvider(Machines(there, owner, connection, node), lambda name: "")
    return completed.group, EmptyNodes(provider, connection, deletes=False)


async def _cloud(
    of: GroupInFile, said: CloudProvider, connection: Connection, nodes: Informer
) -> tuple[NodeGroup, Provider]:
    """Return the group with the fields that only its cloud provider knows, and the provider."""
    from phalanx.cli.local.node_groups.cloud_fields import complete_cloud

    completed = await complete_cloud(of, said)
    backend = cloud(of, said, nodes.objects.values, connection)
    return completed.group, EmptyNodes(CountedProvider(backend, lambda name: provider_id(nodes, name)), connection)


def cloud(
    of: GroupInFile, said: CloudProvider, nodes: Callable[[], Iterable[Object]], connection: Connection | None = None
) -> Backend:
    """Return the backend that calls the cloud provider. `nodes`: a function that returns the Node objects of the
    cluster."""
    from phalanx.providers.counted.cloud import Instances

    return Instances(said.at, said.group, nodes, of.label, connection)


async def _close_at_the_end(connection: Connection) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await connection.close()


def machine_set(of: GroupInFile, said: MachineProvider) -> MachineSet:
    """Return a reference to the MachineDeployment or MachineSet whose Machines are the nodes of the group."""
    return MachineSet(said.kind, said.namespace, said.name, of.label)


def provider_id(nodes: Informer, name: str) -> str:
    return str(((nodes.objects.get(name) or {}).get("spec") or {}).get("providerID") or "")


def documents(said: ExecProvider | WebhookProvider) -> Documents:
    """Return the backend that calls the program or the web server."""
    match said:
        case ExecProvider(command=command, timeout_s=timeout_s):
            return Documents(Program(command, timeout_s))
        case WebhookProvider(url=url, authority=authority, token=token, timeout_s=timeout_s):
            return Documents(Webhook(url, authority, token, timeout_s))
