"""Return jobs to the queue if their cluster refuses them, does not answer, has evicted them or does not start them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phalanx.client.moment import write_moment
from phalanx.clusters.copies import content
from phalanx.clusters.copies.content import Sent
from phalanx.clusters.copies.sendable import Key
from phalanx.clusters.sending.sending_cluster import SendingCluster
from phalanx.clusters.workers.worker import Worker
from phalanx.kube.read.labels import REASON
from phalanx.model.reason import Reason, ReasonCode

AVOID_S = 600.0  # a cluster that could not run a job does not get it again for this time, if another one is ready
START_S = 300.0  # if a copy has not started within this time, the job is sent to another ready cluster
PATIENCE_S = 120.0  # a job that waits longer than this for a cluster to accept or delete its copy returns to the queue

Object = dict[str, Any]


class NotYet(Exception):
    """Raised if a job can be neither sent nor followed now. The caller tries again soon. The text states the reason.
    `cluster`: the cluster that causes the wait; "" for the cluster of the latest start."""

    def __init__(self, text: str = "", cluster: str = "") -> None:
        super().__init__(text)
        self.cluster = cluster


class JobReturns:
    """Returns jobs to the queue. `workers`: the clusters to which jobs are sent, by name."""

    def __init__(self, manager: SendingCluster, workers: Mapping[str, Worker], now_s: Callable[[], float]) -> None:
        self._manager, self._workers, self._now_s = manager, workers, now_s
        self._waits_s: dict[Key, float] = {}  # job -> when it began to wait for a cluster (seconds since the epoch)

    def settle(self, key: Key) -> None:
        """Record that the job does not wait for a cluster any more."""
        self._waits_s.pop(key, None)

    def endure(self, key: Key, sent: Sent | None, why: str, cluster: str = "") -> None:
        """Record that a job could be neither sent nor followed now. If this lasts for `PATIENCE_S`, the job returns to
        the queue with the reason `why`. But if the cluster of the latest start still has the copy, the job does not
        return to the queue and only gets an Event with `why`. `cluster`: see `NotYet`."""
        now_s = self._now_s()
        if now_s - self._waits_s.setdefault(key, now_s) < PATIENCE_S or sent is None or not why:
            return
        del self._waits_s[key]
        worker, report = self._workers.get(sent.cluster), self._manager.world.report
        copied = worker.job(key) if worker is not None else None
        if copied is None or "deletionTimestamp" in copied["metadata"] or not self._manager.is_present(copied, sent):
            self.back(sent, why, cluster)
        elif cluster not in ("", sent.cluster):
            report(sent.members[0], "MayRunTwice", f"{why}; until that copy is deleted, the job may run there, too")
        else:
            report(sent.members[0], "NotFollowed", f"the job's state in cluster {sent.cluster} is not known: {why}")

    def is_lost(self, worker: Worker) -> bool:
        state = worker.state
        return (
            state is not None and not state.active and self._now_s() - state.since_s >= self._manager.settings().lost_s
        )

    def return_if_lost(self, sent: Sent, worker: Worker | None) -> None:
        if worker is not None and not self.is_lost(worker):
            return
        since = "" if worker is None or worker.state is None else f" since {write_moment(worker.state.since_s)}"
        why = f"cluster {sent.cluster} cannot be reached{since}" if worker else f"cluster {sent.cluster} was removed"
        self.back(sent, f"{why}; the job may still run there, and is sent to another cluster")

    def return_if_stopped(self, job: Object, copied: Object, sent: Sent) -> None:
        """Return the job to the queue if the cluster has evicted it. Also return the job if the cluster has not started
        it within `START_S`, and another cluster is ready."""
        said = (copied["metadata"].get("annotations") or {}).get(REASON)
        why = f": {said}" if said else ""
        if sent.sendable.runs(job.get("status") or {}):
            self.back(sent, f"it was evicted on worker cluster {sent.cluster}{why}")
            return
        if not self._others(sent.cluster) or self._now_s() - content.made_s(copied, sent.record) < START_S:
            return
        self.back(sent, f"cluster {sent.cluster} has not started it within {START_S / 60:g} minutes{why}")

    def refuse(self, sent: Sent, why: str) -> None:
        self.back(sent, f"cluster {sent.cluster} cannot run it: {why}")

    def refuse_foreign(self, sent: Sent, key: Key) -> None:
        """Return the job to the queue, because the cluster has another object with the job's name."""
        self.refuse(sent, f"it has a {key.kind.name} of that name that this cluster did not send: {key.name}")

    def back(self, sent: Sent, text: str, cluster: str = "") -> None:
        """Return the job to the queue. If other clusters are ready, the job is not sent to `cluster` again for
        `AVOID_S`. An empty `cluster` means the cluster of the job's latest start."""
        why, cluster = Reason(code=ReasonCode.BACKOFF, text=text), cluster or sent.cluster
        avoid_s = {cluster: AVOID_S} if self._others(cluster) else {}
        self._manager.world.give_back(sent.gang, sent.record.attempt, why, avoid_s)

    def _others(self, cluster: str) -> list[Worker]:
        """Return the ready clusters except this one."""
        return [each for each in self._workers.values() if each.active and each.name != cluster]
