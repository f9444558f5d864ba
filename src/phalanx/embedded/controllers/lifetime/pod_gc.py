"""Delete pods that no other component deletes: too many finished pods, pods of lost nodes, and terminating pods without
a node.

A missing node may appear soon (the watch lags, or a virtual machine is replaced under its name). So the controller
waits for a while, and reads the node once more, before it fails and deletes the pods
(k8s.io/kubernetes/pkg/controller/podgc).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from phalanx.client.connection import STRATEGIC_PATCH, ApiError, ApiRefusal, Object
from phalanx.client.kind import NODES, PODS
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.runtime.calls import Calls, Clock, gone
from phalanx.embedded.controllers.runtime.pod_state import is_deleting, is_terminal
from phalanx.embedded.controllers.runtime.timestamp import seconds

log = logging.getLogger(__name__)

_MISSED_FOR_S = 40.0


class PodCollector:
    """The collector of pods; call `run`. `most_finished`: if there are more finished pods, the oldest are deleted."""

    def __init__(
        self,
        calls: Calls,
        *,
        most_finished: int = 12_500,
        period_s: float = 20.0,
        missed_for_s: float = _MISSED_FOR_S,
        clock: Clock = time.time,
    ) -> None:
        self._calls, self._clock = calls, clock
        self._most_finished, self._period_s, self._missed_for_s = most_finished, period_s, missed_for_s
        self._pods, self._nodes = calls.cache(PODS), calls.cache(NODES)
        self._missed_since: dict[str, float] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            try:
                await self.collect()
            except ApiError as error:
                log.info("pod collection: %s; again in %.0f s", error, self._period_s)

    async def collect(self) -> None:
        """Delete the pods that are due for garbage collection, once."""
        pods = list(self._pods.objects.values())
        for pod in surplus(pods, self._most_finished):
            await self._delete(pod)
        for pod in pods:
            if is_deleting(pod) and not pod["spec"].get("nodeName"):
                await self._delete(pod)
        lost = await self._lost_nodes({pod["spec"].get("nodeName") for pod in pods} - {None, ""})
        for pod in pods:
            if pod["spec"].get("nodeName") in lost:
                await self._fail(pod)
                await self._delete(pod)

    async def _lost_nodes(self, used: Iterable[str]) -> set[str]:
        """Return the nodes that have been missing from the cache long enough, and that the API server does not have
        either."""
        now_s, missing = self._clock(), {name for name in used if name not in self._nodes.objects}
        self._missed_since = {name: self._missed_since.get(name, now_s) for name in missing}
        due = [name for name, since_s in self._missed_since.items() if now_s - since_s >= self._missed_for_s]
        return {name for name in due if not await self._exists(name)}

    async def _exists(self, name: str) -> bool:
        try:
            await self._calls.get(NODES, name)
        except ApiRefusal as refusal:
            if refusal.code == 404:
                return False
            raise
        return True

    async def _fail(self, pod: Object) -> None:
        """Mark a pod of a lost node as failed. The condition DisruptionTarget tells its Job that the pod is not at
        fault."""
        if is_terminal(pod):
            return
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": write_moment(self._clock()),
        }
        body = {"status": {"phase": "Failed", "conditions": [target]}}
        try:
            await self._calls.patch(PODS, pod, body, subresource="status", content_type=STRATEGIC_PATCH)
        except ApiRefusal as refusal:
            if not gone(refusal):
                raise

    async def _delete(self, pod: Object) -> None:
        try:
            await self._calls.delete(PODS, pod, grace_s=0)
        except ApiRefusal as refusal:
            if not gone(refusal):
                raise


def surplus(pods: Iterable[Object], most: int) -> list[Object]:
    """Return the oldest finished pods beyond `most`, evicted ones first. Pods that are being deleted do not count."""
    finished = [pod for pod in pods if is_terminal(pod) and not is_deleting(pod)]
    if len(finished) <= most:
        return []
    finished.sort(key=_collection_order)
    return finished[: len(finished) - most]


def _collection_order(pod: Object) -> tuple[bool, float]:
    return pod["status"].get("reason") != "Evicted", seconds(pod["metadata"]["creationTimestamp"])
