"""Build the `model.Job` of one gang from its member objects.

A gang has one of five forms (docs/guide/kubernetes.md shows each of them):

- One Job. Its gang has one role, with as many pods as the Job can run at once.
- Several objects with the same `phalanx.dev/job`. Each object is one role. The gang is complete when it has as many
  objects as `phalanx.dev/job-roles` states.
- Bare pods (pods without a Job) with the same `phalanx.dev/job`. There is one role for each shape, and the gang is
  complete when there are `phalanx.dev/min-available` pods. If a driver creates the other pods, the amounts of the whole
  gang are set by `phalanx.dev/min-resources` instead, and capacity is reserved for the missing pods.
- Bare pods that another scheduler's object declares as a gang (`GroupClaim`). The gang is complete when there are as
  many pods as the object's minimum. If the object declares larger amounts than the existing pods request, the
  difference is reserved.
- A bare pod without any of these labels. It is a job of one pod.

`gang_spec` is a pure function of the members. If members contradict each other, the resulting job is `blocked`, with a
message about what the user must change. Phalanx never guesses the size of a gang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, TypeAlias

from phalanx.dialects.frame.dialect import Charging, Claim, GroupClaim, Owner, PodUpdate, Said
from phalanx.dialects.job_kinds.form import LATER
from phalanx.dialects.schema.fields import duration_s
from phalanx.kube.gang.spec.blocked import missing_members, obstacle
from phalanx.kube.gang.spec.declared_roles import (
    ANY_ONE,
    GangSpecError,
    equal_pieces,
    grouped_role,
    groups_in_use,
    read_resources,
    remaining_resources,
)
from phalanx.kube.gang.spec.elsewhere import Choose, ClusterChoice, Sought, any_cluster, cluster_of_all, confined
from phalanx.kube.gang.spec.job_options import closeness, job_options, options_of, read_option, single_value
from phalanx.kube.gang.spec.members import (
    BarePods,
    FuturePods,
    GangMembers,
    JobPods,
    PodSource,
    number_of,
    pods_by_role,
    read_count,
)
from phalanx.kube.read import labels
from phalanx.kube.read.pod import Pod
from phalanx.kube.read.workload.batch_job import ELSEWHERE, BatchJob
from phalanx.model.job import Group, Job, Placement, Role
from phalanx.model.node import TopologyRequest
from phalanx.model.pod import Amounts, Shape
from phalanx.model.reason import Reason, ReasonCode

_NOT_SENT = ("TrainJob", "SparkApplication")  # kinds that no other cluster runs (docs/guide/several-clusters.md)


NO_ROLES: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSpec:
    """The core's job of a gang, with the settings that only the gang's life cycle needs. `sources`: for each role in
    `job.roles`, what creates its pods (a Job, a driver, or neither). `gated`: True if a start waits for the permission
    of the gang's dialect after the core has granted nodes. `updates`: by pod set, the changes that a start makes to the
    pod templates, as far as they are known before the start. `led`: True if one pod creates the other pods and replaces
    lost pods. `sent`: True if another cluster runs the gang. `choice`: the clusters that may run it, with their ranks.
    `staleness_grace_s`: how long the gang may run with fewer bare pods than its minimum (0: no limit); None for the
    queue's setting. `counted`: True if the number of pods that start together is declared. Bare pods that are created
    later than the start then do not count towards this number. `evicted_as`, `charging`, `note`, `hold_s`: the same
    fields of the gang's `Claim` (the settings that a dialect declares for the gang)."""

    job: Job
    sources: tuple[PodSource, ...]
    gated: bool = False
    led: bool = False
    counted: bool = False
    sent: bool = False
    choice: ClusterChoice | None = None
    updates: Mapping[str, PodUpdate] = field(default_factory=dict)
    staleness_grace_s: float | None = None
    evicted_as: tuple[str, str] | None = None
    charging: Charging | None = None
    note: tuple[str, bool] = ("", False)
    hold_s: float | None = None

    def cluster_of(self, placements: Sequence[Placement]) -> str:
        """Return the other cluster in which these placements are; empty if they are in this cluster."""
        return cluster_of_all(placements) if self.sent else ""


PodsToCreate: TypeAlias = Sequence[tuple[BatchJob, int]]  # pairs of a Job and the number of its missing pods
LargestNode: TypeAlias = Callable[[], Mapping[str, int]]  # returns the largest amount of each resource on any node
# (an object's record of its submission in another cluster, its uid, its creation time) -> the time of its submission
SubmissionTime: TypeAlias = Callable[[str, str, float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangDefaults:
    """The defaults of all gangs. Most are functions. `default_queue`: the queue of jobs that name no queue. `gang`:
    returns whether a queue starts its jobs as gangs. `start_timeout_s`: returns how long the pods of a queue's jobs may
    take to become ready. `staleness_grace_s`: returns how long a gang of a queue may run with too few bare pods.
    `largest`: returns the largest amount of each resource on any node now. `headroom`: returns why ResourceQuotas would
    refuse those pods of these Jobs that do not exist yet. `claim`: returns the settings that a dialect declares for a
    gang. `dialects`: True if any dialect is enabled. `submitted_s`: returns when an object was submitted. `choose`:
    returns the clusters to which a gang may be sent."""

    default_queue: str = "default"
    gang: Callable[[str], bool] = lambda queue: True
    start_timeout_s: Callable[[str], float | None] = lambda queue: None
    staleness_grace_s: Callable[[str], float] = lambda queue: 0.0
    largest: LargestNode
    headroom: Callable[[PodsToCreate], Reason | None] = lambda needs: None
    claim: Callable[[Said], Claim | None] = lambda said: None
    dialects: bool = False
    submitted_s: SubmissionTime = lambda text, uid, created_s: created_s
    choose: Choose = any_cluster


RoleSource: TypeAlias = tuple[Role, PodSource]


def gang_spec(members: GangMembers, defaults: GangDefaults) -> GangSpec:
    """Return the job that these members (at least one) form. Errors are not raised, but stored in `job.blocked`."""
    blocked, rows, queue, said, sent = None, [], defaults.default_queue, dict[str, Any](), False
    claim: Claim | None = None
    chosen: ClusterChoice | None = None
    grace_s: float | None = None
    try:
        queue = single_value(members, labels.QUEUE, defaults.default_queue)
        claim = defaults.claim(_to_claim(members, queue)) if defaults.dialects else None
        if claim is not None:
            queue = claim.queue or defaults.default_queue
            members = replace(members, claimed=claim.options, declared=claim.roles, group=claim.group)
        said = _said(members)
        grace_s = _staleness_grace_s(members, claim)
        whole = defaults.gang(queue)
        rows = _rows(members, whole, defaults.largest)
        if sent := _is_sent(members, claim):
            chosen = defaults.choose(_sought(members, claim, rows, said))
            rows = [(confined(role, chosen.clusters), source) for role, source in rows]
            said |= {"closeness": chosen.closeness, "groups": ()}
        if claim is not None and claim.charging is not None:
            rows = [(replace(role, shape=charged(role.shape, claim.charging)), source) for role, source in rows]
        if members.declared:
            said["groups"] = groups_in_use(said.get("groups", ()), [role.group for role, _ in rows])
        if any(role.group == ANY_ONE for role, _ in rows):
            said["groups"] = (*said.get("groups", ()), Group(name=ANY_ONE, minimum=1))
        blocked = obstacle(members) or (None if claim is None else claim.blocked)
        if blocked is None and whole:
            here = () if sent else _needs(members, rows)
            blocked = missing_members(members) or defaults.headroom(here)
        blocked = blocked or (chosen.blocked if chosen is not None else None)
    except GangSpecError as error:
        blocked = Reason(code=ReasonCode.INVALID, text=str(error))
    job = Job(
        id=members.id,
        queue=queue,
        roles=tuple(role for role, _ in rows),
        priority=_priority(members) if claim is None or claim.priority is None else claim.priority,
        submitted_s=_submitted_s(members, claim, defaults.submitted_s),
        blocked=blocked,
        account=claim.account if claim is not None else "",
        **said,
    )
    led = members.group is not None and bool(members.group.whole)
    counted = any((members.group, members.declared, *(labels.MIN_AVAILABLE in pod.options for pod in members.pods)))
    sources = tuple(source for _, source in rows)
    spec = GangSpec(
        job=job, sources=sources, led=led, counted=counted, sent=sent, choice=chosen, staleness_grace_s=grace_s
    )
    if claim is None:
        return spec
    return replace(
        spec,
        gated=claim.gate is not None,
        updates=claim.updates,
        evicted_as=claim.evicted_as,
        charging=claim.charging,
        note=claim.note,
        hold_s=claim.hold_s,
    )


def _is_sent(members: GangMembers, claim: Claim | None) -> bool:
    """Return whether the gang runs in another cluster. The field `managedBy` of a Job states whether another cluster
    runs it. Bare pods do not have this field. So a queue that sends jobs to other clusters sends all of its bare pods.
    Raises GangSpecError if only some of the members stay in this cluster, if all of them stay although the queue sends
    its jobs to other clusters, or if a member is of a kind that cannot be sent."""
    sends = claim is not None and claim.clusters is not None
    if sends and not members.jobs:
        return True
    if stays := next((job for job in members.jobs if job.adapter.kind.name in _NOT_SENT and (sends or job.sent)), None):
        raise GangSpecError(
            f"{stays.name} is a {stays.adapter.kind.name}, which cannot be sent to another cluster: give it a queue "
            "that keeps its jobs in this cluster, and remove spec.managedBy"
        )
    kept = [job.name for job in members.jobs if not job.sent] + [pod.name for pod in members.pods]
    if len(kept) == len(members.everyone):
        if sends:
            raise GangSpecError(
                f"its queue sends jobs to other clusters, but {kept[0]} stays in this cluster: create it with "
                f"spec.managedBy {ELSEWHERE}"
            )
        return False
    if kept:
        raise GangSpecError(
            f"{kept[0]} stays in this cluster, and other members of {members.id} do not: set the same managedBy on all"
        )
    return True


def _sought(members: GangMembers, claim: Claim | None, rows: Sequence[RoleSource], said: Mapping[str, Any]) -> Sought:
    return Sought(
        gang=members.id,
        options={key: value for member in reversed(members.everyone) for key, value in member.options.items()},
        roles=tuple(role for role, _ in rows),
        priority=_priority(members) if claim is None or claim.priority is None else claim.priority,
        limit_s=said.get("limit_s"),
        clusters=claim.clusters if claim is not None else None,
    )


def _submitted_s(members: GangMembers, claim: Claim | None, submitted_s: SubmissionTime) -> float:
    if claim is not None and claim.submitted_s is not None:
        return claim.submitted_s
    return min(
        submitted_s(each.options[labels.SUBMITTED], _object_uid(each), each.created_s)
        if labels.SUBMITTED in each.options
        else each.created_s
        for each in members.everyone
    )


def _object_uid(member: BatchJob | Pod) -> str:
    return member.object_uid if isinstance(member, BatchJob) else member.uid


def charged(shape: Shape, charging: Charging | None) -> Shape:
    """Return the shape with the amounts that count against quotas, as the function `charging` computes them. If these
    amounts equal the pod's requests, return the shape unchanged."""
    counted = shape.requests if charging is None else charging(shape.requests)
    return shape if counted == shape.requests else replace(shape, charged=counted)


def claim_on(members: GangMembers, defaults: GangDefaults) -> Claim | None:
    """Return the settings that a dialect declares for the gang (its claim), even if the gang has already started.
    Return None if no dialect claims the gang, or if its members contradict each other."""
    try:
        queue = single_value(members, labels.QUEUE, defaults.default_queue)
    except GangSpecError:
        return None
    return defaults.claim(_to_claim(members, queue))


def allows(claim: Claim, cluster: str) -> bool:
    """Return whether the claim (a dialect's settings for a gang) allows a start in `cluster`. `cluster`: the name of
    another cluster; "" for this cluster, in which a start is always allowed."""
    return not cluster or claim.clusters is None or cluster in claim.clusters


def _to_claim(members: GangMembers, queue: str) -> Said:
    """Return the properties of the members from which a dialect derives its claim (its settings for the gang)."""
    shapes = [job.requirements.shape for job in members.jobs] + [pod.shape for pod in members.pods]
    return Said(
        gang=members.id,
        namespace=members.id.partition("/")[0],
        queue=queue,
        options={key: value for member in reversed(members.everyone) for key, value in member.options.items()},
        requests=frozenset(shape.requests for shape in shapes),
        owner=_owner(members),
        priority=_priority(members),
    )


def _owner(members: GangMembers) -> Owner | None:
    if members.jobs:
        first, kind = members.jobs[0], members.jobs[0].adapter.kind
        return Owner(kind.group, kind.name, first.name, first.object_uid)
    return Owner("", "Pod", members.pods[0].name, members.pods[0].uid) if members.pods else None


def _said(members: GangMembers) -> dict[str, Any]:
    """Return the members' options other than queue, size and shape. Raises GangSpecError."""
    said = job_options(members, members.id.partition("/")[0])
    ends = [member.active_s for member in members.everyone]
    if None not in ends:
        said["limit_s"] = min(said.get("limit_s", inf), float(max(end for end in ends if end is not None)))
    said["preempted"] = max((job.preempted for job in members.jobs), default=0)
    said["preempts"] = all(member.preempts for member in members.everyone)
    return said


def _staleness_grace_s(members: GangMembers, claim: Claim | None) -> float | None:
    """Return the grace period that the members' options set; None if the queue's setting applies. If no member sets the
    option, the result is 0 (no limit) for a gang that a dialect claims. KAI's dialect sets the option itself."""
    said = read_option(members, labels.STALENESS, duration_s) if labels.STALENESS in members.keys else None
    return 0.0 if said is None and claim is not None else said


def _priority(members: GangMembers) -> int:
    return max(member.priority for member in members.everyone)


def _needs(members: GangMembers, rows: Sequence[RoleSource]) -> PodsToCreate:
    """Return pairs of each suspended Job and the number of pods that it must create for the start. Running Jobs are
    left out, because their pods already exist and the quotas have admitted them."""
    jobs = {job.uid: job for job in members.jobs if job.suspended}
    found = ((source.uid, role.minimum) for role, source in rows if isinstance(source, JobPods))
    return [(jobs[uid], count) for uid, count in found if uid in jobs]


# --- roles --------------------------------------------------------------------------------------------------------


def _rows(members: GangMembers, gang: bool, largest: LargestNode) -> list[RoleSource]:
    rows = [_job_role(job, size) for job in members.jobs if (size := members.size(job))]
    if members.jobs or not gang:
        return rows + bare_pod_roles(members.pods, len(members.pods))
    if members.declared:
        return _declared_rows(members)
    if members.group is not None:
        return _group_rows(members.group, members.pods, largest)
    minimum = number_of(members, labels.MIN_AVAILABLE)
    rows += bare_pod_roles(members.pods, minimum or len(members.pods))
    if (whole := single_value(members, labels.MIN_RESOURCES, "")) and (held := _held(members, whole, minimum, largest)):
        rows.append(held)
    return rows


def _job_role(job: BatchJob, size: int) -> RoleSource:
    text = job.options.get(labels.MIN_AVAILABLE)
    minimum = read_count(text, labels.MIN_AVAILABLE, job.name) if text is not None else size
    if text is not None and minimum > job.requested_parallelism:
        raise GangSpecError(
            f"Job {job.name} sets phalanx.dev/min-available to {minimum}, but its parallelism is only "
            f"{job.requested_parallelism}: lower min-available, or raise the parallelism"
        )
    role = Role(
        name=job.options.get(labels.ROLE, job.name),
        count=size,
        minimum=min(minimum, size),
        shape=job.requirements.shape,
        group=job.options.get(labels.SUBGROUP, ""),
        closeness=_closeness(job),
    )
    return role, JobPods(job.uid, later=LATER in job.options)


def _closeness(member: BatchJob | Pod) -> TopologyRequest | None:
    """Return the topology request that this member sets for its own pods; None if it sets none."""
    if _CLOSENESS.isdisjoint(member.options):
        return None
    alone = options_of(member.options, member.name)
    return closeness(alone, labels.ROLE_CLOSENESS, labels.ROLE_PREFERRED_CLOSENESS, labels.ROLE_SLICE)


_CLOSENESS = frozenset({labels.ROLE_CLOSENESS, labels.ROLE_PREFERRED_CLOSENESS, labels.ROLE_SLICE})


def _declared_rows(members: GangMembers) -> list[RoleSource]:
    counts = pods_by_role(members.pods)
    minimums = {name: said.minimum for name, said in members.declared.items()}
    return [
        (grouped_role(role, source.role, members.declared, counts.get(source.role, 0)), source)
        for role, source in bare_pod_roles(members.pods, 0, minimums)
        if isinstance(source, BarePods)
    ]


def _group_rows(group: GroupClaim, pods: Sequence[Pod], largest: LargestNode) -> list[RoleSource]:
    """Return the roles of a declared group. The pods that must start together are the oldest pods of each role, up to
    the role's minimum, and the oldest pods of the whole group, up to the group's minimum. If the group's minimum is one
    pod, any pod may start first, because the oldest pod may fit on no node."""
    if group.by_priority:
        pods = sorted(pods, key=lambda pod: -pod.priority)  # pods of equal priority stay sorted by age
    rows = bare_pod_roles(pods, group.minimum, group.of_role)
    count, size = equal_pieces(remaining_resources(group.whole, (pod.requests for pod in pods)), None, largest())
    if group.minimum == 1 and len(rows) > 1 and not (group.of_role or count):
        rows = [(replace(role, minimum=1, group=ANY_ONE), source) for role, source in rows]
    return rows + ([_unborn(count, size, pods[0])] if count else [])


def bare_pod_roles(pods: Sequence[Pod], minimum: int, of_role: Mapping[str, int] = NO_ROLES) -> list[RoleSource]:
    """Return one role for each pair of a role label and a shape. The `minimum` oldest pods must start together. The
    oldest `of_role[role]` pods of each role must also start together with them."""
    first: dict[BarePods, Pod] = {}
    count: dict[BarePods, int] = {}
    needed: dict[BarePods, int] = {}
    seen: dict[str, int] = {}
    for position, pod in enumerate(pods):
        source = BarePods(pod.options.get(labels.ROLE, ""), pod.shape)
        first.setdefault(source, pod)
        count[source] = count.get(source, 0) + 1
        seen[source.role] = seen.get(source.role, 0) + 1
        must = position < minimum or seen[source.role] <= of_role.get(source.role, 0)
        needed[source] = needed.get(source, 0) + must
    return [(_bare_role(i, first[each], count[each], needed[each]), each) for i, each in enumerate(count)]


def _bare_role(number: int, first: Pod, count: int, minimum: int) -> Role:
    """Return a role of bare pods. The role gets the topology request of its oldest pod (`first`)."""
    return Role(
        name=first.options.get(labels.ROLE) or f"pods-{number}",
        count=count,
        minimum=minimum,
        shape=first.shape,
        group=first.options.get(labels.SUBGROUP, ""),
        closeness=_closeness(first),
    )


def _held(members: GangMembers, whole: str, minimum: int | None, largest: LargestNode) -> RoleSource | None:
    rest = remaining_resources(read_resources(whole), (pod.requests for pod in members.pods))
    missing = None if minimum is None else minimum - len(members.pods)
    count, size = equal_pieces(rest, missing, largest())
    return _unborn(count, size, members.pods[0]) if count else None


def _unborn(count: int, size: Amounts, driver: Pod) -> RoleSource:
    """Return a role for pods that the driver will create. These pods may run on the same nodes as the driver's pod."""
    first = driver.shape
    shape = Shape(size, first.selector, first.affinity, first.tolerations)
    return Role(name="held", count=count, minimum=count, shape=shape), FuturePods()
