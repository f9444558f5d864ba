"""Take a snapshot of a live cluster, and compute the decisions of the next scheduling cycle, for commands such as
`explain` and `jobs`.

The objects are listed once. The scheduler's own code reads them and builds the cluster state from them, and the
scheduler's function `decide` runs on this state. So the numbers in a reason are current, and are the ones that the
scheduler would report. Nothing is written. Some facts exist only in the scheduler's memory, for example that a job
backs off after a failed start. Such facts are read from the reason that the scheduler wrote on the Job.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from phalanx.cli.cluster.informers import Informers
from phalanx.cli.cluster.jobs.attending import is_silent, with_events
from phalanx.cli.cluster.numbers.fetching import fetch_reasons, forecast_of
from phalanx.cli.files.policy_file import PolicySettings as Policies
from phalanx.cli.files.policy_file import settings_from
from phalanx.client.connection import ApiRefusal, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import EVENTS, JOBS, LEASES, NODES, PODS, Kind
from phalanx.clusters.choices import FiguredClusters
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.dialects.kueue.kinds import MULTI_CLUSTERS
from phalanx.errors import PhalanxError
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.gang.spec.gang_spec import GangDefaults, claim_on
from phalanx.kube.gang.spec.members import GangMembers
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.leader import NAME, NAMESPACE
from phalanx.kube.read.labels import POLICY, QUEUE, REASON
from phalanx.kube.read.template.admission import AdmissionDefaults
from phalanx.kube.read.wire import epoch_s
from phalanx.kube.read.workload.adapter import JobAdapter
from phalanx.kube.read.workload.batch_job import read_job
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.status.usage import load_usage
from phalanx.kube.world.capacity_sources import CapacitySources
from phalanx.kube.world.kube_world import KubeWorld
from phalanx.ledger.store import Ledger, LedgerError
from phalanx.ledger.usage import MOST, past_runs, with_past_runs
from phalanx.model.event import Event, PolicySeen, QueueSeen, RunTold, Ticked
from phalanx.model.job import Phase
from phalanx.model.plan import Nominate, Place, Plan, Start, Wait
from phalanx.model.policy import Policy
from phalanx.model.reason import Reason, ReasonCode, StartForecast
from phalanx.report.forecast import forecast
from phalanx.state.cluster import Cluster

_LISTING_S = 60.0
_SILENT_S = 10.0  # if a pod with a node has not started within this time, its Events are read
_SILENT_PODS = 20  # the largest number of pods whose Events are read
_ACCESS = Kind(
    group="authorization.k8s.io", plural="selfsubjectaccessreviews", name="SelfSubjectAccessReview", namespaced=False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a cluster at one moment, and the plan that the scheduler would make. `events`: the events from which
    the state was built. `gangs`: job id -> the objects of the job. `objects`: all listed objects, by kind and then by
    NAMESPACE/NAME. `wrong`: queue -> the errors in its definition. `now_s`: the time of the snapshot, in seconds since
    the epoch. `partial`: True if the user may read only one namespace; then no decision is computed, and reasons are
    those that the scheduler wrote. `numbers`: in a partial snapshot, job id -> the figures that the scheduler publishes
    for the job's owner. `starts`: the known expected starts; None if they are computed on request. `reading`: the
    settings by which Jobs are read in this cluster."""

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
        """Return the expected starts of these queued jobs. Jobs whose start cannot be foreseen from run times and time
        limits are left out."""
        if self.starts is not None:
            return {job: self.starts[job] for job in jobs if job in self.starts}
        if self.partial:
            told = {job: forecast_of(self.numbers[job]) for job in jobs if job in self.numbers}
            return {job: found for job, found in told.items() if found is not None}
        return forecast(self.cluster, self.cluster.policy, self.now_s, jobs)

    def queue_of(self, form: JobAdapter, obj: Object) -> str | None:
        """Return the queue of an object, also if a label of another scheduler names it; None if the object is in no
        queue. `form`: the adapter that reads this kind of object as a Job."""
        said = (obj["metadata"].get("labels") or {}).get(QUEUE)
        if said is not None or self.reading is None:
            return said
        admission, defaults = self.reading
        job = read_job(obj, admission, form)
        if not job.queued:
            return None
        claim = claim_on(GangMembers(id=job.key, jobs=[job], pods=()), defaults)
        return (claim.queue if claim is not None else job.options.get(QUEUE)) or defaults.default_queue

    @property
    def nominated(self) -> set[str]:
        """Return the nominated jobs: jobs for which victims are preempted, and jobs whose nodes an autoscaler has
        promised. A job whose nodes are only requested is left out, because the nodes may never arrive. The plan of this
        process shows a job with promised nodes as waiting for capacity, because only the scheduler's own process
        nominates jobs to nodes that have not arrived."""
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
        """Return job id -> the reason that the scheduler wrote, for jobs that would start now according to their
        objects, but do not (because they back off, for example)."""
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
    """Return the reason in the figures that the scheduler publishes. This reason names no other job."""
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


async def look(connection: Connection, namespace: str = "", ledger: str | None = None) -> Snapshot:
    """Return a snapshot of the cluster, or of `namespace` alone if the user may not list the whole cluster. `ledger`:
    the URL of the cluster's ledger, from which the run times of deleted jobs are read.

    Raises PhalanxError if Phalanx is not installed in the cluster, or if the user may list neither the cluster nor the
    namespace."""
    partial = not await may_see_all(connection)
    if partial and not namespace:
        raise PhalanxError(
            "this needs the right to list the jobs of all namespaces, which you do not have. Nothing was shown. "
            "`phalanx "
            "jobs` shows the jobs of your namespace, `kubectl get queues` the queues."
        )
    if partial and not await _may_see(connection, namespace):
        raise PhalanxError(f"you may not see what is in namespace {namespace}. Nothing was shown.")
    if partial:  # the log would warn about each kind of object that the user may not list
        logging.getLogger("phalanx.kube").setLevel(logging.ERROR)
    await require_queues(connection)
    settings = await settings_of_leader(connection)
    policy = settings.policy
    if settings.function:
        logging.getLogger(__name__).warning(
            "the scheduler computes priorities with %s, which this command cannot call: in queues ordered by "
            "multifactor, positions and expected starts may differ",
            settings.function,
        )
    async with asyncio.TaskGroup() as group:
        informers = Informers(connection, group, namespace=namespace if partial else "")
        how = KubeSettings(default_queue=policy.default_queue, dialects=settings.dialects, patient=False)
        sources = CapacitySources(clusters=FiguredClusters(lambda: clusters_in(world)))
        world = KubeWorld(connection, informers, how, time.time, sources=sources)
        try:
            async with asyncio.timeout(_LISTING_S):
                await world.sync(load_usage(connection))
        except TimeoutError as error:
            raise not_listed(connection, _LISTING_S) from error
        snapshot = think(world, informers, time.time(), policy, past_runs_of(ledger))
        informers.stop()
    told = await fetch_reasons(connection, namespace) if partial else {}
    objects = {**snapshot.objects, PODS: await _with_events(connection, snapshot.pods, snapshot.now_s)}
    return replace(snapshot, partial=partial, numbers=told, objects=objects)


def clusters_in(world: KubeWorld) -> Mapping[str, Object]:
    """Return the MultiKueueClusters by name; empty if this kind is not watched."""
    return world.caches.objects(MULTI_CLUSTERS) if world.caches.watches(MULTI_CLUSTERS) else {}


async def _with_events(connection: Connection, pods: Mapping[str, Object], now_s: float) -> Mapping[str, Object]:
    """Return the pods. If a pod has not started for `_SILENT_S`, the cause from its Events is added to its status."""
    late = [key for key, pod in pods.items() if is_silent(pod) and now_s - _begun_s(pod) > _SILENT_S][:_SILENT_PODS]
    events = await asyncio.gather(*(_events_of(connection, pods[key]) for key in late))
    return {**pods, **{key: with_events(pods[key], found) for key, found in zip(late, events, strict=True)}}


def _begun_s(pod: Object) -> float:
    return epoch_s((pod.get("status") or {}).get("startTime") or pod["metadata"].get("creationTimestamp"))


async def _events_of(connection: Connection, pod: Object) -> list[Object]:
    """Return the Events about a pod; empty if the user may not list them."""
    meta = pod["metadata"]
    try:
        found = await connection.list(EVENTS, meta["namespace"], fieldSelector=f"involvedObject.uid={meta['uid']}")
    except ApiRefusal:
        return []
    return list(found["items"])


def not_listed(connection: Connection, after_s: float) -> PhalanxError:
    """Return the error for a server that did not list all objects within `after_s` seconds."""
    return PhalanxError(
        f"{connection.server} did not list pods, Jobs, nodes and queues within {after_s:g} s. Nothing was shown. "
        "Check that you may list all of them: kubectl auth can-i list pods -A"
    )


async def seen_namespace(connection: Connection, namespace: str) -> str:
    """Return "" if the user may list the jobs of all namespaces; otherwise `namespace`. Raises PhalanxError if the user
    may list neither."""
    if await _may_see(connection, ""):
        return ""
    if namespace and await _may_see(connection, namespace):
        return namespace
    raise PhalanxError(
        f"you may list jobs neither in all namespaces nor in {namespace or 'the named one'}. Nothing "
        "was shown. Name a namespace whose jobs you may list with -n."
    )


def past_runs_of(ledger: str | None) -> Sequence[RunTold]:
    """Return the run times of past jobs in the ledger. The result is empty without a ledger, or if it cannot be read;
    then expected starts are computed from the objects alone."""
    try:
        if ledger is None:
            return ()
        with Ledger.open(ledger, read_only=True) as book:
            return tuple(past_runs(book.ended(MOST)))
    except LedgerError as error:
        logging.getLogger(__name__).info("run times are not read from the ledger: %s", error)
        return ()


async def may_see_all(connection: Connection) -> bool:
    """Return True if the user may list the jobs of all namespaces, or if the server cannot tell."""
    return await _may_see(connection, "")


async def may_list(connection: Connection, namespace: str) -> bool:
    """Return True if this user may list the pods and the Jobs of the namespace ("": of all namespaces). Raises
    ApiError."""
    for kind in (PODS, JOBS):
        what = {"verb": "list", "group": kind.group, "resource": kind.plural, "namespace": namespace}
        body = {"apiVersion": _ACCESS.api_version, "kind": _ACCESS.name, "spec": {"resourceAttributes": what}}
        if (((await connection.create(_ACCESS, body)).get("status")) or {}).get("allowed") is not True:
            return False
    return True


async def _may_see(connection: Connection, namespace: str) -> bool:
    """Return the result of `may_list`. If the server does not serve access reviews, return True, so that the caller
    tries to list the objects."""
    try:
        return await may_list(connection, namespace)
    except ApiRefusal:
        return True


async def settings_of_leader(connection: Connection) -> Policies:
    """Return the policy settings of the scheduler that holds the Lease. The scheduler writes them into an annotation of
    the Lease."""
    try:
        lease = await connection.get(LEASES, NAME, NAMESPACE)
    except ApiRefusal:
        return settings_from("")
    return settings_from((lease["metadata"].get("annotations") or {}).get(POLICY, ""))


def think(
    world: KubeWorld,
    informers: Callable[[Kind], Informer],
    now_s: float,
    policy: Policy | None = None,
    runs: Sequence[RunTold] = (),
    usage: Sequence[Event] = (),
    *,
    partial: bool = False,
    decides: bool = True,
) -> Snapshot:
    """Build the cluster state from the events of the world, the past runs `runs` and the past usage `usage`, decide on
    it, and return the snapshot. Writes of the world are never sent, because its writer does not run. `decides`: False
    for a snapshot without a decision, which is then partial."""
    cluster, policy = Cluster(), policy or Policy()
    told = list(world.events())
    known = max((at for at, event in enumerate(told, 1) if isinstance(event, QueueSeen)), default=0)
    events = tuple(with_past_runs([*told[:known], *usage, *told[known:]], runs))
    fold(cluster, (PolicySeen(policy), Ticked(now_s), *events))
    plan = decide(cluster, policy, now_s).plan if decides else Plan()
    sent = {gang.id for gang in world.gangs.values() if gang.elsewhere is not None}
    places = tuple(each for each in plan.actions if isinstance(each, Place) and each.job in sent)
    # Pods of these jobs are in other clusters, and no object of this cluster names their nodes.
    fold_plan(cluster, Plan(actions=places))
    kinds = (JOBS, PODS, NODES, QUEUES, *sorted(world.caches.served, key=lambda kind: kind.plural))
    return Snapshot(
        cluster=cluster,
        events=events,
        plan=plan,
        gangs=world.gangs,
        objects={kind: dict(informers(kind).objects) for kind in kinds},
        wrong=dict(world.queues.wrong),
        now_s=now_s,
        partial=partial or not decides,
        reading=(world.caches.admission, world.watch.defaults),
    )


async def require_queues(connection: Connection) -> None:
    try:
        await connection.list(QUEUES)
    except ApiRefusal as error:
        if error.code != 404:
            raise
        raise PhalanxError(
            f"the cluster at {connection.server} knows no queues, so Phalanx is not installed there. Start `phalanx "
            "scheduler` for it, or a cluster on this machine with `phalanx up`."
        ) from error
