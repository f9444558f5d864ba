"""A backend whose nodes are Machines of Cluster API (MachineDeployment, MachineSet) or of OpenShift (MachineSet).

To add nodes, the backend increases `spec.replicas` of the object through its subresource `scale`. To remove a certain
Machine, the backend annotates it, so that the controller deletes this Machine when the number of replicas is decreased.
The backend adds the label of the group to the Node of each Machine, because Cluster API copies only few labels from
templates to Nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from phalanx.client.connection import ApiError, ApiRefusal, Connection, Object
from phalanx.client.kind import NODES, Kind
from phalanx.client.moment import read_moment
from phalanx.providers.counted.calls import FAILED, MOST_NODES, REMOVING, RUNNING, STARTING, NodeState, Scale
from phalanx.providers.provider import ProviderError

CLUSTER_API, OPENSHIFT = "cluster.x-k8s.io", "machine.openshift.io"
KINDS = {
    (CLUSTER_API, "MachineDeployment"): "machinedeployments",
    (CLUSTER_API, "MachineSet"): "machinesets",
    (OPENSHIFT, "MachineSet"): "machinesets",
}
DELETE = {CLUSTER_API: "cluster.x-k8s.io/delete-machine", OPENSHIFT: "machine.openshift.io/delete-machine"}

LOOK_S = 1.0  # the interval between checks whether a controller has deleted a Machine
_GONE = 404


class MachineSet(NamedTuple):
    """The object whose Machines are the nodes of a group. `label`: the label (key, value) of the group's nodes."""

    kind: Kind
    namespace: str
    name: str
    label: tuple[str, str]

    @property
    def machines(self) -> Kind:
        return Kind(group=self.kind.group, version=self.kind.version, plural="machines", name="Machine")

    def __str__(self) -> str:
        return f"{self.kind.name} {self.namespace}/{self.name}"


class Machines:
    """The backend for the Machines of one object (a MachineDeployment or MachineSet). `connection`: the connection to
    the cluster that has the object. `nodes`: the connection to the cluster that the nodes join. `node`: a function that
    returns the Node object with the given name, or None if there is none. Without this function, no Node is
    labelled."""

    counted = frozenset((STARTING, RUNNING, FAILED))

    def __init__(
        self,
        connection: Connection,
        of: MachineSet,
        nodes: Connection | None = None,
        node: Callable[[str], Object | None] | None = None,
    ) -> None:
        self._connection, self._of, self._nodes, self._node = connection, of, nodes, node

    async def nodes(self, group: str) -> Sequence[NodeState]:
        """Return a `NodeState` for each Machine, including the requested Machines that the controller has not created
        yet."""
        try:
            owner = await self._connection.get(self._of.kind, self._of.name, self._of.namespace)
            selector = selector_of(owner)
            found = await self._connection.list(self._of.machines, self._of.namespace, labelSelector=selector)
            arrived = {machine_name(each): await self._has_arrived(each) for each in found["items"]}
        except ApiError as error:
            raise ProviderError(f"the Machines of {self._of} cannot be read: {error}") from error
        wanted = int((owner.get("spec") or {}).get("replicas") or 0)
        if wanted > MOST_NODES:
            raise ProviderError(f"{self._of} has spec.replicas {wanted}; at most {MOST_NODES} can be used")
        alive = [each for each in found["items"] if not each["metadata"].get("deletionTimestamp")]
        leaving = {machine_name(each) for each in sorted(alive, key=self._leaves_first)[: max(0, len(alive) - wanted)]}
        leaving |= {machine_name(each) for each in found["items"] if each not in alive}
        states = [state_of(each, arrived[machine_name(each)], machine_name(each) in leaving) for each in found["items"]]
        more = range(wanted - len(alive))
        return [*states, *(NodeState(name=f"{self._of.name}/{number}", state=STARTING) for number in more)]

    async def scale(self, group: str, to: Scale) -> Mapping[str, str]:
        """Mark the Machines to remove, change the number of replicas, and wait until the controller deletes the marked
        Machines. Without the wait, a later increase of the number could prevent the deletion of a marked Machine."""
        of = self._of
        try:
            marked = [name for name in to.remove if "/" in name or await self._mark(name)]  # with "/": no Machine yet
            await self._connection.patch(of.kind, of.name, {"spec": {"replicas": to.total}}, of.namespace, "scale")
            while any([await self._is_alive(name) for name in marked if "/" not in name]):  # noqa: ASYNC110 (it is polled)
                await asyncio.sleep(LOOK_S)
        except ApiError as error:
            raise ProviderError(f"{of} cannot be scaled to {to.total}: {error}") from error
        return {name: f"{of} has no Machine of this node" for name in to.remove if name not in marked}

    async def _mark(self, machine: str) -> bool:
        """Mark this Machine, so that the controller deletes it before other Machines. Return False if there is no such
        Machine."""
        body = {"metadata": {"annotations": {DELETE[self._of.kind.group]: "true"}}}
        try:
            await self._connection.patch(self._of.machines, machine, body, self._of.namespace)
        except ApiRefusal as error:
            if error.code != _GONE:
                raise
            return False
        return True

    async def _is_alive(self, machine: str) -> bool:
        try:
            found = await self._connection.get(self._of.machines, machine, self._of.namespace)
        except ApiRefusal as error:
            if error.code != _GONE:
                raise
            return False
        return not found["metadata"].get("deletionTimestamp")

    def _leaves_first(self, machine: Object) -> tuple[bool, bool, float]:
        """Return the sort key for the order in which controllers delete Machines: marked Machines first, then Machines
        without a Node, then the newest."""
        meta = machine["metadata"]
        is_marked = DELETE[self._of.kind.group] in (meta.get("annotations") or {})
        return not is_marked, bool(node_name(machine)), -read_moment(meta["creationTimestamp"])

    async def _has_arrived(self, machine: Object) -> bool:
        """Return whether the Machine has a Node with the label of the group. If the Node does not have the label, add
        it."""
        name, (key, value) = node_name(machine), self._of.label
        if not name or self._node is None or self._nodes is None:
            return bool(name)
        if (node := self._node(name)) is None:
            return False
        if (node["metadata"].get("labels") or {}).get(key) != value:
            await self._nodes.patch(NODES, name, {"metadata": {"labels": {key: value}}})
        return True


def state_of(machine: Object, has_arrived: bool, is_leaving: bool) -> NodeState:
    """Return the state of a Machine's node."""
    status = machine.get("status") or {}
    why = str(status.get("failureMessage") or status.get("errorMessage") or "")
    if is_leaving:
        state = REMOVING
    elif status.get("phase") == "Failed" and not node_name(machine):
        state, why = FAILED, f"Machine {machine_name(machine)} failed: {why or 'it gives no message'}"
    else:
        state = RUNNING if has_arrived else STARTING
    return NodeState(
        name=machine_name(machine),
        state=state,
        node=node_name(machine),
        since=machine["metadata"]["creationTimestamp"],
        message=why,
    )


def selector_of(owner: Object) -> str:
    """Return the label selector of the object's Machines. Raises ProviderError."""
    labels = ((owner.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    if not labels:
        name = f"{owner['kind']} {owner['metadata']['name']}"
        raise ProviderError(f"{name} has no spec.selector.matchLabels, so its Machines cannot be identified")
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def machine_name(machine: Object) -> str:
    return str(machine["metadata"]["name"])


def node_name(machine: Object) -> str:
    return str(((machine.get("status") or {}).get("nodeRef") or {}).get("name") or "")
