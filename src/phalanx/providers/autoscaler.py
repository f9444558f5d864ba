"""A provider whose nodes come from an autoscaler that adds nodes for unschedulable pods: the Cluster Autoscaler or
Karpenter.

For each requested node the provider creates a pod that no scheduler binds. This pod requests the allocatable amounts of
the group's node template. The pods of one request get the condition `PodScheduled=False, Unschedulable` when all of
them exist, so the autoscaler sees all of them at once. These pods stay until the last node of the request has arrived,
because Karpenter removes an empty node that no pending pod needs. The autoscaler removes empty nodes itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from phalanx.client.connection import STRATEGIC_PATCH, ApiError, ApiRefusal, Connection, Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import EVENTS, NODES, PODS, Kind
from phalanx.client.moment import read_moment
from phalanx.model.node import HARD, NodeGroup
from phalanx.model.pod import PODS as POD_COUNT
from phalanx.model.pod import format_amount
from phalanx.providers.provider import ProviderError, Requested, Status

log = logging.getLogger(__name__)

SCHEDULER_NAME = "phalanx-node-request"  # the schedulerName of pods that request nodes; no scheduler has this name
GROUP, REQUEST = "phalanx.dev/node-request-group", "phalanx.dev/node-request"  # pod labels: group; request's first node
GIVEN_UP = {"NotTriggerScaleUp", "FailedScheduling"}  # the reasons of Events which report that no node is added
MESSAGE = "Phalanx requests a node for a job that waits"
_WRITES = 16  # the maximum number of concurrent writes
_EXISTS, _GONE = 409, 404


class AutoscalerGroup(NamedTuple):
    """A node group. `label`: the label of its nodes. `namespace`, `image`: the namespace and the image of the pods that
    request nodes."""

    group: NodeGroup
    label: tuple[str, str]
    namespace: str
    image: str


class AutoscalerProvider:
    """The provider of groups whose nodes an autoscaler adds."""

    def __init__(
        self,
        connection: Connection,
        informers: Callable[[Kind], Informer],
        groups: Iterable[AutoscalerGroup],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._connection, self._tasks = connection, tasks
        self._groups = {each.group.name: each for each in groups}
        self._nodes = informers(NODES)
        self._nodes.subscribe(self._see)
        self._used: set[str] = set()  # uids of nodes that have arrived for a request
        self._requests: dict[str, dict[str, Requested]] = {name: {} for name in self._groups}  # node -> its request
        self._firsts: dict[str, str] = {}  # requested node -> the first node of its request
        self._deleting: set[str] = set()

    async def scale(self, group: str, add: Sequence[str], remove: Sequence[str]) -> Mapping[str, str]:
        here = self._groups[group]
        await self._side_by_side(self._delete(here, name) for name in remove if name in self._requests[group])
        if not add:
            return {}
        refused: dict[str, str] = {}
        await self._side_by_side(self._create(here, name, add[0], refused) for name in add)
        await self._side_by_side(self._mark(here, name) for name in add if name not in refused)
        self._settle(here)
        return refused

    async def status(self, group: str) -> Status:
        here = self._groups[group]
        before = frozenset(self._requests[group])  # a copy, because requests may change while the lists are read
        try:
            found = await self._connection.list(PODS, here.namespace, labelSelector=f"{GROUP}={group}")
            events = await self._connection.list(EVENTS, here.namespace, fieldSelector="involvedObject.kind=Pod")
        except ApiError as error:
            raise ProviderError(f"the pods that request nodes cannot be read: {error}") from error
        pods = {one["metadata"]["name"]: one["metadata"] for one in found["items"]}
        uids = {meta["uid"]: name for name, meta in pods.items()}
        for name, meta in pods.items():
            if name not in before or name in self._requests[group]:
                self._note(here, meta)
        failed = dict(_given_up(events["items"], uids))
        for name in [name for name in self._requests[group] if name in before and name not in pods]:
            if self._firsts.get(name, name) not in self._deleting:
                failed[name] = f"the pod {here.namespace}/{name}, which requested the node, was deleted"
            self._forget(group, name)
        self._settle(here)
        return Status(requested=tuple(self._requests[group].values()), failed=failed)

    # --- pods ---------------------------------------------------------------------------------------------------------

    async def _create(self, here: AutoscalerGroup, name: str, first: str, refused: dict[str, str]) -> None:
        try:
            try:
                pod = await self._connection.create(PODS, pod_of(here, name, first), here.namespace)
            except ApiRefusal as error:
                if error.code != _EXISTS:
                    refused[name] = f"its pod in namespace {here.namespace} is refused: {error}"
                    return
                pod = await self._connection.get(PODS, name, here.namespace)
        except ApiError as error:
            raise ProviderError(f"the pod {here.namespace}/{name} cannot be created: {error}") from error
        self._note(here, pod["metadata"])

    async def _mark(self, here: AutoscalerGroup, name: str) -> None:
        """Mark the pod as unschedulable, so that the autoscaler adds a node for it."""
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": MESSAGE}
        body = {"status": {"conditions": [condition]}}
        try:
            await self._connection.patch(PODS, name, body, here.namespace, "status", STRATEGIC_PATCH)
        except ApiError as error:
            raise ProviderError(f"the pod {here.namespace}/{name} cannot be marked: {error}") from error

    async def _delete(self, here: AutoscalerGroup, name: str) -> None:
        try:
            await self._connection.delete(PODS, name, here.namespace)
        except ApiError as error:
            if not isinstance(error, ApiRefusal) or error.code != _GONE:
                raise ProviderError(f"the pod {here.namespace}/{name} cannot be deleted: {error}") from error
        self._forget(here.group.name, name)

    async def _side_by_side(self, calls: Iterable[object]) -> None:
        """Make the calls, at most `_WRITES` at the same time. When all calls have ended, raise the first error, if
        there is one."""
        gate = asyncio.Semaphore(_WRITES)

        async def one(call: Any) -> None:
            async with gate:
                await call

        for found in await asyncio.gather(*map(one, calls), return_exceptions=True):
            if isinstance(found, BaseException):
                raise found

    def _note(self, here: AutoscalerGroup, meta: Object) -> None:
        """Store the node request that this pod stands for (one pod requests one node). `meta`: the pod's metadata."""
        name = meta["name"]
        self._firsts[name] = str((meta.get("labels") or {}).get(REQUEST, name))
        self._requests[here.group.name][name] = Requested(name, read_moment(meta["creationTimestamp"]))

    def _forget(self, group: str, name: str) -> None:
        self._requests[group].pop(name, None)
        self._firsts.pop(name, None)

    # --- nodes that arrive --------------------------------------------------------------------------------------------

    def _see(self, change: Change) -> None:
        labels = ((change.new or {}).get("metadata") or {}).get("labels") or {}
        for here in self._groups.values():
            if labels.get(here.label[0]) == here.label[1]:
                self._settle(here)

    def _settle(self, here: AutoscalerGroup) -> None:
        """Delete the pods of each request whose nodes have all arrived. The oldest request gets the first nodes."""
        if not self._requests[here.group.name]:
            return
        free = [node for node in self._arrived(here) if node["metadata"]["uid"] not in self._used]
        for first, names in self._by_request(here.group.name).items():
            if first in self._deleting:
                continue
            since_s = self._requests[here.group.name][names[0]].since_s
            mine = [node for node in free if read_moment(node["metadata"]["creationTimestamp"]) + 1.0 > since_s]
            if len(mine) < len(names):
                return
            taken = {node["metadata"]["uid"] for node in mine[: len(names)]}
            self._used |= taken
            free = [node for node in free if node["metadata"]["uid"] not in taken]
            self._deleting.add(first)
            self._tasks.create_task(self._withdraw(here, first, names))

    async def _withdraw(self, here: AutoscalerGroup, first: str, names: Sequence[str]) -> None:
        """Delete the pods of a request. The pods must be deleted before the job's pods are placed on the nodes.
        Otherwise the autoscaler would add further nodes for the pods of the request."""
        try:
            while True:
                try:
                    await self._side_by_side(self._delete(here, name) for name in names)
                    return
                except ProviderError as error:
                    log.warning("node group %s: %s", here.group.name, error)
                    await asyncio.sleep(1.0)
        finally:
            self._deleting.discard(first)

    def _by_request(self, group: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, _ in sorted(self._requests[group].items(), key=lambda one: one[1].since_s):
            found.setdefault(self._firsts.get(name, name), []).append(name)
        return found

    def _arrived(self, here: AutoscalerGroup) -> list[Object]:
        """Return the nodes of the group that accept pods, the oldest first."""
        key, value = here.label
        expected = {(taint.key, taint.effect) for taint in here.group.template.taints}
        found = [
            node
            for node in self._nodes.objects.values()
            if (node["metadata"].get("labels") or {}).get(key) == value and _accepts_pods(node, expected)
        ]
        return sorted(found, key=lambda node: (node["metadata"]["creationTimestamp"], node["metadata"]["name"]))


def _accepts_pods(node: Object, expected: set[tuple[str, str]]) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    conditions = (node.get("status") or {}).get("conditions") or ()
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return is_ready and all(one["effect"] not in HARD or (one["key"], one["effect"]) in expected for one in taints)


def _given_up(events: Iterable[Object], uids: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (requested node, the autoscaler's reason) for each pod for which the autoscaler adds no node."""
    for event in events:
        name = uids.get(str((event.get("involvedObject") or {}).get("uid")))
        if name is not None and event.get("reason") in GIVEN_UP:
            yield name, str(event.get("message") or event["reason"])


def pod_of(here: AutoscalerGroup, name: str, first: str) -> Object:
    """Return the pod that requests a node. `first`: the first node of the request."""
    template = here.group.template
    asks = {each: format_amount(each, amount) for each, amount in template.allocatable if each != POD_COUNT}
    extended = {each: text for each, text in asks.items() if "/" in each}
    container = {
        "name": "node",
        "image": here.image,
        "resources": {"requests": asks, **({"limits": extended} if extended else {})},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    tolerations = [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in template.taints
    ]
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.name,
        "metadata": {
            "name": name,
            "namespace": here.namespace,
            "labels": {GROUP: here.group.name, REQUEST: first},
        },
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "nodeSelector": dict(template.labels),
            "tolerations": tolerations,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }
