"""The state of a cluster at one moment, and the plan that the scheduler would make."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from phalanx.cli.cluster.numbers.fetching import forecast_of
from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, NODES, PODS, Kind
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.gang_spec import GangDefaults
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.labels import REASON
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.model.event import Event
from phalanx.model.job import Phase
from phalanx.model.plan import Nominate, Place, Plan, Start, Wait
from phalanx.model.reason import Reason, ReasonCode, StartForecast
from phalanx.report.forecast import forecast
from phalanx.state.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a cluster at one moment, and the plan that the scheduler would make. `events`: the events from which
    the state was built. `gangs`: job id -> the objects of the job. `objects`: all listed objects, by kind and then by
    NAMESPACE/NAME. `wrong`: queue -> the errors in its definition. `now_s`: the time of the snapshot, in seconds since
    the epoch. `partial`: True if the user may read only one namespace. Then no decision is computed, and the reasons
    are those that the scheduler wrote into the objects. `numbers`: in a partial snapshot, job id -> the numbers that
    the scheduler publishes for the job's owner. `starts`: the expected starts of jobs, if they are already computed;
    None if they are computed on request. `reading`: the settings for reading Jobs in this cluster."""

    cluster: Cluster
    events: tuple[Event, ...]
    plan: Plan
    gangs: Mapping[str, GangLifecycle]
    objects: Mapping[Kind, Mapping[str, Object]]
    wrong: Mapping[str, str]
    now_s: float
    partial: bool = False
    numbers: Mapping[str, Object] = field(default_factory=dict)
    starts: Mapping[str, StartForecast] | None = None
    reading: tuple[AdmissionDefaults, GangDefaults] | None = None

    @property
    def jobs(self) -> Mapping[str, Object]:
        return self.objects[JOBS]

    @property
    def pods(self) -> Mapping[str, Object]:
        return self.objects[PODS]

    @property
    def nodes(self) -> Mapping[str, Object]:
        return self.objects[NODES]

    @property
    def queues(self) -> Mapping[str, Object]:
        return self.objects[QUEUES]

    def expected(self, jobs: Sequence[str]) -> Mapping[str, StartForecast]:
        """Return the expected starts of these queued jobs. A job is left out if its start cannot be forecast from run
        times and time limits."""
        if self.starts is not None:
            return {job: self.starts[job] for job in jobs if job in self.starts}
        if self.partial:
            told = {job: forecast_of(self.numbers[job]) for job in jobs if job in self.numbers}
            return {job: found for job, found in told.items() if found is not None}
        return forecast(self.cluster, self.cluster.policy, self.now_s, jobs)

    @property
    def nominated(self) -> set[str]:
        """Return the nominated jobs: jobs for which victims are preempted, and jobs whose nodes an autoscaler has
        promised. If nodes for a job are only requested, the job is left out, because the nodes may never arrive. Only
        the scheduler's own process nominates jobs to nodes that have not arrived. So the plan of this process shows
        such a job as waiting for capacity."""
        if self.partial:
            return set()
        waits = {action.job: action.reason for action in self.plan.actions if isinstance(action, Wait)}
        found = {action.job for action in self.plan.actions if isinstance(action, Nominate) and action.placements}
        requested = {job for job, reason in waits.items() if reason.code is ReasonCode.WAITING_FOR_NODES}
        short = {job for job, reason in waits.items() if reason.more_nodes_help and self._is_queued(job)}
        granted = self.cluster.columns.groups.granted
        return (found - (requested - granted)) | (short & granted)

    def _is_queued(self, job: str) -> bool:
        return self.cluster.jobs[job].phase is Phase.QUEUED

    @property
    def reasons(self) -> dict[str, Reason]:
        """Return job id -> why the job waits; for a running job, why its pods without a node wait."""
        if self.partial:
            written = {job: _written(gang, frozenset(ReasonCode)) for job, gang in self.gangs.items()}
            told = {job: _told(each) for job, each in self.numbers.items() if job in self.gangs}
            both = {job: written[job] or told.get(job) for job in written}
            return {job: reason for job, reason in both.items() if reason is not None}
        found = {action.job: action.reason for action in self.plan.actions if isinstance(action, Wait)}
        return {**self.resting, **found, **self._of_requested_nodes(found)}

    def _of_requested_nodes(self, found: Mapping[str, Reason]) -> dict[str, Reason]:
        """Return the reasons about requested nodes that the scheduler wrote on the Jobs. Only the scheduler knows these
        requests. `found`: the computed reasons, which do not mention them."""
        gangs = ((job, reason, self.gangs.get(job)) for job, reason in found.items() if reason.more_nodes_help)
        written = {
            job: _written(gang, {ReasonCode.WAITING_FOR_NODES, reason.code})
            for job, reason, gang in gangs
            if gang is not None
        }
        return {job: reason for job, reason in written.items() if reason is not None and _REQUESTED in reason.text}

    @property
    def resting(self) -> dict[str, Reason]:
        """Return job id -> the reason that the scheduler wrote, for jobs that do not start although they could start
        now according to their objects. For example, such a job backs off."""
        starts = [action.job for action in self.plan.actions if isinstance(action, Start)]
        return {job: reason for job in starts if (reason := _written(self.gangs[job])) is not None}

    @property
    def starting(self) -> dict[str, Start | Place]:
        """Return job id -> the start or placement that the scheduler will make next."""
        if self.partial:
            return {}
        resting = self.resting
        return {
            action.job: action
            for action in self.plan.actions
            if isinstance(action, Start | Place) and not (isinstance(action, Start) and action.job in resting)
        }


# this text occurs in the scheduler's reasons about requested nodes and about failed requests
_REQUESTED = ", requested at "


def _told(numbers: Object) -> Reason | None:
    """Return the reason in the numbers that the scheduler publishes about a job. This reason names no other job."""
    found = numbers.get("reason")
    return Reason(code=ReasonCode(found["code"]), text=found["message"], numbers=found["numbers"]) if found else None


def _written(
    gang: GangLifecycle, codes: Collection[ReasonCode] = frozenset({ReasonCode.BACKOFF, ReasonCode.QUOTA})
) -> Reason | None:
    for job in gang.objects.jobs.values():
        code, _, text = job.options.get(REASON, "").partition(": ")
        if code in {str(one) for one in codes} and job.suspended:
            return Reason(code=ReasonCode(code), text=text)
    return None
