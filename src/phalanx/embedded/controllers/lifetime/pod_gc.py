"""Delete pods that no other component deletes: surplus finished pods, pods of lost nodes, and terminating pods without
a node.

A node that seems to be missing may appear soon: the watch may lag, or a new virtual machine may get the name of the
node. So the controller waits for a while, and reads the node once more. If the node is still missing, the controller
marks its pods as failed and deletes them (k8s.io/kubernetes/pkg/controller/podgc).

`TtlController` deletes a finished Job with its pods `ttlSecondsAfterFinished` seconds after the end of the Job
(KEP-592)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from phalanx.client.connection import STRATEGIC_PATCH, ApiError, ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import JOBS, NODES, PODS
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.runtime.calls import Calls, Clock, gone
from phalanx.embedded.controllers.runtime.pod_state import condition, is_deleting, is_terminal, seconds
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue

log = logging.getLogger(__name__)

# the quarantineTime of Kubernetes' podgc. `NodeHealth` handles nodes that exist but have stopped reporting.
_MISSED_FOR_S = 40.0


class PodCollector:
    """The collector of pods; call `run`. `most_finished`: the maximum number of finished pods; above it, the oldest
    finished pods are deleted."""

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
            await self.collect()

    async def collect(self) -> None:
        """Delete all pods that are due for garbage collection now."""
        pods = list(self._pods.objects.values())
        for pod in surplus(pods, self._most_finished):
            await self._collect(pod)
        for pod in pods:
            if is_deleting(pod) and not pod["spec"].get("nodeName"):
                await self._collect(pod)
        lost = await self._lost_nodes({pod["spec"].get("nodeName") for pod in pods} - {None, ""})
        for pod in pods:
            if pod["spec"].get("nodeName") in lost:
                await self._collect(pod, is_lost=True)

    async def _collect(self, pod: Object, *, is_lost: bool = False) -> None:
        """Delete the pod. `is_lost`: True to mark the pod as failed before its deletion. As in Kubernetes, an error is
        only logged, so that all other pods are still collected."""
        try:
            if is_lost:
                await self._fail(pod)
            await self._delete(pod)
        except ApiError as error:
            log.info("pod %s is not collected: %s; again in %.0f s", key_of(pod), error, self._period_s)

    async def _lost_nodes(self, used: Iterable[str]) -> set[str]:
        """Return the lost nodes among the nodes that pods name. A lost node has been missing in the cache for long
        enough, and does not exist at the API server either."""
        now_s, missing = self._clock(), {name for name in used if name not in self._nodes.objects}
        self._missed_since = {name: self._missed_since.get(name, now_s) for name in missing}
        due = [name for name, since_s in self._missed_since.items() if now_s - since_s >= self._missed_for_s]
        return {name for name in due if not await self._exists(name)}

    async def _exists(self, name: str) -> bool:
        try:
            await self._calls.get(NODES, name)
        except ApiError as error:
            if isinstance(error, ApiRefusal) and error.code == 404:
                return False
            log.info("node %s: %s; again in %.0f s", name, error, self._period_s)
        return True

    async def _fail(self, pod: Object) -> None:
        """Mark a pod of a lost node as failed. The condition DisruptionTarget indicates to the Job controller that the
        pod did not fail by itself."""
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
    """Return the finished pods above the maximum `most`: evicted pods first, then the oldest pods. Pods that are being
    deleted do not count."""
    finished = [pod for pod in pods if is_terminal(pod) and not is_deleting(pod)]
    if len(finished) <= most:
        return []
    finished.sort(key=_collection_order)
    return finished[: len(finished) - most]


def _collection_order(pod: Object) -> tuple[bool, float]:
    return pod["status"].get("reason") != "Evicted", seconds(pod["metadata"]["creationTimestamp"])


class TtlController:
    """The controller of the time to live of finished Jobs. Call `start`, then run `queue`."""

    def __init__(self, calls: Calls, *, retry: Retry | None = None, clock: Clock = time.time) -> None:
        self._calls, self._clock = calls, clock
        self._jobs = calls.cache(JOBS)
        self.queue = WorkQueue("job ttl", self._look, workers=5, retry=retry)

    def start(self) -> None:
        self._jobs.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.new is not None and (expires_s := expiry(change.new)) is not None:
            self.queue.add_after(key_of(change.new), expires_s - self._clock())

    async def _look(self, key: str) -> None:
        job = self._jobs.objects.get(key)
        expires_s = expiry(job) if job is not None else None
        if job is None or expires_s is None:
            return
        if (left_s := expires_s - self._clock()) > 0:
            self.queue.add_after(key, left_s)
            return
        try:  # delete only this resourceVersion: a user may have increased the time to live in the meantime
            await self._calls.delete(JOBS, job, policy="Foreground", exact=True)
        except ApiRefusal as refusal:
            if refusal.code == 409:
                await self._calls.get(JOBS, job["metadata"]["name"], job["metadata"]["namespace"])
                self.queue.add_after(key, 0.05)
            elif refusal.code != 404:
                raise


def expiry(job: Object) -> float | None:
    """Return the time at which the finished Job is deleted, in seconds since the epoch; None: never, or not yet
    known."""
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    if ttl_s is None or is_deleting(job):
        return None
    for kind in ("Complete", "Failed"):
        entry = condition(job, kind)
        if entry is not None and entry.get("status") == "True" and entry.get("lastTransitionTime"):
            return seconds(entry["lastTransitionTime"]) + float(ttl_s)
    return None
