"""Write the status of ClusterQueues, LocalQueues and Cohorts: the reserved and the used amounts of each flavor, and the
number of pending jobs.

The reserved amounts (*reservation*) are the sum over all jobs that have quota. The used amounts (*usage*) are the sum
over admitted jobs. So a job that has quota and waits for admission checks counts only in the reservation.


Sources: apis/kueue/v1beta2/{clusterqueue,localqueue}_types.go; pkg/controller/core of v0.19.2.

This module also deletes Workloads and jobs whose retention time has ended (`objectRetentionPolicies` of Kueue's
Configuration).

With `afterFinished`, it deletes finished Workloads and leaves their jobs. With `afterDeactivatedByKueue`, it deletes
jobs whose Workloads a rule has deactivated (the maximum execution time, a rejected check), but not jobs whose Workloads
a user has deactivated. Kubernetes' garbage collector then deletes the Workloads of the deleted jobs.


Source: pkg/controller/core/workload_controller.go and pkg/controller/jobframework/reconciler.go of v0.20.

This module also computes the fair share of ClusterQueues and Cohorts, which Kueue writes to
`status.fairSharing.weightedShare`.

The share of a queue is the amount that it uses beyond its quota, in thousandths of the amount that its cohort can lend,
divided by the queue's weight. It is computed for each resource, with the amounts of all flavors added up; the share is
the largest result. A `lendingLimit` may keep a part of a queue's quota from its cohort. The cohort above then counts
neither this part of the quota nor the usage of this part.

Sources: pkg/cache/scheduler/{fair_sharing,resource_node}.go of Kueue's main branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple, TypeAlias

from phalanx.client.kind import JOBS, Kind
from phalanx.client.moment import read_moment
from phalanx.dialects.frame.dialect import Answer, GangStage, GangView, Object, Objects
from phalanx.dialects.frame.pod_requests import quantity
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.answers import consumed
from phalanx.dialects.kueue.answers.conditions import Conditions
from phalanx.dialects.kueue.answers.topology import grows
from phalanx.dialects.kueue.answers.workloads import deactivated, incomplete
from phalanx.dialects.kueue.provisioning.requests import reserved
from phalanx.dialects.kueue.tree.configuration import KueueConfiguration
from phalanx.dialects.kueue.tree.definitions import (
    Cell,
    ClusterQueue,
    KueueDefinitions,
    LocalQueue,
    QuotaNode,
    flavor_of,
    weight_of,
)

INFINITE = 2**63 - 1  # an infinite share, as Kueue writes it

Amounts: TypeAlias = Mapping[Cell, int]


class SubtreeAmounts(NamedTuple):
    """The quota and the usage of a node of the cohort tree, including all nodes below it. Quota that the nodes below do
    not lend is left out. The usage of such quota is left out as well."""

    quota: Amounts
    used: Amounts


def shares(defined: KueueDefinitions, used: Mapping[str, Amounts]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the shares of ClusterQueues and the shares of Cohorts, each by name. Both are empty if fair sharing is
    off. `used`: the reservation of each ClusterQueue."""
    if not defined.configuration.fair:
        return {}, {}
    tree = CohortTree(defined, used)
    queues = {name: tree.share(each.node, tree.of_queue(name)) for name, each in defined.cluster_queues.items()}
    cohorts = {name: tree.share(node, tree.of_cohorts[name]) for name, node in defined.cohorts.items()}
    return queues, cohorts


class CohortTree:
    """The quota and usage of every Cohort and ClusterQueue. `used`: the reservation of each ClusterQueue."""

    def __init__(self, defined: KueueDefinitions, used: Mapping[str, Amounts]) -> None:
        self.defined, self.used = defined, used
        self.of_cohorts: dict[str, SubtreeAmounts] = {}
        for name in (*defined.wholes, *defined.cohorts):
            self._sum_up(name, ())

    def of_queue(self, name: str) -> SubtreeAmounts:
        return SubtreeAmounts(self.defined.cluster_queues[name].node.nominal, self.used.get(name, {}))

    def share(self, node: QuotaNode, has: SubtreeAmounts) -> int:
        """Return the share of a node; 0 if the node has no parent."""
        lendable, borrowed = self._lendable(node.parent), Counter[str]()
        for cell, quota in has.quota.items():
            borrowed[cell[1]] += max(0, has.used.get(cell, 0) - quota)
        parts = [Fraction(1000 * over, lendable[name]) for name, over in borrowed.items() if over and lendable[name]]
        if not parts:
            return 0
        weight = weight_of(node.spec)
        return ceil(max(parts) / Fraction(weight)) if weight > 0 else INFINITE

    def _sum_up(self, cohort: str, above: tuple[str, ...]) -> None:
        """Compute the amounts of the cohort and of all cohorts below it. If the cohorts form a cycle, which is an
        error, each cohort is visited once."""
        if cohort in self.of_cohorts or cohort in above:
            return
        node = self.defined.cohorts.get(cohort)
        quota, used = Counter[Cell](node.nominal if node else {}), Counter[Cell]()
        for child, has in self._children(cohort, above):
            for cell, amount in has.quota.items():
                kept = kept_amount(child, cell, amount)
                quota[cell] += amount - kept
                used[cell] += max(0, has.used.get(cell, 0) - kept)
        self.of_cohorts[cohort] = SubtreeAmounts(quota, used)

    def _children(self, cohort: str, above: tuple[str, ...]) -> Iterator[tuple[QuotaNode, SubtreeAmounts]]:
        for name, queue in self.defined.cluster_queues.items():
            if queue.node.parent == cohort:
                yield queue.node, self.of_queue(name)
        for name, node in self.defined.cohorts.items():
            if node.parent == cohort:
                self._sum_up(name, (*above, cohort))
                yield node, self.of_cohorts.get(name, SubtreeAmounts({}, {}))

    def _lendable(self, cohort: str) -> Counter[str]:
        """Return, for each resource, the amount that the cohort could use if all queues were empty. It is the quota of
        the root cohort, plus the quota that each cohort on the path from the root down to this cohort does not lend.
        Borrowing limits on this path may reduce this amount. The result is empty if there is no cohort."""
        path, found = [cohort], Counter[str]()
        while (node := self.defined.cohorts.get(path[-1])) and node.parent and node.parent not in path:
            path.append(node.parent)
        root = self.of_cohorts.get(path.pop())
        for cell, amount in root.quota.items() if root else ():
            for name in reversed(path):
                node, quota = self.defined.cohorts[name], self.of_cohorts[name].quota.get(cell, 0)
                amount += kept_amount(node, cell, quota)
                if cell in node.borrowing:
                    amount = min(amount, quota + node.borrowing[cell])
            found[cell[1]] += amount
        return found


def kept_amount(node: QuotaNode, cell: Cell, quota: int) -> int:
    """Return the part of `quota` that a ClusterQueue or Cohort does not lend to its parent Cohort."""
    return max(0, quota - node.lending[cell]) if cell in node.lending else 0


_BY_KUEUE = "DeactivatedDueTo"
_JOB_KINDS: Mapping[tuple[str, str], Kind] = {(kind.api_version, kind.name): kind for kind in (JOBS, *FRAMEWORKS)}


def retained(settings: KueueConfiguration, objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the deletions that are due now, and the time when the next deletion is due."""
    if settings.finished_s is None and settings.deactivated_s is None:
        return
    now_s, later = read_moment(now), list[tuple[float, str]]()
    for key, workload in objects.get(kinds.WORKLOADS, {}).items():
        if (due_s := _due_s(settings, workload)) is None:
            continue
        if due_s > now_s:
            later.append((due_s, key))
        else:
            yield from _deletions(key, workload)
    if later:
        due_s, key = min(later)
        yield Answer(kind=kinds.WORKLOADS, key=key, again_s=due_s)


def is_finished(workload: Object) -> bool:
    """Return whether the Workload has the condition Finished."""
    return Conditions((workload.get("status") or {}).get("conditions") or (), "").is_true("Finished")


def _due_s(settings: KueueConfiguration, workload: Object) -> float | None:
    """Return when the retention time of the Workload ends (seconds since the epoch); None if it never ends."""
    said = Conditions((workload.get("status") or {}).get("conditions") or (), "")
    if said.is_true("Finished"):
        return _after(said.since("Finished"), settings.finished_s)
    inactive = (workload.get("spec") or {}).get("active") is False
    if inactive and said.is_true("Evicted") and said.reason("Evicted").startswith(_BY_KUEUE):
        return _after(said.since("Evicted"), settings.deactivated_s)
    return None


def _after(since: str, retention_s: float | None) -> float | None:
    return read_moment(since) + retention_s if since and retention_s is not None else None


def _deletions(key: str, workload: Object) -> Iterator[Answer]:
    """Yield the answer that deletes a finished Workload, or the answers that delete the jobs of a deactivated
    Workload."""
    if is_finished(workload):
        yield Answer(kind=kinds.WORKLOADS, key=key, gone=True)
        return
    for owner in workload["metadata"].get("ownerReferences") or ():
        kind = _JOB_KINDS.get((str(owner.get("apiVersion")), str(owner.get("kind"))))
        if kind is not None:
            yield Answer(kind=kind, key=f"{key.partition('/')[0]}/{owner['name']}", gone=True, uid=str(owner["uid"]))


IN_USE = f"{kinds.PREFIX}resource-in-use"  # finalizer
_ADMITTED = frozenset({GangStage.STARTING, GangStage.RUNNING, GangStage.LEAVING})


@dataclass(slots=True)
class FlavorUse:
    """The reservation and the usage of one queue. `amounts`: the reservation by (flavor, resource). `admitted`: the
    usage, which is the part of the reservation that belongs to admitted jobs. `pending`, `reserving`, `admitting`: the
    numbers of pending jobs, of jobs with quota, and of admitted jobs."""

    amounts: dict[Cell, int] = field(default_factory=dict)
    admitted: dict[Cell, int] = field(default_factory=dict)
    pending: int = 0
    reserving: int = 0
    admitting: int = 0


def uses(defined: KueueDefinitions, everyone: Iterable[GangView]) -> tuple[dict[str, FlavorUse], dict[str, FlavorUse]]:
    """Return the `FlavorUse` of each ClusterQueue by its name, and of each LocalQueue by `namespace/name`."""
    queues: dict[str, FlavorUse] = {}
    locals_: dict[str, FlavorUse] = {}
    for told in everyone:
        if incomplete(told) or deactivated(told):
            continue
        name = (told.owners[0]["metadata"].get("labels") or {}).get(kinds.QUEUE_LABEL, "")
        of = [locals_.setdefault(f"{told.namespace}/{name}", FlavorUse())]
        if queue := kinds.cluster_queue_of(told.queue):
            of.append(queues.setdefault(queue, FlavorUse()))
        found = defined.cluster_queues.get(queue)
        for use in of:
            _enter(use, told, found, defined.configuration)
    return queues, locals_


def _enter(use: FlavorUse, told: GangView, found: ClusterQueue | None, settings: KueueConfiguration) -> None:
    use.pending += told.stage is GangStage.WAITING or grows(told)
    admitted = told.stage in _ADMITTED
    if not admitted and told.stage is not GangStage.RESERVED:
        return
    use.reserving += 1
    use.admitting += admitted
    covered = found.resources if found is not None else frozenset[str]()
    for each in told.pod_sets:
        for resource, amount in settings.counted(each.request, covered):
            cell = (flavor_of(found, each.flavor, resource), resource)
            use.amounts[cell] = use.amounts.get(cell, 0) + amount * each.placed
            if admitted:
                use.admitted[cell] = use.admitted.get(cell, 0) + amount * each.placed


def statuses(defined: KueueDefinitions, everyone: Iterable[GangView], objects: Objects, now: str) -> Iterator[Answer]:
    """Yield the desired status of every queue. `objects`: the existing objects. `now`: the present time as a
    metav1.Time."""
    queues, locals_ = uses(defined, map(reserved, everyone))
    yield from _in_use(defined, queues, objects)
    of_queues, of_cohorts = shares(defined, {name: use.amounts for name, use in queues.items()})
    for name, share in of_cohorts.items():
        yield Answer(kind=kinds.COHORTS, key=name, status={"fairSharing": {"weightedShare": share}})
    existing = objects.get(kinds.CLUSTER_QUEUES, {})
    for name, found in defined.cluster_queues.items():
        old = (existing.get(name) or {}).get("status") or {}
        status = _cluster_queue(found, queues.get(name, FlavorUse()), of_queues.get(name), old, now)
        yield Answer(kind=kinds.CLUSTER_QUEUES, key=name, status=status)
    for key, local in defined.local_queues.items():
        old = (objects.get(kinds.LOCAL_QUEUES, {}).get(key) or {}).get("status") or {}
        use, terms = locals_.get(key, FlavorUse()), defined.usage_of(local.cluster_queue)
        status = _local_queue(defined, local, use, old, now)
        if terms is None:
            yield Answer(kind=kinds.LOCAL_QUEUES, key=key, status=status)
            continue
        said = consumed.sampled(terms, old, _by_resource(use), now)
        status["fairSharing"] = {"weightedShare": 0, "admissionFairSharingStatus": said}
        yield Answer(kind=kinds.LOCAL_QUEUES, key=key, status=status, again_s=consumed.again_s(terms, said))
    yield from _own_checks(defined, objects.get(kinds.ADMISSION_CHECKS, {}), now)
    yield from retained(defined.configuration, objects, now)


def _by_resource(use: FlavorUse) -> dict[str, int]:
    """Return the reservation by resource, summed over all flavors."""
    found: dict[str, int] = {}
    for (_, resource), amount in use.amounts.items():
        found[resource] = found.get(resource, 0) + amount
    return found


def _own_checks(defined: KueueDefinitions, existing: Mapping[str, Object], now: str) -> Iterator[Answer]:
    """Yield the status of the AdmissionChecks whose controllers are part of Kueue."""
    for name, own in defined.own_checks.items():
        check = existing.get(name) or {"metadata": {}}
        old = (check.get("status") or {}).get("conditions") or ()
        said = Conditions(old, now, check["metadata"].get("generation") or 0)
        said.set("Active", *own)
        yield Answer(kind=kinds.ADMISSION_CHECKS, key=name, status={"conditions": said.all()})


def _in_use(defined: KueueDefinitions, queues: Mapping[str, FlavorUse], objects: Objects) -> Iterator[Answer]:
    """Yield the desired finalizers of flavors and ClusterQueues. As in Kueue, a finalizer delays the deletion of a
    flavor or ClusterQueue that is still in use."""
    named = {flavor for each in defined.cluster_queues.values() for flavor, _ in each.node.nominal}
    for name in objects.get(kinds.RESOURCE_FLAVORS, {}):
        yield Answer(kind=kinds.RESOURCE_FLAVORS, key=name, finalizers=(IN_USE,) if name in named else ())
    for name in defined.cluster_queues:
        held = (IN_USE,) if queues.get(name, FlavorUse()).reserving else ()
        yield Answer(kind=kinds.CLUSTER_QUEUES, key=name, finalizers=held)


def _cluster_queue(found: ClusterQueue, use: FlavorUse, share: int | None, old: Mapping[str, Any], now: str) -> Object:
    conditions = Conditions(old.get("conditions") or (), now)
    conditions.set("Active", found.active, found.reason, found.message)
    fair = {"fairSharing": {"weightedShare": share}} if share is not None else {}
    usage = {
        "flavorsReservation": _flavors(found, use.amounts, borrowed=True),
        "flavorsUsage": _flavors(found, use.admitted, borrowed=True),
    }
    return {**_counts(use), "conditions": conditions.all(), **usage, **fair}


def _local_queue(
    defined: KueueDefinitions, local: LocalQueue, use: FlavorUse, old: Mapping[str, Any], now: str
) -> Object:
    found = defined.cluster_queues.get(local.cluster_queue)
    conditions = Conditions(old.get("conditions") or (), now)
    conditions.set("Active", *_active(local, found))
    reserved, used = (
        _flavors(found, amounts, borrowed=False) if found is not None else [] for amounts in (use.amounts, use.admitted)
    )
    return {**_counts(use), "conditions": conditions.all(), "flavorsReservation": reserved, "flavorsUsage": used}


def _active(local: LocalQueue, found: ClusterQueue | None) -> tuple[bool, str, str]:
    if local.stop_policy != "None":
        return False, "Stopped", "LocalQueue is stopped"
    if found is None:
        return False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
    if not found.active:
        return False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
    return True, "Ready", "Can submit new workloads to localQueue"


def _counts(use: FlavorUse) -> Object:
    return {
        "pendingWorkloads": use.pending,
        "reservingWorkloads": use.reserving,
        "admittedWorkloads": use.admitting,
    }


def _flavors(found: ClusterQueue, amounts: Mapping[Cell, int], *, borrowed: bool) -> list[Object]:
    """Return the amounts as a status lists them, in the order of the ClusterQueue's quotas. `borrowed`: True if the
    list includes the borrowed amounts."""
    by_flavor: dict[str, list[Object]] = {}
    for (flavor, resource), nominal in found.node.nominal.items():
        total = amounts.get((flavor, resource), 0)
        entry = {"name": resource, "total": quantity(resource, total)}
        if borrowed:
            entry["borrowed"] = quantity(resource, max(0, total - nominal) if found.node.parent else 0)
        by_flavor.setdefault(flavor, []).append(entry)
    return [{"name": flavor, "resources": resources} for flavor, resources in by_flavor.items()]
