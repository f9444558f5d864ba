"""Read `--node-groups FILE` of `phalanx scheduler` and `phalanx up`: the node groups of a cluster and their providers.
The page docs/guide/autoscaling.md describes all fields. Error messages name the file, the line and the field."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from phalanx.cli.files.placed_file import read_placed
from phalanx.cli.local.node_groups.provider_fields import (
    Autoscaler,
    CloudProvider,
    MachineProvider,
    ProviderFields,
    read_provider,
    wrong_key,
    wrong_resource,
    wrong_value,
)
from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.kube.read.labels import NODE_GROUP
from phalanx.model.node import Node, NodeGroup, Taint
from phalanx.model.pod import PODS, Amounts, amounts

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,50}[a-z0-9])?")
MOST_NODES = 10_000
PODS_OF_A_NODE = 110  # the kubelet's default
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
DELAY_S, TIMEOUT_S, IDLE_S = 180.0, 900.0, 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInFile:
    """A node group of the file. `label`: the label (key, value) of all nodes of the group, by which they are
    recognized. `given`: the names of the fields that the file sets."""

    group: NodeGroup
    label: tuple[str, str]
    provider: ProviderFields
    given: frozenset[str] = frozenset()


def read_node_groups(file: Path | None) -> tuple[GroupInFile, ...]:
    """Return the groups in the file; empty without a file. Raises PhalanxError with file, line and field."""
    return () if file is None else read_placed(file, _groups)


def _groups(said: Fields) -> tuple[GroupInFile, ...]:
    found: dict[str, GroupInFile] = {}
    labels: dict[tuple[str, str], str] = {}
    for each in said.each("nodeGroups"):
        one = _group(each)
        name, other = one.group.name, labels.setdefault(one.label, one.group.name)
        if name in found:
            raise Misread((*each.path, "name"), f"there are two node groups {name}; give each its own name")
        if other != name:
            text = f"the nodes of {other} have the label {'='.join(one.label)} too; a node belongs to one group"
            raise Misread((*each.path, "nodeLabel"), text)
        found[name] = one
    for at, one in enumerate(found.values()):
        for label in one.group.template.labels:
            if (other := labels.get(label, one.group.name)) != one.group.name:
                text = f"the nodes of {other} have the label {'='.join(label)} (nodeLabel); a node belongs to one group"
                raise Misread((*said.path, "nodeGroups", at, "labels", label[0]), text)
    said.done()
    if not found:
        raise Misread(("nodeGroups",), "the file has no node group")
    return tuple(found.values())


def _group(said: Fields) -> GroupInFile:
    name = said.name("name")
    if not NAME.fullmatch(name):
        raise Misread((*said.path, "name"), f"{name!r} is not a valid name: use lowercase letters, digits, `-` and `.`")
    label = _label(said, name)
    provider = read_provider(said.fields("provider"))
    template = Node(
        name=name,
        allocatable=_allocatable(said, must=not isinstance(provider, MachineProvider | CloudProvider)),
        labels=tuple(sorted({**_labels(said, label), label[0]: label[1]}.items())),
        taints=tuple(_taint(each) for each in said.each("taints")),
    )
    least, idle_s = _kept(said, provider)
    group = NodeGroup(
        name=name,
        template=template,
        min_nodes=least,
        max_nodes=said.whole("max", 1000, least=max(1, least), most=MOST_NODES),
        price_per_hour=said.number("price"),
        delay_s=said.seconds("delay", DELAY_S),
        timeout_s=said.seconds("timeout", TIMEOUT_S),
        idle_s=idle_s,
    )
    if group.timeout_s < group.delay_s:
        raise Misread((*said.path, "timeout"), f"{group.timeout_s:g} s is shorter than the delay, {group.delay_s:g} s")
    said.done()
    return GroupInFile(group=group, label=label, provider=provider, given=frozenset(said.values))


def _kept(said: Fields, provider: ProviderFields) -> tuple[int, float]:
    """Return the minimum number of nodes, and the time in seconds after which an empty node is removed."""
    if not isinstance(provider, Autoscaler):
        return said.whole("min", 0, least=0, most=MOST_NODES), said.seconds("idle", IDLE_S)
    for name in ("min", "idle"):
        if said.value(name) is not None:
            text = "the autoscaler keeps a minimum and removes empty nodes itself: set them there, and leave this out"
            raise Misread((*said.path, name), text)
    return 0, math.inf


def _label(said: Fields, name: str) -> tuple[str, str]:
    """Return the label (key, value) by which the group's nodes are recognized."""
    text = said.text("nodeLabel", f"{NODE_GROUP}={name}")
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise Misread((*said.path, "nodeLabel"), f"{text!r} is not KEY=VALUE; for example karpenter.sh/nodepool={name}")
    if why := wrong_key(key) or wrong_value(value):
        raise Misread((*said.path, "nodeLabel"), why)
    return key, value


def _labels(said: Fields, own: tuple[str, str]) -> dict[str, str]:
    """Return the other labels of the group's nodes. `own`: the label by which the nodes are recognized."""
    found = dict(said.pairs("labels"))
    for key, value in found.items():
        path = (*said.path, "labels", key)
        if why := wrong_key(key) or wrong_value(value):
            raise Misread(path, why)
        if key == own[0] and value != own[1]:
            raise Misread(path, f"nodeLabel is {'='.join(own)}; a label has one value")
    return found


def _allocatable(said: Fields, *, must: bool) -> Amounts:
    """Return the allocatable amounts of a node. `must`: True if the file must contain them; False if they may be
    missing, because the provider reports them."""
    found = dict(said.amounts("allocatable"))
    if not found and not must:
        return ()
    if not found:
        raise Misread(
            (*said.path, "allocatable"),
            "the resources of a node are missing; write for example {cpu: 92, memory: 700Gi}",
        )
    for resource in found:
        if why := wrong_key(resource) or wrong_resource(resource):
            raise Misread((*said.path, "allocatable", resource), why)
    found = {PODS: PODS_OF_A_NODE, **found}
    if not found[PODS] or not any(amount for resource, amount in found.items() if resource != PODS):
        raise Misread((*said.path, "allocatable"), "a node must have resources and must accept pods")
    return amounts(found)


def _taint(said: Fields) -> Taint:
    found = Taint(said.name("key"), said.text("value"), said.text("effect", EFFECTS[0]))
    for name, why in (("key", wrong_key(found.key)), ("value", wrong_value(found.value))):
        if why:
            raise Misread((*said.path, name), why)
    if found.effect not in EFFECTS:
        raise Misread((*said.path, "effect"), f"{found.effect!r} is not one of {', '.join(EFFECTS)}")
    said.done()
    return found
