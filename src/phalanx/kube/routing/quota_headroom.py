"""Check whether the ResourceQuotas of a gang's namespace admit its pods. Reserve quota for starting gangs, and retry
waiting gangs when quota is released.

Only Jobs are checked. Bare pods already exist, so the quotas have admitted them. Jobs that are placed pod by pod are
not checked either: some of their pods may start before the others, and the Job controller retries to create the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from phalanx.client.connection import Object
from phalanx.client.informer import Change
from phalanx.kube.capacity.resource_quota import PodQuotaUsage, QuotaDemand, ResourceQuotas, pod_quota_usage
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.lifecycle.stages import Starting, Waiting
from phalanx.kube.gang.seats.seat_table import GangSeats
from phalanx.kube.gang.spec.gang_spec import PodsToCreate
from phalanx.kube.gang.spec.members import JobPods
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.kube.routing.caches import ObjectCaches
from phalanx.model.reason import Reason, ReasonCode


class QuotaHeadroom:
    """The ResourceQuotas of all namespaces, and the amounts of quota that gangs have reserved. `limited`: the
    namespaces with a ResourceQuota."""

    def __init__(self, caches: ObjectCaches) -> None:
        self._quotas = ResourceQuotas()
        self.limited: Collection[str] = self._quotas.limited
        self._caches = caches
        self._pods: dict[str, dict[str, Object]] = {}  # namespace -> its pods, by uid

    def on_quota(self, change: Change) -> None:
        if change.new is not None:
            namespace = change.new["metadata"]["namespace"]
            self._quotas.see_quota(change.new, lambda: self._pods.get(namespace, {}).values())
        elif change.old is not None:
            self._quotas.lose_quota(change.old)

    def on_pod(self, change: Change) -> None:
        meta = (change.new or change.old or {})["metadata"]
        pods = self._pods.setdefault(meta["namespace"], {})
        if change.new is not None:
            pods[meta["uid"]] = change.new
            if meta["namespace"] in self.limited:
                self._quotas.see_pod(change.new)
            return
        pods.pop(meta["uid"], None)
        if not pods:
            del self._pods[meta["namespace"]]
        self._quotas.lose_pod(meta["namespace"], meta["uid"])

    def obstacle(self, needs: PodsToCreate) -> Reason | None:
        """Return why the ResourceQuotas of the namespace would refuse these pods now; None if they admit the pods."""
        namespace = needs[0][0].namespace if needs else ""
        return self._quotas.obstacle(namespace, self._demand(needs)) if namespace in self.limited else None

    def refusal(self, gang: GangLifecycle) -> Reason | None:
        """Return why the ResourceQuotas would refuse the gang's pods now; None if they admit the pods. This is called
        right before the gang is resumed, because another gang may have reserved the quota since the first check."""
        return self.obstacle(_needed(gang))

    def settle(self, gang: GangLifecycle) -> None:
        """Update the quota that is reserved for the gang, and the quota for which it waits. The caller calls this
        method whenever one of these amounts may have changed."""
        namespace = gang.id.partition("/")[0]
        if namespace not in self.limited:
            return
        promised: PodsToCreate = []
        if isinstance(gang.state, Starting) and gang.state.parts.start.record.gang:
            promised = _not_created(gang, gang.state.parts.start.seats)
        self._quotas.reserve(namespace, gang.id, self._demand(promised))
        blocked = gang.spec.job.blocked if isinstance(gang.state, Waiting) and gang.spec is not None else None
        waits = blocked is not None and blocked.code is ReasonCode.QUOTA
        self._quotas.wait(namespace, gang.id, self._demand(_needed(gang)) if waits else ())

    def unblocked_gangs(self) -> Iterable[str]:
        """Return the waiting gangs whose pods the quotas refused earlier and admit now."""
        return self._quotas.unblocked_gangs()

    def has_changes(self) -> bool:
        return self._quotas.has_changes

    def _demand(self, needs: PodsToCreate) -> QuotaDemand:
        return tuple((self._footprint(job), count) for job, count in needs if count > 0)

    def _footprint(self, job: BatchJob) -> PodQuotaUsage:
        obj = job.object_in(self._caches.objects(job.adapter.kind))
        spec = job.adapter.read(obj)["spec"]["template"]["spec"] if obj is not None else {}
        return pod_quota_usage(self._caches.admission.admitted(job.namespace, spec))


def _not_created(gang: GangLifecycle, seats: GangSeats) -> PodsToCreate:
    """Return pairs of each Job of a starting gang and the number of pods that the Job must still create to reach its
    minimum."""
    rows, jobs = ((row.source, row.least - row.taken) for row in seats.rows), gang.objects.jobs
    return [(jobs[source.uid], count) for source, count in rows if isinstance(source, JobPods) and source.uid in jobs]


def _needed(gang: GangLifecycle) -> PodsToCreate:
    """Return pairs of each suspended Job of a waiting gang and the minimum number of the Job's pods. Running Jobs are
    left out: their pods are assumed to exist already."""
    if gang.spec is None:
        return []
    rows = ((source, role.minimum) for role, source in zip(gang.spec.job.roles, gang.spec.sources, strict=True))
    suspended = {uid: job for uid, job in gang.objects.jobs.items() if job.suspended}
    return [(suspended[s.uid], count) for s, count in rows if isinstance(s, JobPods) and s.uid in suspended]
