"""One start of a gang. The module stores the core's decision and the state of the start, and sends events about the
start to the core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from phalanx.dialects.frame.dialect import PodUpdate
from phalanx.kube.gang.effects import NO_UPDATE, Effects, RoleStart
from phalanx.kube.gang.objects import GangObjects
from phalanx.kube.gang.seats.seat_table import GangSeats
from phalanx.kube.gang.spec.gang_spec import GangSpec
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.records import StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob, pod_set_names
from phalanx.model.event import Adopted
from phalanx.model.job import Outcome, Phase, Slot
from phalanx.model.plan import Start
from phalanx.model.pod import NodePreference
from phalanx.model.reason import Reason


class GangStart:
    """A start of a gang. `spec`: the spec with which the core planned the start. `phase`: the phase of the job as the
    core knows it. `since_s`: the time at which the start began or, if a pod has lost its planned node since then, the
    latest such time. `guarded_s`: the time until which the gang is not preempted because a PodDisruptionBudget protects
    it (0 if no budget does). `resuming`: Jobs whose resume request the API server has not answered yet, and bare pods
    that are being sent to another cluster. `leaving`: the slots of pods that the gang must give up, each with the
    reason. `updates`: a map from a pod set to the changes that this start makes to its pod template, without the
    changes for node flavors."""

    def __init__(
        self, effects: Effects, objects: GangObjects, spec: GangSpec, record: StartRecord, seats: GangSeats
    ) -> None:
        self.effects, self.objects, self.spec, self.record, self.seats = effects, objects, spec, record, seats
        self.id = objects.id
        self.phase = Phase.STARTING
        self.since_s = effects.now_s()
        self.guarded_s = 0.0
        self.resuming: set[str] = set()
        self.leaving: dict[Slot, Reason] = {}
        self.updates: Mapping[str, PodUpdate] = {}
        self._preference: NodePreference | None = None  # the preference that `prefer_nodes` has added

    @classmethod
    def planned(
        cls, effects: Effects, objects: GangObjects, spec: GangSpec, decided: Start, *, gang: bool
    ) -> GangStart:
        """Return the start that the core has decided. `gang`: True if all pods of the job's minimum must start
        together."""
        seats = GangSeats(spec.job.roles, spec.sources)
        record = StartRecord(
            attempt=decided.attempt,
            queue=spec.job.queue,
            count=seats.start(decided.placements, whole=gang),
            priority=spec.job.priority,
            at_s=decided.at_s or effects.now_s(),
            gang=gang,
            flavors=decided.flavors,
            limit_s=decided.limit_s,
            placed=len(decided.placements),
            cluster=spec.cluster_of(decided.placements),
        )
        return cls(effects, objects, spec, record, seats)

    def role_of(self, job: BatchJob, parallelism: int) -> RoleStart:
        """Return the part of this start that concerns the Job. `parallelism`: how many pods the Job may run."""
        return RoleStart(
            job=job,
            parallelism=parallelism,
            flavor=self._flavor_of(job),
            update=self.update_of(job),
            why_there=self._why_there,
        )

    @property
    def _why_there(self) -> str:
        """Return why the gang is sent to the chosen cluster and not to another one; empty if the gang starts in this
        cluster."""
        choice = self.spec.choice
        return choice.why(self.record.cluster) if choice is not None and self.record.cluster else ""

    @property
    def going_on(self) -> bool:
        """Return True if the start continues; False if it is being undone."""
        return self.phase is not Phase.STOPPING

    def _flavor_of(self, job: BatchJob) -> str:
        """Return the name of the node flavor that the pods of this Job get; empty if they get none."""
        role = self.seats.of_job.get(job.uid)
        return self.record.flavors[role] if role is not None and role < len(self.record.flavors) else ""

    def update_of(self, job: BatchJob) -> PodUpdate:
        """Return the changes to the template of this Job for this start."""
        if not self.updates:
            return NO_UPDATE
        return self.updates.get(pod_set_names(self.objects.jobs.values())[job.uid], NO_UPDATE)

    def short_member(self) -> str:
        """Return a text about a member Job that will not create all the pods that this start needs; "" if every Job
        will create them."""
        for row, least in self.seats.short_of_jobs():
            job = self.objects.jobs.get(row.job)
            if job is None or (job.finished and job.outcome is not Outcome.SUCCEEDED):
                return f"its member {row.role.name} {'was deleted' if job is None else 'ended'}"
            left = self.objects.size(job) if job.ours else 0
            if row.reached - row.bound + left < least and not self.objects.has_succeeded(job):
                return f"its member {row.role.name} now requests {left} pods instead of {least}"
        return ""

    def bare_pods(self) -> list[Pod]:
        """Return the bare pods that are bound, are being bound, or run in another cluster. The suspension of a Job does
        not end these pods."""
        queued = {job.uid for job in self.objects.jobs.values() if job.queued}
        bare = (pod for pod in self.objects.pods.values() if pod.owner is None or pod.owner[1] not in queued)
        return [pod for pod in bare if pod.node or self.on_its_way(pod) or self._runs_elsewhere(pod)]

    def _runs_elsewhere(self, pod: Pod) -> bool:
        """Return whether the pod runs in another cluster."""
        return bool(self.record.cluster) and pod.phase != "Pending"

    def unsent_pods(self) -> list[Pod]:
        """Return the bare pods that must still be sent to another cluster: they do not have the record of this start
        yet."""
        pods = self.objects.pods.values() if self.record.cluster else ()
        bare = (pod for pod in pods if self.objects.job_of(pod) is None and not pod.node and not pod.going)
        return [pod for pod in bare if not self.is_recorded(pod) and pod.uid not in self.resuming]

    def is_recorded(self, pod: Pod) -> bool:
        """Return whether the pod has the record of this start."""
        known = pod.record
        return known is not None and (known.attempt, known.at_s) == (self.record.attempt, self.record.at_s)

    def on_its_way(self, pod: Pod) -> bool:
        """Return whether the pod's binding was sent. The cached object of the pod may still lack the node."""
        seat = self.seats.of_pod.get(pod.uid)
        return seat is not None and (seat.sent or seat.bound)

    def prefer_nodes(self, preference: NodePreference | None) -> None:
        """Add this preference to the roles of this start, in place of the preference that an earlier call has added.
        The preference affects only pods that have no node yet."""
        for row in self.seats.rows:
            own = tuple(one for one in row.role.shape.preferences if one != self._preference)
            added = (preference,) if preference is not None else ()
            row.role = replace(row.role, shape=replace(row.role.shape, preferences=(*own, *added)))
        self._preference = preference
        if self.going_on:
            self.emit_full_state()

    def forbid_preemption(self) -> None:
        """Make the job unpreemptible for `guarded_s`, because a PodDisruptionBudget forbids its eviction."""
        self.guarded_s = self.effects.now_s() + self.effects.timeouts.guarded_s
        self.emit_full_state()

    def end_guard(self) -> None:
        """Make the job preemptible again if the time that `forbid_preemption` has set is over."""
        if self.effects.now_s() >= self.guarded_s:
            self.guarded_s = 0.0
            self.emit_full_state()

    def report_bound(self) -> None:
        """Report by an Event on which nodes the pods of the minimum were bound."""
        first = next(iter(self.objects.jobs.values()), None) or next(iter(self.objects.pods.values()), None)
        if first is None:
            return
        if self.record.cluster:
            self.effects.report(first, "Scheduled", f"Sent to cluster {self.record.cluster}")
            return
        nodes = [seat.machine for seat in self.seats.all() if seat.bound]
        where = nodes[0] if len(set(nodes)) == 1 else f"{len(set(nodes))} nodes"
        what = "its pod" if len(nodes) == 1 else f"its {len(nodes)} pods, together,"
        self.effects.report(first, "Scheduled", f"Bound {what} to {where}")

    def emit_full_state(self, phase: Phase | None = None) -> None:
        """Pass the full state of this started job to the core. `phase`: the phase to report; None for `self.phase`."""
        phase = phase or self.phase
        job = replace(self.spec.job, roles=self.seats.roles, blocked=None)
        if self.effects.now_s() < self.guarded_s:
            job = replace(job, preemptible=False)
        if job.limit_s is None:
            job = replace(job, limit_s=self.record.limit_s)
        flavors = self.record.flavors and (*self.record.flavors, *[""] * len(self.seats.rows))[: len(self.seats.rows)]
        self.effects.emit_event(
            Adopted(
                job,
                self.record.attempt,
                phase,
                self.seats.placements(),
                self.seats.wanting() if phase is not Phase.STOPPING else (),
                started_s=self.record.at_s,
                flavors=tuple(flavors),
                leaving=tuple(slot for slot in self.leaving if slot in self.seats and self.seats[slot].node),
            )
        )
