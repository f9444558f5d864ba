"""The findings of `phalanx doctor --node-groups FILE` about node groups.

The module asks each provider of a node group for its nodes, and reports nodes that have not joined the cluster. It also
defines `Finding`, which all checks of `phalanx doctor` return."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from phalanx.cli.local.node_groups.backends import cloud, documents, machine_set
from phalanx.cli.local.node_groups.file import GroupInFile
from phalanx.cli.local.node_groups.provider_fields import (
    Autoscaler,
    CloudProvider,
    ExecProvider,
    MachineProvider,
    SlurmProvider,
    WebhookProvider,
)
from phalanx.client.connection import ApiError, Connection, Object
from phalanx.client.kind import NODES
from phalanx.dialects.kueue.kinds import RESOURCE_FLAVORS
from phalanx.errors import PhalanxError
from phalanx.kube.install.definitions import FLAVORS
from phalanx.model.node import Flavor
from phalanx.providers.counted.calls import RUNNING, NodeState, described
from phalanx.providers.counted.machines import Machines

OK, WARNING, PROBLEM = "ok", "warning", "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a check. `about`: the subject of the check. `state`: OK, WARNING or PROBLEM. `mend`: how to solve
    the problem; "" if there is none."""

    about: str
    state: str
    text: str
    mend: str = ""


def hidden(about: str, what: str) -> Finding:
    """Return the finding for a check that is impossible, because the user may not read objects of this kind."""
    return Finding(about=about, state=OK, text=f"not checked: you may not read {what}")


_SHOWN = 3


async def of_node_groups(connection: Connection, groups: Sequence[GroupInFile]) -> list[Finding]:
    """Return the findings about the node groups; empty without groups."""
    if not groups:
        return []
    try:
        nodes: list[Object] = (await connection.list(NODES))["items"]
    except ApiError:
        nodes = []
    parts = await asyncio.gather(*(_of_group(connection, each, nodes) for each in groups))
    flavors = await _flavors(connection)
    return [*(finding for part in parts for finding in part), *_without_flavor(groups, flavors)]


async def _flavors(connection: Connection) -> list[Flavor]:
    """Return the flavors of Phalanx and of Kueue. A kind that the cluster does not serve, or that the user may not
    list, is left out."""
    found: list[Flavor] = []
    for kind, field in ((FLAVORS, "labels"), (RESOURCE_FLAVORS, "nodeLabels")):
        try:
            items = (await connection.list(kind))["items"]
        except ApiError:
            continue
        for each in items:
            labels = (each.get("spec") or {}).get(field) or {}
            found.append(Flavor(name=each["metadata"]["name"], labels=tuple(labels.items())))
    return found


def _without_flavor(groups: Iterable[GroupInFile], flavors: Sequence[Flavor]) -> Iterator[Finding]:
    """Yield a warning for each group whose nodes belong to no flavor. A group is left out if its provider sets other
    labels on the nodes, because these labels are unknown to this command."""
    for each in groups:
        labels = set(each.group.template.labels)
        known = not isinstance(each.provider, MachineProvider | CloudProvider)
        if not known or not flavors or any(labels.issuperset(flavor.labels) for flavor in flavors):
            continue
        flavor = flavors[0]
        missing = ", ".join(f"{key}={value}" for key, value in flavor.labels if (key, value) not in labels)
        mend = "Add a flavor's labels to `labels` of the group, or create a flavor: queues with flavors use no others."
        text = f"its nodes belong to none of the {len(flavors)} flavors; nodes of {flavor.name} also have {missing}"
        yield Finding(about=f"node group {each.group.name}", state=WARNING, text=text, mend=mend)


async def _of_group(connection: Connection, group: GroupInFile, nodes: Sequence[Object]) -> list[Finding]:
    about, (key, value) = f"node group {group.group.name}", group.label
    here = [each for each in nodes if (each["metadata"].get("labels") or {}).get(key) == value]
    if isinstance(group.provider, Autoscaler):
        text = f"an autoscaler adds its nodes, of which the cluster has {len(here)}"
        return [Finding(about=about, state=OK, text=text)]
    if isinstance(group.provider, SlurmProvider):
        text = f"{group.provider.settings.resume_program} powers its nodes up; the cluster has {len(here)} of them"
        return [Finding(about=about, state=OK, text=text)]
    try:
        listed = await _listed(connection, group, group.provider, nodes)
    except PhalanxError as error:
        mend = (
            "No nodes are added or removed until the provider responds. docs/guide/autoscaling.md describes the calls."
        )
        return [Finding(about=about, state=PROBLEM, text=str(error), mend=mend)]
    text = f"its provider lists {', '.join(described(listed)) or 'no nodes'}; the cluster has {len(here)} of its nodes"
    names = {each["metadata"]["name"] for each in here}
    strangers = [each.node or each.name for each in listed if each.state == RUNNING]
    if missing := sorted(name for name in strangers if name not in names):
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        mend = f"They cost money and run no jobs. Check that they join, with the label {key}={value}; or remove them."
        return [Finding(about=about, state=WARNING, text=f"{text}; not in the cluster: {shown}", mend=mend)]
    return [Finding(about=about, state=OK, text=text)]


async def _listed(
    connection: Connection,
    group: GroupInFile,
    said: ExecProvider | WebhookProvider | MachineProvider | CloudProvider,
    nodes: Sequence[Object],
) -> Sequence[NodeState]:
    """Return the nodes of the group that the provider `said` lists. Raises PhalanxError if the provider does not
    respond."""
    name = group.group.name
    match said:
        case MachineProvider(kubeconfig=None):
            return await Machines(connection, machine_set(group, said)).nodes(name)
        case MachineProvider(kubeconfig=kubeconfig):
            async with await Connection.open(kubeconfig) as there:
                return await Machines(there, machine_set(group, said)).nodes(name)
        case CloudProvider():
            return await cloud(group, said, lambda: nodes).nodes(name)
        case ExecProvider() | WebhookProvider():
            return await documents(said).nodes(name)
