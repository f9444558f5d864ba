"""A backend whose nodes are instances of a cloud provider. The provider serves the Cluster Autoscaler's gRPC protocol
`externalgrpc`.

Such a provider has a target size for each group, and lists its instances. To add nodes, the target size is increased.
An instance is removed by its id, which is the `spec.providerID` of its Node. The Node gets the label of the group when
it joins."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec.structs import replace

from phalanx.client.connection import ApiError, Connection, Object
from phalanx.client.kind import NODES
from phalanx.client.moment import write_moment
from phalanx.providers.counted.calls import FAILED, MOST_NODES, REMOVING, RUNNING, STARTING, NodeState, Scale, text_of
from phalanx.providers.counted.cloud_protocol import DELETING, CloudAddress, CloudService, message, open_cloud
from phalanx.providers.provider import ProviderError

PENDING = "+"  # the prefix of names of nodes that the provider has not created yet


class Instances:
    """The instances of one group. `group`: the provider's id of the group. `nodes`: a function that returns the Node
    objects. `connection`: the connection over which this class sets the label (key, value) of Nodes; None: no Node is
    labelled."""

    counted = frozenset((STARTING, RUNNING, FAILED))

    def __init__(
        self,
        at: CloudAddress,
        group: str,
        nodes: Callable[[], Iterable[Object]],
        label: tuple[str, str],
        connection: Connection | None = None,
    ) -> None:
        self._at, self._group, self._nodes, self._label, self._connection = at, group, nodes, label, connection
        self._since: dict[str, str] | None = None  # instance -> when it was first listed; "" if in the first list
        self._asked: set[str] = set()  # instances whose deletion was requested
        self._deleted: set[str] = set()  # nodes whose deletion the provider has accepted

    async def nodes(self, group: str) -> Sequence[NodeState]:
        """Return a `NodeState` for each instance, including the requested instances that the provider has not created
        yet."""
        async with self._opened() as service:
            await service.call("Refresh")
            target = await self._target(service)
            found = (await service.call("NodeGroupNodes", id=self._group)).instances
        if len(found) > MOST_NODES or not 0 <= target <= MOST_NODES:
            many = f"{len(found)} instances, and a target size of {target}"
            raise ProviderError(
                f"{service.name} reports {many} of group {self._group}; at most {MOST_NODES} can be used"
            )
        ids = {each.id for each in found}
        if len(ids) < len(found) or any(not each or each.startswith(PENDING) for each in ids):
            raise ProviderError(f"{service.name} lists instances of group {self._group} without id, or twice")
        self._look(each.id for each in found)
        by_id = by_provider_id(self._nodes())
        states = [await self._state(each, by_id.get(each.id)) for each in found]
        alive = [each for each in states if each.state != REMOVING]
        surplus = sorted(alive, key=lambda each: bool(each.node))[: max(0, len(alive) - target)]  # no Node: first
        leaving = {each.name for each in surplus}
        states = [replace(one, state=REMOVING) if one.name in leaving else one for one in states]
        more = range(target - len(alive))
        return [*states, *(NodeState(name=f"{PENDING}{number}", state=STARTING) for number in more)]

    async def scale(self, group: str, to: Scale) -> Mapping[str, str]:
        """Delete instances, cancel instances that are not created yet, and then add nodes by raising the target size. A
        repeated call adds only what is missing."""
        instances = {name: to.provider_ids.get(name, name) for name in to.remove if not name.startswith(PENDING)}
        async with self._opened() as service:
            known = {each.id: each.status for each in (await service.call("NodeGroupNodes", id=self._group)).instances}
            here = [each for each in instances.values() if each in known]
            if names := [name for name in here if name not in self._deleted and known[name].instanceState != DELETING]:
                self._asked.update(names)
                await service.call("NodeGroupDeleteNodes", id=self._group, nodes=self._named(names))
                self._deleted.update(names)
            if pending := len(to.remove) - len(instances):
                alive = sum(status.instanceState != DELETING for name, status in known.items() if name not in names)
                less = min(pending, await self._target(service) - alive)
                if less > 0:
                    await service.call("NodeGroupDecreaseTargetSize", id=self._group, delta=-less)
            if to.add and (more := min(len(to.add), to.total - await self._target(service))) > 0:
                await service.call("NodeGroupIncreaseSize", id=self._group, delta=more)
        present = {str(node["metadata"]["name"]) for node in self._nodes()}
        gone = known.keys() | self._asked
        lost = (name for name, each in instances.items() if name in present and each not in gone)
        return dict.fromkeys(lost, f"{service.name} has no instance of this node in group {self._group}")

    async def _target(self, service: CloudService) -> int:
        return int((await service.call("NodeGroupTargetSize", id=self._group)).targetSize)

    def _look(self, listed: Iterable[str]) -> None:
        """Store the time when each instance was first listed."""
        now = "" if self._since is None else write_moment(time.time())
        before = self._since or {}
        self._since = {name: before.get(name, now) for name in listed}
        for names in (self._asked, self._deleted):
            names -= self._since.keys() - before.keys()  # a new instance may reuse the id of a deleted one

    async def _state(self, instance: Any, node: Object | None) -> NodeState:
        assert self._since is not None
        status, name = instance.status, "" if node is None else str(node["metadata"]["name"])
        message = ""
        if status.instanceState == DELETING or instance.id in self._deleted:
            state = REMOVING
        elif status.errorInfo.errorCode and node is None:
            said = text_of(status.errorInfo.errorMessage) or "it gives no message"
            state, message = FAILED, f"instance {text_of(instance.id)} failed: {status.errorInfo.errorCode}: {said}"
        elif node is None:
            state = STARTING
        else:
            await self._label_node(node)
            state = RUNNING
        since = self._since[instance.id]
        return NodeState(name=instance.id, node=name, state=state, since=since, message=message)

    async def _label_node(self, node: Object) -> None:
        key, value = self._label
        if self._connection is None or (node["metadata"].get("labels") or {}).get(key) == value:
            return
        name = node["metadata"]["name"]
        try:
            await self._connection.patch(NODES, name, {"metadata": {"labels": {key: value}}})
        except ApiError as error:
            raise ProviderError(f"node {name} cannot get the label {key}={value}: {error}") from error

    def _named(self, instances: Sequence[str]) -> list[Any]:
        """Return the protocol messages that name the instances to delete. The message of an instance without a Node has
        only its id."""
        by_id, found = by_provider_id(self._nodes()), []
        for each in instances:
            meta = by_id.get(each, {"metadata": {"name": each}})["metadata"]
            pairs = {
                kind: [message("Pair")(key=key, value=value) for key, value in (meta.get(kind) or {}).items()]
                for kind in ("labels", "annotations")
            }
            found.append(message("CloudNode")(providerID=each, name=meta["name"], **pairs))
        return found

    def _opened(self) -> AbstractAsyncContextManager[CloudService]:
        return open_cloud(self._at)


def by_provider_id(nodes: Iterable[Object]) -> dict[str, Object]:
    """Return the Nodes by their `spec.providerID`."""
    found = ((str((node.get("spec") or {}).get("providerID") or ""), node) for node in nodes)
    return {provider_id: node for provider_id, node in found if provider_id}
