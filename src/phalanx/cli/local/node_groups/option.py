"""Read simulated node groups from options: `a100-spot=0x8gpu,max=20,delay=3m,price=2.5`.

The text begins with `NAME=MINxGPUSgpu`, or with `NAME=MIN` for nodes without GPUs. Other fields describe a node (`cpu`,
`memory`, `pods`, `label:KEY`), the group (its bounds, times and price), and how often its provider fails in a
simulation. The second part of the module collects the node groups of `phalanx up`: the simulated groups of
`--node-group`, and the groups in the file of `--node-groups`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from phalanx.cli.local.node_groups.file import GroupInFile, read_node_groups
from phalanx.cli.local.node_groups.provider_fields import Autoscaler
from phalanx.cli.local.node_groups.providers import provisioning
from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.informer import Informer
from phalanx.client.kind import NAMESPACES, Kind
from phalanx.client.quantity import QuantityError, amount
from phalanx.dialects.schema.fields import Misread, duration_s
from phalanx.errors import PhalanxError
from phalanx.kube.read.labels import NODE_GROUP
from phalanx.model.node import Device, Node, NodeGroup
from phalanx.model.pod import PODS, amounts
from phalanx.providers.provision import Provisioning
from phalanx.simulator.workload import GPU, SimulatedGroup

OPTION = "--node-group"
EXAMPLE = f"{OPTION} a100-spot=0x8gpu,max=20,delay=3m,price=2.5"
MOST_NODES, MOST_GPUS = 10_000, 1024
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,50}[a-z0-9])?")
_SIZE = re.compile(r"(\d{1,6})(?:x(\d{1,5})gpu)?")
_AMOUNTS = {"cpu": "100", "memory": "100Gi", PODS: "110"}
_TIMES = {"delay": "delay_s", "timeout": "timeout_s", "idle": "idle_s"}
_FAULT_TIMES = {"late-by": "late_s", "lifetime": "lifetime_s"}
_CHANCES = ("refused", "never", "late")


def node_groups(texts: Sequence[str]) -> tuple[SimulatedGroup, ...]:
    """Return the groups of all `--node-group` options. Raises PhalanxError."""
    found = [node_group(text) for text in texts]
    names = [each.group.name for each in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PhalanxError(
            f"{OPTION} {twice[0]}: there are two node groups with this name. Give each of them its own name."
        )
    return tuple(found)


def node_group(text: str) -> SimulatedGroup:
    """Return the group that one option describes. Raises PhalanxError if the text is invalid."""
    head, *parts = text.split(",")
    name, _, size = head.partition("=")
    shape = _SIZE.fullmatch(size)
    if not _NAME.fullmatch(name) or shape is None:
        raise _wrong(
            text, "write NAME=MIN or NAME=MINxGPUSgpu first; a name has lowercase letters, digits, `-` and `.`"
        )
    fields: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key in fields or not value:
            raise _wrong(text, f"{part!r} is not KEY=VALUE, or its key occurs twice")
        fields[key] = value
    minimum, gpus = int(shape[1]), int(shape[2] or 0)
    labels = {key.removeprefix("label:"): fields.pop(key) for key in list(fields) if key.startswith("label:")}
    has = {key: _amount(text, key, fields.pop(key, default)) for key, default in _AMOUNTS.items()}
    if gpus > MOST_GPUS:
        raise _wrong(text, f"a node has at most {MOST_GPUS} GPUs")
    template = Node(
        name=name,
        allocatable=amounts({**has, **({GPU: gpus} if gpus else {})}),
        labels=tuple(sorted({"phalanx.dev/node-group": name, **labels}.items())),
        devices=tuple(Device(name=f"gpu-{index}", resource=GPU) for index in range(gpus)),
    )
    found = _offer(text, name, template, minimum, fields)
    if fields:
        known = ["max", "price", *_AMOUNTS, "label:KEY", *_TIMES, *_CHANCES, *_FAULT_TIMES]
        raise _wrong(text, f"there is no field {next(iter(fields))!r}; the fields are {', '.join(known)}")
    return found


def _offer(text: str, name: str, template: Node, minimum: int, fields: dict[str, str]) -> SimulatedGroup:
    """Return the group that `fields` describes. The fields that were read are removed from the mapping `fields`."""
    most = fields.pop("max", "1000")
    if not most.isdecimal() or not max(1, minimum) <= int(most) <= MOST_NODES:
        raise _wrong(text, f"max={most}: write a number of nodes from {max(1, minimum)} to {MOST_NODES}")
    group = NodeGroup(
        name=name,
        template=template,
        min_nodes=minimum,
        max_nodes=int(most),
        price_per_hour=_number(text, "price", fields.pop("price", "0"), 1e9),
    )
    said = _read(fields, _TIMES, lambda key, value: _seconds(text, key, value))
    group = replace(
        group,
        delay_s=said.get("delay_s", group.delay_s),
        timeout_s=said.get("timeout_s", group.timeout_s),
        idle_s=said.get("idle_s", group.idle_s),
    )
    if group.timeout_s < group.delay_s:
        raise _wrong(text, f"timeout={group.timeout_s:g}s is shorter than delay={group.delay_s:g}s")
    chances = _read(fields, {key: key for key in _CHANCES}, lambda key, value: _number(text, key, value, 1.0))
    times = _read(fields, _FAULT_TIMES, lambda key, value: _seconds(text, key, value))
    found = SimulatedGroup(group=group, **chances, **times)
    if found.refused + found.never > 1:
        raise _wrong(text, "the sum of refused and never is more than 1")
    return found


def _read(fields: dict[str, str], names: Mapping[str, str], read: Callable[[str, str], float]) -> dict[str, float]:
    """Take the fields in `names` out of the mapping `fields`, and return their values by attribute name. `names`: name
    of a field -> name of the attribute."""
    return {attribute: read(key, fields.pop(key)) for key, attribute in names.items() if key in fields}


def _amount(text: str, key: str, value: str) -> int:
    try:
        found = amount(key, value)
    except QuantityError as error:
        raise _wrong(text, f"{key}: {error}") from None
    if found <= 0:
        raise _wrong(text, f"{key}={value}: the amount must be more than 0")
    return found


def _seconds(text: str, key: str, value: str) -> float:
    try:
        return duration_s(value)
    except Misread as misread:
        raise _wrong(text, f"{key}: {misread.text}") from None


def _number(text: str, key: str, value: str, most: float) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found <= most:
        raise _wrong(text, f"{key}={value}: write a number from 0 to {most:g}")
    return found


def _wrong(text: str, why: str) -> PhalanxError:
    return PhalanxError(f"{OPTION} {text}: {why}. For example: {EXAMPLE}")


def read_local_groups(
    texts: Sequence[str], file: Path | None
) -> tuple[tuple[SimulatedGroup, ...], tuple[GroupInFile, ...]]:
    """Return the groups of the options, and the groups in the file. Raises PhalanxError if two groups have the same
    name or label."""
    simulated, listed = node_groups(texts), read_node_groups(file)
    names = {each.group.name for each in simulated}
    for each in listed:
        if each.group.name in names:
            raise PhalanxError(
                f"{OPTION} {each.group.name}: {file} has a node group with this name too. Give each of them its own "
                "name."
            )
        if each.label[0] == NODE_GROUP and each.label[1] in names:
            raise PhalanxError(
                f"{file}: the nodes of {each.group.name} have the label {'='.join(each.label)}, which is the label of "
                f"{OPTION} {each.label[1]}. Give one of them another name or nodeLabel."
            )
    return simulated, listed


async def local_provisioning(
    texts: Sequence[str],
    file: Path | None,
    connection: Connection,
    informers: Callable[[Kind], Informer],
    tasks: asyncio.TaskGroup,
) -> Provisioning | None:
    """Return the node groups and the providers that create their nodes; None if there are no node groups. The function
    also creates the namespaces of the pods that request nodes from autoscalers. Raises PhalanxError if Machines or a
    cloud provider cannot be read."""
    simulated, listed = read_local_groups(texts, file)
    for name in sorted({each.provider.namespace for each in listed if isinstance(each.provider, Autoscaler)}):
        try:
            await connection.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
    return await provisioning(listed, connection, informers, tasks, simulated)
