"""Translate Kueue's ClusterQueues and Cohorts to queues of Phalanx's queue tree.

A ClusterQueue becomes a queue below the queue of its cohort. A cohort that a ClusterQueue names, but for which there is
no Cohort object, becomes a queue without settings. For each flavor and resource:


    guaranteed = nominalQuota        limit = nominalQuota + borrowingLimit        lend = lendingLimit


A ClusterQueue without a cohort cannot borrow, so its limit is its nominal quota. The limit of a cohort without a parent
is the quota of its whole subtree. (Without this limit, the cohort could use all idle nodes.) Kueue's Configuration may
turn on admission fair sharing. A ClusterQueue that uses admission fair sharing becomes a queue with the order USAGE,
and each of its LocalQueues becomes an account of this queue.

A ClusterQueue divides its resources into resource groups. The scheduler gives a pod one flavor of each resource group
from which the pod requests a resource (`Quota.group`).


Sources: apis/kueue/v1beta2/{clusterqueue,cohort,localqueue,resourceflavor}_types.go and pkg/cache/scheduler of v0.19.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from phalanx.client.kind import NAMESPACES
from phalanx.client.quantity import QuantityError, amount, parse
from phalanx.dialects.frame.dialect import Definitions, Object, Objects
from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.provisioning import configs as configs_
from phalanx.dialects.kueue.provisioning.configs import Config, config_of
from phalanx.dialects.kueue.tree import checks as admission_checks
from phalanx.dialects.kueue.tree.checks import Activity, own_activity
from phalanx.dialects.kueue.tree.configuration import (
    CONFIGURATIONS,
    DEFAULTS,
    AdmissionFairSharing,
    KueueConfiguration,
    configuration,
)
from phalanx.model.node import Flavor, NodeGroup, OnDemand, Taint, Topology
from phalanx.model.node import Node as ModelNode
from phalanx.model.pod import CPU, MAX_AMOUNT, Toleration, amounts
from phalanx.model.queue import (
    Bounds,
    FlavorFungibility,
    Queue,
    QueueOrder,
    QueuePreemption,
    QueueState,
    Quota,
    ReclaimFloor,
    ReclaimWithinCohort,
    Strategy,
    UsageTerms,
    VictimOrder,
    WithinQueue,
)

Cell = tuple[str, str]  # (flavor, resource)

LONGEST_S = 365 * 86400.0  # only an upper bound: usually a condition of the ProvisioningRequest ends the wait earlier

_WITHIN = {"LowerPriority": WithinQueue.LOWER, "LowerOrNewerEqualPriority": WithinQueue.LOWER_OR_NEWER}
_RECLAIM = {"LowerPriority": ReclaimWithinCohort.LOWER, "Any": ReclaimWithinCohort.ANY}
_FIRST = ("Borrow", "Preempt", "MayStopSearch")  # the first two are spellings of v1beta1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNode:
    """A node of Kueue's tree, which is a ClusterQueue or a Cohort, with its quotas by (flavor, resource) in the order
    of the object. `groups`: the flavors of each resource group."""

    name: str
    parent: str
    spec: Mapping[str, Any]
    nominal: Mapping[Cell, int]
    borrowing: Mapping[Cell, int]
    lending: Mapping[Cell, int]
    groups: tuple[tuple[str, ...], ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueue:
    """A ClusterQueue. `reason`, `message`: the reason and the message of its condition Active. The ClusterQueue admits
    jobs only if the reason is Ready. `checks`: for each AdmissionCheck, the flavors to which it applies; empty if it
    applies to every flavor."""

    node: QuotaNode
    checks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    reason: str = "Ready"
    message: str = "Can admit new workloads"

    @property
    def active(self) -> bool:
        return self.reason == "Ready"

    def checks_on(self, flavors: frozenset[str]) -> list[str]:
        """Return the checks of a job with these flavors. A check applies to the job if it applies to every flavor, or
        to one of these flavors."""
        return [name for name, about in self.checks.items() if not about or about & flavors]

    @property
    def resources(self) -> frozenset[str]:
        return frozenset(resource for _, resource in self.node.nominal)


def flavor_of(found: ClusterQueue | None, flavor: str, resource: str) -> str:
    """Return the flavor that a role has for a resource. `flavor`: the names of all flavors of the role, joined to one
    name."""
    parts, nominal = kinds.flavors_of(flavor), found.node.nominal if found is not None else {}
    return next((part for part in parts if (part, resource) in nominal), parts[0] if parts else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    namespace: str
    name: str
    cluster_queue: str
    stop_policy: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueDefinitions(Definitions):
    """Kueue's definitions, by name; LocalQueues by `namespace/name`.

    `namespaces`: the labels of each namespace.
    `cohorts`: the Cohort objects. `wholes`: the quota of each cohort's subtree. It includes cohorts that have no Cohort
    object.
    `levels`: for each flavor, the node labels of its Topology from coarse to fine.
    `own_checks`: the AdmissionChecks whose controllers are a part of Kueue. `provisioning`: for each active
    AdmissionCheck that creates ProvisioningRequests, the config of these requests. `multi`: for each AdmissionCheck
    that sends jobs to other clusters, these clusters.
    `worker_sets`: the uid of each LeaderWorkerSet."""

    cluster_queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    local_queues: Mapping[str, LocalQueue] = field(default_factory=dict)
    cohorts: Mapping[str, QuotaNode] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    configuration: KueueConfiguration = DEFAULTS
    wholes: Mapping[str, Mapping[Cell, int]] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own_checks: Mapping[str, Activity] = field(default_factory=dict)
    provisioning: Mapping[str, Config] = field(default_factory=dict)
    multi: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    worker_sets: Mapping[str, str] = field(default_factory=dict)

    def manages(self, namespace: str) -> bool:
        """Return whether Kueue's rules queue the jobs of a namespace. Return True for a namespace that is not known
        yet."""
        labels = self.namespaces.get(namespace)
        return labels is None or self.configuration.manages(labels)

    def usage_of(self, cluster_queue: str) -> AdmissionFairSharing | None:
        """Return the settings with which a ClusterQueue orders its jobs by past usage; None if it orders
        them in another way."""
        found = self.cluster_queues.get(cluster_queue)
        return None if found is None else by_usage(found, self.configuration)

    def capacity(self, node: QuotaNode) -> dict[Cell, int]:
        """Return the amounts that a ClusterQueue could use if all other queues were empty."""
        above, seen = node.parent, {node.name}
        while above in self.cohorts and self.cohorts[above].parent and above not in seen:
            seen.add(above)
            above = self.cohorts[above].parent
        whole = self.wholes.get(above, {})
        most = {cell: max(amount, whole.get(cell, 0)) for cell, amount in node.nominal.items()}
        return {
            cell: min(amount, node.nominal[cell] + node.borrowing.get(cell, amount)) for cell, amount in most.items()
        }


def define(objects: Objects) -> KueueDefinitions:
    """Translate the definitions. An object that cannot be read becomes a queue that starts no jobs and reports the
    error."""
    flavors, settings = objects.get(kinds.RESOURCE_FLAVORS, {}), configuration(objects.get(CONFIGURATIONS, {}))
    cohorts = {name: _node(name, obj, "parentName") for name, obj in objects.get(kinds.COHORTS, {}).items()}
    queues = {
        name: _cluster_queue(obj, objects, cohorts, _node(name, obj, "cohortName", "cohort"))
        for name, obj in objects.get(kinds.CLUSTER_QUEUES, {}).items()
    }
    named = {flavor for each in (*queues.values(),) for flavor, _ in each.node.nominal}
    named |= {flavor for each in cohorts.values() for flavor, _ in each.nominal}
    wholes = _wholes(queues, cohorts)
    own = _own_checks(objects)
    provisioning = _provisioning(objects, own)
    locals_ = {key: _local_queue(obj) for key, obj in objects.get(kinds.LOCAL_QUEUES, {}).items()}
    return KueueDefinitions(
        queues=tuple(_tree(queues, cohorts, wholes, settings, locals_)),
        flavors=tuple(_flavor(name, flavors.get(name) or {}) for name in sorted({*flavors, *named})),
        cluster_queues=queues,
        local_queues=locals_,
        cohorts=cohorts,
        priorities={name: int(obj.get("value") or 0) for name, obj in objects.get(kinds.PRIORITY_CLASSES, {}).items()},
        namespaces={name: obj["metadata"].get("labels") or {} for name, obj in objects.get(NAMESPACES, {}).items()},
        configuration=settings,
        wholes=wholes,
        own_checks=own,
        provisioning=provisioning,
        multi=admission_checks.all_clusters(
            objects.get(kinds.ADMISSION_CHECKS, {}), objects.get(kinds.MULTI_CONFIGS, {})
        ),
        node_groups=tuple(_node_groups(queues, cohorts, wholes, provisioning)),
        topologies=tuple(_topologies(objects)),
        levels=dict(_levels(flavors, objects.get(kinds.TOPOLOGIES, {}))),
        worker_sets={key: obj["metadata"]["uid"] for key, obj in objects.get(kinds.LEADER_WORKER_SETS, {}).items()},
    )


def _levels(flavors: Mapping[str, Object], topologies: Mapping[str, Object]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each flavor with a Topology, and the levels of this Topology from coarse to fine."""
    for name, obj in flavors.items():
        found = topologies.get(str((obj.get("spec") or {}).get("topologyName") or ""))
        if found is not None:
            yield name, _topology(found).levels


def _topologies(objects: Objects) -> Iterable[Topology]:
    """Return all Topologies. If there are other clusters, the result also contains a topology whose domains are the
    clusters."""
    of_clusters = [admission_checks.CLUSTERS] if objects.get(kinds.MULTI_CLUSTERS) else []
    return dict.fromkeys((*map(_topology, objects.get(kinds.TOPOLOGIES, {}).values()), *of_clusters))


def _topology(obj: Object) -> Topology:
    return Topology(levels=tuple(str(one.get("nodeLabel")) for one in (obj.get("spec") or {}).get("levels") or ()))


# --- one object -------------------------------------------------------------------------------------------------------


def _node(name: str, obj: Object, *parents: str) -> QuotaNode:
    spec = obj.get("spec") or {}
    nominal: dict[Cell, int] = {}
    borrowing: dict[Cell, int] = {}
    lending: dict[Cell, int] = {}
    fault = ""
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for quota in flavor.get("resources") or ():
                cell = (str(flavor.get("name")), str(quota.get("name")))
                said = (
                    (nominal, quota.get("nominalQuota", 0)),
                    (borrowing, quota.get("borrowingLimit")),
                    (lending, quota.get("lendingLimit")),
                )
                for into, text in said:
                    try:
                        if text is not None:
                            into[cell] = max(0, amount(cell[1], text))
                            if into[cell] > MAX_AMOUNT:
                                fault = f"{cell[1]} of flavor {cell[0]} is {text}, which is more than any cluster has"
                    except QuantityError as error:
                        fault = f"{cell[1]} of flavor {cell[0]}: {error}"
    groups = tuple(
        tuple(str(flavor.get("name")) for flavor in group.get("flavors") or ())
        for group in spec.get("resourceGroups") or ()
    )
    parent = next((str(spec[key]) for key in parents if spec.get(key)), "")
    amounts = {"nominal": nominal, "borrowing": borrowing, "lending": lending}
    return QuotaNode(name=name, parent=parent, spec=spec, groups=groups, fault=fault, **amounts)


def _local_queue(obj: Object) -> LocalQueue:
    meta, spec = obj["metadata"], obj.get("spec") or {}
    return LocalQueue(
        namespace=meta["namespace"],
        name=meta["name"],
        cluster_queue=str(spec.get("clusterQueue") or ""),
        stop_policy=str(spec.get("stopPolicy") or "None"),
        weight=weight_of(spec),
    )


def _flavor(name: str, obj: Object) -> Flavor:
    spec = obj.get("spec") or {}
    tolerations = dict.fromkeys(
        Toleration(
            key=str(one.get("key") or ""),
            operator=str(one.get("operator") or "Equal"),
            value=str(one.get("value") or ""),
            effect=str(one.get("effect") or ""),
        )
        for one in spec.get("tolerations") or ()
    )
    taints = (
        Taint(str(one.get("key") or ""), str(one.get("value") or ""), str(one.get("effect") or ""))
        for one in spec.get("nodeTaints") or ()
    )
    return Flavor(
        name=kinds.tree_flavor(name),
        labels=tuple(sorted((str(key), str(value)) for key, value in (spec.get("nodeLabels") or {}).items())),
        tolerations=tuple(tolerations),
        taints=tuple(taints),
    )


def _cluster_queue(obj: Object, objects: Objects, cohorts: Mapping[str, QuotaNode], node: QuotaNode) -> ClusterQueue:
    checks = dict(_checks(node.spec))
    said = ClusterQueue(node=node, checks=checks)
    if "deletionTimestamp" in obj["metadata"]:
        text = "Can't admit new workloads; clusterQueue is terminating"
        return ClusterQueue(node=node, checks=checks, reason="Terminating", message=text)
    wrong = list(_faults(node, checks, objects))
    if _has_cycle(node.parent, cohorts):
        wrong.append(("CohortCycleDetected", f'Cohort "{node.parent}" has a cycle in hierarchy'))
    if wrong:
        text = f"Can't admit new workloads: {', '.join(part for _, part in wrong)}."
        return ClusterQueue(node=node, checks=checks, reason=wrong[0][0], message=text)
    return said


def _faults(node: QuotaNode, checks: Mapping[str, frozenset[str]], objects: Objects) -> Iterator[tuple[str, str]]:
    """Yield the reason and the message of each error, in the order in which Kueue checks for errors."""
    if (node.spec.get("stopPolicy") or "None") != "None":
        yield "Stopped", "is stopped"
    flavors, known = objects.get(kinds.RESOURCE_FLAVORS, {}), objects.get(kinds.ADMISSION_CHECKS, {})
    if missing := list(dict.fromkeys(flavor for flavor, _ in node.nominal if flavor not in flavors)):
        yield "FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"
    if missing := [check for check in checks if check not in known]:
        yield "AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(missing)}"
    own = _own_checks(objects)
    if passive := [check for check in checks if check in known and not _is_active(known[check], own.get(check))]:
        yield "AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(passive)}"
    yield from _multi_faults(checks, known)
    topologies = objects.get(kinds.TOPOLOGIES, {})
    for flavor in dict.fromkeys(flavor for flavor, _ in node.nominal):
        asked = ((flavors.get(flavor) or {}).get("spec") or {}).get("topologyName")
        if asked and asked not in topologies:
            yield "TopologyNotFound", f'there is no Topology "{asked}" for TAS flavor "{flavor}"'
    if node.fault:
        yield "Unknown", node.fault


def _multi_faults(checks: Mapping[str, frozenset[str]], known: Mapping[str, Object]) -> Iterator[tuple[str, str]]:
    """Yield the errors in checks that send jobs to other clusters. A ClusterQueue may have only one such check, and the
    check must apply to all flavors. The ClusterQueue must not have a check that requests nodes of this cluster in
    addition."""
    controllers = {name: (known[name].get("spec") or {}).get("controllerName") for name in checks if name in known}
    own = [name for name, controller in controllers.items() if controller == admission_checks.CONTROLLER]
    if len(own) > 1:
        text = f"Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: {','.join(own)}"
        yield "MultipleMultiKueueAdmissionChecks", text
    if flavored := [name for name in own if checks[name]]:
        text = f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {','.join(flavored)}"
        yield "MultiKueueAdmissionCheckAppliedPerFlavor", text
    requesting = [name for name, controller in controllers.items() if controller == configs_.CONTROLLER]
    if own and requesting:
        text = "Cannot use MultiKueue and ProvisioningRequest AdmissionChecks on the same ClusterQueue, found: "
        yield "MultiKueueWithProvisioningRequest", f"{text}{','.join((*own, *requesting))}"


def _has_cycle(cohort: str, cohorts: Mapping[str, QuotaNode]) -> bool:
    """Return whether the cohort is in a cycle of parents."""
    seen = set[str]()
    while cohort in cohorts and cohort not in seen:
        seen.add(cohort)
        cohort = cohorts[cohort].parent
    return cohort in seen


def _checks(spec: Mapping[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each check and its flavors. A check without flavors applies to every flavor."""
    for name in spec.get("admissionChecks") or ():
        yield str(name), frozenset()
    for one in (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ():
        yield str(one.get("name")), frozenset(map(str, one.get("onFlavors") or ()))


def _own_checks(objects: Objects) -> dict[str, Activity]:
    found = {name: own_activity(check, objects) for name, check in objects.get(kinds.ADMISSION_CHECKS, {}).items()}
    return {name: activity for name, activity in found.items() if activity is not None}


def _provisioning(objects: Objects, own: Mapping[str, Activity]) -> dict[str, Config]:
    """Return the configs of the active AdmissionChecks that create ProvisioningRequests."""
    configs, checks = objects.get(kinds.PROVISIONING_CONFIGS, {}), objects.get(kinds.ADMISSION_CHECKS, {})
    active = ((name, config_of(checks[name], configs)) for name, activity in own.items() if activity.truth)
    return {name: config for name, config in active if config is not None}


def _node_groups(
    queues: Mapping[str, ClusterQueue],
    cohorts: Mapping[str, QuotaNode],
    wholes: Mapping[str, Mapping[Cell, int]],
    provisioning: Mapping[str, Config],
) -> Iterator[NodeGroup]:
    """Yield a node group for each ClusterQueue and each of its checks that creates ProvisioningRequests. An autoscaler
    creates the nodes of this group on demand."""
    known = KueueDefinitions(cohorts=cohorts, wholes=wholes)
    for name, queue in queues.items():
        for check, flavors in queue.checks.items():
            if not queue.active or (config := provisioning.get(check)) is None:
                continue
            most: dict[str, int] = {}
            for (_, resource), amount_ in known.capacity(queue.node).items():
                most[resource] = min(MAX_AMOUNT, most.get(resource, 0) + amount_)
            wants = OnDemand(kinds.tree_queue(name), tuple(map(kinds.tree_flavor, sorted(flavors))), config.managed)
            yield NodeGroup(
                name=kinds.node_group(check, name),
                template=ModelNode(name=check, allocatable=amounts(most)),
                max_nodes=0,
                delay_s=0.0,
                timeout_s=LONGEST_S,
                idle_s=0.0,
                on_demand=wants,
            )


def _is_active(check: Object, own: Activity | None) -> bool:
    return own.truth if own is not None else admission_checks.is_active(check)


# --- the tree ---------------------------------------------------------------------------------------------------------


def _wholes(queues: Mapping[str, ClusterQueue], cohorts: Mapping[str, QuotaNode]) -> dict[str, dict[Cell, int]]:
    """Return the quota of each cohort's subtree. It includes cohorts that have no Cohort object."""
    named = {node.parent for node in (*(each.node for each in queues.values()), *cohorts.values()) if node.parent}
    nodes = {name: cohorts.get(name) or _node(name, {}) for name in sorted({*cohorts, *named})}
    below: dict[str, list[Mapping[Cell, int]]] = {}
    for each in queues.values():
        if each.node.parent:
            below.setdefault(each.node.parent, []).append(each.node.nominal)
    return {name: _subtree(name, nodes, below, ()) for name in nodes}


def _tree(
    queues: Mapping[str, ClusterQueue],
    cohorts: Mapping[str, QuotaNode],
    wholes: Mapping[str, Mapping[Cell, int]],
    settings: KueueConfiguration,
    locals_: Mapping[str, LocalQueue],
) -> Iterator[Queue]:
    for name, whole in wholes.items():
        yield _cohort(cohorts.get(name) or _node(name, {}), whole, settings)
    for each in queues.values():
        yield _with_accounts(_queue(each, settings), by_usage(each, settings), each, locals_)


def by_usage(found: ClusterQueue, settings: KueueConfiguration) -> AdmissionFairSharing | None:
    """Return the settings with which a ClusterQueue orders its jobs by past usage; None if it orders
    them in another way."""
    mode = (found.node.spec.get("admissionScope") or {}).get("admissionMode")
    return settings.by_usage if mode == "UsageBasedAdmissionFairSharing" else None


def _with_accounts(
    queue: Queue, terms: AdmissionFairSharing | None, found: ClusterQueue, locals_: Mapping[str, LocalQueue]
) -> Queue:
    """Return the queue with the order USAGE and one account for each LocalQueue. If `terms` is None, return the queue
    unchanged."""
    if terms is None:
        return queue
    own = {key: each.weight for key, each in locals_.items() if each.cluster_queue == found.node.name}
    accounts = sorted((key, weight) for key, weight in own.items() if weight != 1.0)
    unit = {CPU: 0.001}  # Kueue's weights are per core, but Phalanx counts cpu in millicores
    billing = ((name, terms.weight(name) * unit.get(name, 1.0)) for name in sorted(found.resources))
    usage = UsageTerms(half_life_s=terms.half_life_s, billing=tuple(billing), entry_s=terms.sampling_s)
    return replace(queue, order=QueueOrder.USAGE, accounts=tuple(accounts), usage=usage)


def _subtree(
    name: str, nodes: Mapping[str, QuotaNode], below: Mapping[str, list[Mapping[Cell, int]]], above: tuple[str, ...]
) -> dict[Cell, int]:
    """Return the quota of a cohort's subtree. If the cohorts form a cycle, which is an error, each cohort is visited
    once."""
    total = dict(nodes[name].nominal)
    parts = list(below.get(name, ()))
    if name not in above:
        inner = (node.name for node in nodes.values() if node.parent == name)
        parts += [_subtree(each, nodes, below, (*above, name)) for each in inner]
    for part in parts:
        for cell, quota in part.items():
            total[cell] = total.get(cell, 0) + quota
    return total


def _cohort(node: QuotaNode, whole: Mapping[Cell, int], settings: KueueConfiguration) -> Queue:
    limits = {cell: quota + node.borrowing.get(cell, 0) for cell, quota in whole.items()}
    bounded = {cell: limit for cell, limit in limits.items() if not node.parent or cell in node.borrowing}
    return Queue(
        name=kinds.tree_cohort(node.name),
        parent=kinds.tree_cohort(node.parent) if node.parent else "",
        quotas=tuple(_quotas(node, whole, bounded)),
        weight=weight_of(node.spec),
        order=QueueOrder.FAIR if settings.fair else QueueOrder.PRIORITY,
        state=QueueState.HELD if node.fault else QueueState.OPEN,
    )


def _queue(each: ClusterQueue, settings: KueueConfiguration) -> Queue:
    node, spec = each.node, each.node.spec
    bounded = {
        cell: quota + node.borrowing.get(cell, 0)
        for cell, quota in node.nominal.items()
        if not node.parent or cell in node.borrowing
    }
    return Queue(
        name=kinds.tree_queue(node.name),
        parent=kinds.tree_cohort(node.parent) if node.parent else "",
        quotas=tuple(_quotas(node, node.nominal, bounded, node.groups)),
        fungibility=_fungibility(spec.get("flavorFungibility") or {}),
        weight=weight_of(spec),
        strict=spec.get("queueingStrategy") == "StrictFIFO",
        preemption=_preemption(spec.get("preemption") or {}, settings),
        state=QueueState.OPEN if each.active else QueueState.HELD,
        start_timeout_s=settings.start_timeout_s,
    )


def _quotas(
    node: QuotaNode, nominal: Mapping[Cell, int], limits: Mapping[Cell, int], groups: Iterable[tuple[str, ...]] = ()
) -> Iterator[Quota]:
    """Yield a quota for each flavor, in the order of the object. The scheduler tries flavors in this order. `groups`:
    the flavors of each resource group."""
    lending = node.lending if node.parent else {}
    numbers = {flavor: str(number) for number, group in enumerate(groups) for flavor in group}
    for flavor in dict.fromkeys(flavor for flavor, _ in nominal):
        yield Quota(
            flavor=kinds.tree_flavor(flavor),
            group=numbers.get(flavor, ""),
            guaranteed=_bounds(flavor, nominal),
            limit=_bounds(flavor, limits),
            lend=_bounds(flavor, lending),
        )


def _bounds(flavor: str, amounts: Mapping[Cell, int]) -> Bounds:
    return tuple(sorted((resource, quota) for (of, resource), quota in amounts.items() if of == flavor))


def weight_of(spec: Mapping[str, Any]) -> float:
    """Return the fair sharing weight of a ClusterQueue, a Cohort or a LocalQueue."""
    try:
        said = parse((spec.get("fairSharing") or {}).get("weight", 1))
        return float(said) if said < MAX_AMOUNT else float(MAX_AMOUNT)
    except QuantityError:
        return 1.0


def _fungibility(said: Mapping[str, object]) -> FlavorFungibility:
    return FlavorFungibility(
        borrow_before_next=said.get("whenCanBorrow", _FIRST[-1]) in _FIRST,
        preempt_before_next=said.get("whenCanPreempt", "TryNextFlavor") in _FIRST,
        prefer_preemption=said.get("preference") == "PreemptionOverBorrowing",
    )


_INITIAL, _FINAL = "LessThanInitialShare", "LessThanOrEqualToFinalShare"
_STRATEGIES: Mapping[tuple[str, ...], Strategy] = {
    (_INITIAL,): Strategy.INITIAL_SHARE,
    (_FINAL,): Strategy.FINAL_SHARE,
}


def _preemption(said: Mapping[str, Any], settings: KueueConfiguration) -> QueuePreemption:
    borrow = said.get("borrowWithinCohort") or {}
    threshold = borrow.get("maxPriorityThreshold")
    return QueuePreemption(
        within=_WITHIN.get(str(said.get("withinClusterQueue")), WithinQueue.NEVER),
        reclaim=_RECLAIM.get(str(said.get("reclaimWithinCohort")), ReclaimWithinCohort.NEVER),
        borrowing=borrow.get("policy") == "LowerPriority",
        borrowing_threshold=None if threshold is None else int(threshold),
        down_to=ReclaimFloor.FAIR_SHARE if settings.fair else ReclaimFloor.GUARANTEE,
        strategy=_STRATEGIES.get(settings.strategies, Strategy.FINAL_THEN_INITIAL),
        victims=VictimOrder.FAIREST if settings.fair else VictimOrder.CHEAPEST,
    )
