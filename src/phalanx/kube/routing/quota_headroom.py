"""Gangs against the quotas of their namespaces: who would be refused, who was promised what, who is to be asked again.

Only Jobs matter: bare pods exist, so they were admitted. Nor do jobs that are placed pod by pod: they were never to
start whole, and their Job controller tries again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from phalanx.client.connection import Object
from phalanx.client.informer import Change
from phalanx.client.kind import PODS, Kind
from phalanx.kube.capacity.resource_quota import PodQuotaUsage, QuotaDemand, ResourceQuotas, pod_quota_usage
from phalanx.kube.gang.effects import Stage
from phalanx.kube.gang.lifecycle import GangLifecycle
from phalanx.kube.gang.spec.gang_spec import JobPods, PodsToCreate
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.model.reason import Code, Reason


class QuotaHeadroom:
    """`objects(kind)`: what is known of that kind, by `namespace/name`."""

    def __init__(self, around: AdmissionDefaults, objects: Callable[[Kind], Mapping[str, Object]]) -> None:
        self.quotas = ResourceQuotas()
        self._around, self._objects = around, objects

    def on_quota(self, change: Change) -> None:
        if change.new is not None:
            self.quotas.see_quota(change.new, lambda: list(self._objects(PODS).values()))
        elif change.old is not None:
            self.quotas.lose_quota(change.old)

    def on_pod(self, change: Change) -> None:
        if change.new is not None:
            self.quotas.see_pod(change.new)
        elif change.old is not None:
            self.quotas.lose_pod(change.old["metadata"]["namespace"], change.old["metadata"]["uid"])

    def obstacle(self, needs: PodsToCreate) -> Reason | None:
        """Why the quotas of their namespace would not let these pods come to exist now, or None."""
        namespace = needs[0][0].namespace if needs else ""
        return self.quotas.obstacle(namespace, self._demand(needs)) if self.quotas.limited(namespace) else None

    def refusal(self, gang: GangLifecycle) -> Reason | None:
        """As `obstacle`, for a gang that is about to be resumed: others may have been promised the room since."""
        return self.obstacle(_missing(gang, begun=False))

    def settle(self, gang: GangLifecycle) -> None:
        """Take down what the gang was promised, or what it waits for. Called whenever it may have changed."""
        namespace = gang.id.partition("/")[0]
        if not self.quotas.limited(namespace):
            return
        starting = gang.stage is Stage.STARTING and gang.record is not None and gang.record.gang
        self.quotas.promise(namespace, gang.id, self._demand(_missing(gang, begun=True)) if starting else ())
        blocked = gang.spec.job.blocked if gang.stage is Stage.WAITING and gang.spec is not None else None
        waits = blocked is not None and blocked.code is Code.QUOTA
        self.quotas.wait(namespace, gang.id, self._demand(_missing(gang, begun=False)) if waits else ())

    def _demand(self, needs: PodsToCreate) -> QuotaDemand:
        return tuple((self._footprint(job), count) for job, count in needs if count > 0)

    def _footprint(self, job: BatchJob) -> PodQuotaUsage:
        obj = self._objects(job.adapter.kind).get(job.key)
        spec = job.adapter.read(obj)["spec"]["template"]["spec"] if obj is not None else {}
        return pod_quota_usage(self._around.admitted(job.namespace, spec))


def _missing(gang: GangLifecycle, *, begun: bool) -> PodsToCreate:
    """For each Job of the gang, how many pods of its minimum do not exist yet. Before its start (`begun` false) those
    of Jobs that run all the same are taken to exist."""
    if begun:
        rows = [(row.source, row.least - row.taken) for row in gang.seats.rows]
    elif gang.spec is not None:
        rows = [(source, role.minimum) for role, source in zip(gang.spec.job.roles, gang.spec.sources, strict=True)]
    else:
        rows = []
    known = {uid: job for uid, job in gang.jobs.items() if begun or job.suspended}
    return [(known[s.uid], count) for s, count in rows if isinstance(s, JobPods) and s.uid in known]
