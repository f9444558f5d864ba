"""Serve YuniKorn's REST endpoints, so that dashboards for YuniKorn show the partitions, queues, applications and nodes
of Phalanx, and the usage of users and groups.

    /ws/v1/clusters, /ws/v1/partitions, /ws/v1/config, /ws/v1/scheduler/healthcheck, /ws/v1/scheduler/node-utilizations
    /ws/v1/partition/default/queues, /queue/NAME, /placementrules, /nodes, /node/NAME, /applications/STATE
    /ws/v1/partition/default/queue/NAME/applications[/STATE], /application/ID
    /ws/v1/partition/default/usage/users, /user/NAME, /groups, /group/NAME
    POST /ws/v1/validate-conf: checks a posted queues.yaml by the rules that apply to the ConfigMap with queues.yaml

A response is computed from the queue configuration and from the last published status of the pods. Times are
nanoseconds since the epoch. `vcore` is in thousandths of a core, and other resources are in whole units. An application
consists of all pods with the same application id in the same queue, and its state follows from the states of its pods.
Phalanx does not know the values of some of YuniKorn's fields. Responses leave these fields out; `LEFT_OUT` lists them
with the reasons.

Source: pkg/webservice (routes, handlers, dao) of apache/yunikorn-core (1.9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from phalanx import __version__
from phalanx.client.kind import NODES
from phalanx.dialects.frame.dialect import GangView, Object, Objects
from phalanx.dialects.frame.pod_requests import amounts as kubernetes_amounts
from phalanx.dialects.yunikorn.checks import DEFAULT_PARTITION, added, amounts, least, percent, read
from phalanx.dialects.yunikorn.configuration import (
    ChildTemplate,
    PlacementRule,
    QueueBranch,
    QueuePartition,
    YuniKornConfiguration,
    YuniKornConfigurationError,
)
from phalanx.dialects.yunikorn.dialect import YuniKornDefinitions
from phalanx.dialects.yunikorn.gangs import GROUPS, OF_APPLICATION, QUEUE_PREFIX, TASK_GROUP, USER, application_id
from phalanx.dialects.yunikorn.journal import (
    application_state,
    error,
    has_node,
    is_over,
    is_refused,
    resource_of,
    theirs,
)
from phalanx.dialects.yunikorn.queues import counted_group, limits_of, properties_of, whole
from phalanx.model.queue import Limits

LEFT_OUT: Final[Mapping[str, str]] = {
    "clusters: `startTime`": "the scheduler's state does not have it",
    "partitions: `lastStateTransitionTime`": "the partition is always Active",
    "queues: `preemptingResource`": "capacity that is being released is not counted separately",
    "queues: `currentPriority`, `allocatingAcceptedApps`": "they have no effect in Phalanx",
    "applications: `maxUsedResource`, `stateLog`, `startTime`, `finishedTime`, `resourceHistory`": "no history is kept",
    "applications, nodes: `placeholderData`, `reservations`": "always empty: a waiting application holds no capacity",
    "applications: `backoffDeadline`, `maxRequestPriority`": "Phalanx has no back-off of this kind",
    "allocations: `allocationTime`, `allocationDelay`": "see the condition PodScheduled of the pod",
    "nodes: `occupied`, `available`, `foreignAllocations`": "pods of other schedulers are in `phalanx nodes`",
    "nodes: `attributes`, `rackName`": "the Node object has the labels",
}
_MISSING = "this path does not exist; docs/dialects/yunikorn.md lists the paths that are served"
_ACTIVE, _REJECTED, _COMPLETED = ("Accepted", "Running"), "Rejected", "Completed"
_STATUSES = ("new", "accepted", "running", "completing", "failing", "resuming")  # YuniKorn's active states
_NONE = YuniKornConfiguration(
    partitions=(QueuePartition(name=DEFAULT_PARTITION, queues=(QueueBranch(name="root", submit_acl="*"),)),)
)
_NS = 10**9
_BUCKETS = 10
_LONGEST = 256  # responses show at most this many characters of the name of a queue that does not exist
Resources = dict[str, int]
Json = Any


def dashboards(
    defined: YuniKornDefinitions,
    everyone: Iterable[GangView],
    objects: Objects,
    path: tuple[str, ...],
    query: Mapping[str, str],
) -> Object | list[Object]:
    """Return the response to a GET request for a path below `/ws`. An error is an object with a `status_code`.
    `defined`: the parsed queue configuration. `everyone`: the status of each gang. `objects`: the nodes, among other
    objects. `query`: the query parameters."""
    seen = _Seen.of(defined, everyone, objects)
    match path:
        case ("v1", "clusters"):
            build = [{"buildVersion": __version__, "rmId": "phalanx"}]
            return [{"clusterName": "kubernetes", "partition": DEFAULT_PARTITION, "rmBuildInformation": build}]
        case ("v1", "partitions"):
            return [_partition(seen)]
        case ("v1", "config"):
            return error(404, defined.fault) if defined.fault else dict(msgspec.to_builtins(seen.configuration))
        case ("v1", "scheduler", "node-utilizations"):
            return [{"clusterId": "phalanx", "partition": DEFAULT_PARTITION, "utilizations": _utilizations(seen)}]
        case ("v1", "scheduler", "healthcheck"):
            return _health(defined)
        case ("v1", "partition", name, *rest) if name.lower() == DEFAULT_PARTITION:
            return _in_partition(seen, tuple(rest), query)
        case ("v1", "partition", _, *_):
            return error(404, "Partition not found")
    return error(404, _MISSING)


def validated(body: bytes) -> Object:
    """Return the response to a posted queue configuration: whether it is valid, and if not, the reason."""
    try:
        read(body.decode("utf-8", "replace"))
    except YuniKornConfigurationError as fault:
        return {"allowed": False, "reason": str(fault)}
    return {"allowed": True}


# --- inside: applications ---------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Application:
    """An application: the pods with the same application id in the same queue. `queue`: the full name of the queue;
    empty if the queue does not exist. `asked`: the name of the queue in responses, even if the queue does not exist.
    `allocations`: its pods on nodes, in YuniKorn's form. `requests`: its waiting pods, in YuniKorn's form. `used`: the
    sum of the requests of pods on nodes. `pending`: the sum of the requests of waiting pods. `since_ns`: its submission
    time. `rejected`: the reason why the application may not start. `group`: the group to which it is charged.
    `namespace`: the namespace of its first pod."""

    id: str
    queue: str
    asked: str
    user: str
    groups: tuple[str, ...]
    allocations: list[Object] = field(default_factory=list)
    requests: list[Object] = field(default_factory=list)
    used: Resources = field(default_factory=dict)
    pending: Resources = field(default_factory=dict)
    since_ns: int = 0
    rejected: str = ""
    group: str = ""
    namespace: str = ""

    @property
    def state(self) -> str:
        return application_state(
            running=bool(self.allocations), waiting=bool(self.requests), refused=bool(self.rejected)
        )

    def json(self) -> Object:
        return {
            "applicationID": self.id,
            "usedResource": self.used,
            "pendingResource": self.pending,
            "partition": DEFAULT_PARTITION,
            "queueName": self.asked,
            "submissionTime": self.since_ns,
            "requests": self.requests,
            "allocations": self.allocations,
            "applicationState": self.state,
            "user": self.user,
            "groups": list(self.groups),
            "rejectedMessage": self.rejected if self.state == _REJECTED else "",
            "placeholderData": [],
            "hasReserved": False,
            "reservations": [],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    configuration: YuniKornConfiguration
    partition: QueuePartition
    applications: tuple[_Application, ...]
    nodes: Mapping[str, Object]
    below: Mapping[str, Sequence[_Application]]  # full name of a queue -> applications in it and in queues below it
    root: QueueBranch  # the root queue, with the queues that placement rules created
    written: Collection[str]  # full names of the queues of the configuration

    @classmethod
    def of(cls, defined: YuniKornDefinitions, everyone: Iterable[GangView], objects: Objects) -> _Seen:
        configuration = defined.configuration or _NONE
        found = (each for each in configuration.partitions if each.name == DEFAULT_PARTITION)
        applications = _applications(defined, everyone)
        partition = next(found, _NONE.partitions[0])
        root = (partition.queues or _NONE.partitions[0].queues or ())[0]
        return cls(
            configuration=configuration,
            partition=partition,
            applications=applications,
            nodes=objects.get(NODES, {}),
            below=_below(applications),
            root=_with_made(defined, root, applications),
            written=frozenset(defined.named) or {root.name.lower()},
        )

    def capacity(self) -> Resources:
        return added(_allocatable(node) for node in self.nodes.values())


def _with_made(defined: YuniKornDefinitions, root: QueueBranch, applications: Iterable[_Application]) -> QueueBranch:
    """Return the root queue with all queues below it, including the queues that placement rules created for these
    applications."""
    made = {one.queue: one.namespace for one in applications if one.queue not in defined.named}
    for queue, namespace in made.items():
        if (found := defined.made(queue, namespace)) is not None:
            root = _with(root, found.above.split(".")[1:], found.branch)
    return root


def _with(queue: QueueBranch, path: Sequence[str], child: QueueBranch) -> QueueBranch:
    """Return `queue`, extended by the queue `child`. `path`: the names of the queues from `queue` down to the parent of
    `child`. If the parent already has a queue with the name of `child`, the children of `child` are added to that
    queue."""
    by_name = {one.name.lower(): one for one in queue.queues}
    name = path[0] if path else child.name
    if path:
        by_name[name] = _with(by_name[name], path[1:], child)
    elif name in by_name:
        for one in child.queues:
            by_name[name] = _with(by_name[name], (), one)
    else:
        by_name[name] = child
    return replace(queue, queues=tuple(by_name.values()))


def _below(applications: Iterable[_Application]) -> Mapping[str, list[_Application]]:
    """Return a mapping from the full name of a queue to the applications in it and in all queues below it."""
    found: dict[str, list[_Application]] = {}
    for one in applications:
        queue = one.queue
        while queue:
            found.setdefault(queue, []).append(one)
            queue = queue.rpartition(".")[0]
    return found


def _applications(defined: YuniKornDefinitions, everyone: Iterable[GangView]) -> tuple[_Application, ...]:
    full_names = {short: full for full, short in defined.named.items()}
    found: dict[tuple[str, str], _Application] = {}
    for told in everyone:
        refused = is_refused(told)
        leaf = told.queue.partition(OF_APPLICATION)[0]
        queue = full_names.get(leaf, "") if defined.named or defined.fault else "root"
        name = leaf.removeprefix(QUEUE_PREFIX)
        if not queue and not refused and defined.made(name, told.namespace) is not None:
            queue = name
        asked = queue or name[:_LONGEST]
        for pod in told.owners:
            key = (asked, application_id(pod["metadata"]))
            application = found.get(key)
            if application is None:
                groups = tuple(filter(None, told.options.get(GROUPS, "").split(",")))
                user = told.options.get(USER, "nobody")
                application = _Application(
                    id=key[1],
                    queue=queue,
                    asked=asked,
                    user=user,
                    groups=groups,
                    group=counted_group(defined.limited, defined.tree.nearest(queue), groups),
                    namespace=told.namespace,
                )
                found[key] = application
            at_ns = int(told.created_s) * _NS
            application.since_ns = min(application.since_ns or at_ns, at_ns)
            _enter(application, pod, at_ns)
            if refused and told.reason is not None:
                application.rejected = told.reason.text
    for one in found.values():
        one.used = added(each["resource"] for each in one.allocations)
        one.pending = {} if one.state == _REJECTED else added(each["resource"] for each in one.requests)
    return tuple(sorted(found.values(), key=lambda one: (one.since_ns, one.id, one.asked)))


def _enter(application: _Application, pod: Object, at_ns: int) -> None:
    meta, spec = pod["metadata"], pod.get("spec") or {}
    if is_over(pod):
        return
    tags = {"kubernetes.io/meta/namespace": meta["namespace"], "kubernetes.io/meta/podName": meta["name"]}
    shown = {
        "allocationKey": meta["uid"],
        "allocationTags": tags,
        "requestTime": at_ns,
        "resource": resource_of(pod),
        "priority": str(spec.get("priority") or 0),
        "applicationId": application.id,
        "taskGroupName": str((meta.get("annotations") or {}).get(TASK_GROUP, "")),
    }
    if has_node(pod):
        application.allocations.append({**shown, "nodeId": spec["nodeName"], "placeholder": False})
    else:
        application.requests.append({**shown, "placeholder": False})


# --- inside: the responses --------------------------------------------------------------------------------------------


def _in_partition(seen: _Seen, path: tuple[str, ...], query: Mapping[str, str]) -> Object | list[Object]:
    match path:
        case ("queues",):
            return _queue(seen, seen.root, "", {}, seen.capacity(), deep=True)
        case ("queue", name, *rest):
            return _in_queue(seen, name.lower(), tuple(rest), query)
        case ("applications", state):
            return _listed(seen.applications, state, query)
        case ("application", id):
            return _one([one.json() for one in seen.applications if one.id == id], "Application not found")
        case ("nodes",):
            return _nodes(seen, sorted(seen.nodes))
        case ("node", name):
            return _one(_nodes(seen, [name] if name in seen.nodes else []), "Node not found")
        case ("placementrules",):
            rules = seen.partition.placement_rules or (PlacementRule(name="provided"),)
            return [{"partition": DEFAULT_PARTITION, "rules": [_rule(one) for one in rules]}]
        case ("usage", "users"):
            return _users(seen)
        case ("usage", "user", user):
            return _one(_users(seen, user), "User not found")
        case ("usage", "groups"):
            return _groups(seen)
        case ("usage", "group", group):
            return _one(_groups(seen, group), "Group not found")
    return error(404, _MISSING)


def _in_queue(seen: _Seen, name: str, path: tuple[str, ...], query: Mapping[str, str]) -> Object | list[Object]:
    found = next((entry for entry in _branches(seen) if entry[0] == name), None)
    if found is None:
        return error(404, "Queue not found")
    own = [one for one in seen.applications if one.queue == name]
    match path:
        case ():
            _, branch, parent, above, most = found
            return _queue(seen, branch, parent, above, most, deep="subtree" in query)
        case ("applications",):
            return [one.json() for one in own]
        case ("applications", state):
            return _listed(own, state, query)
        case ("application", id):
            return _one([one.json() for one in own if one.id == id], "Application not found")
    return error(404, _MISSING)


def _one(found: Sequence[Object], missing: str) -> Object:
    return found[0] if found else error(404, missing)


def _listed(applications: Iterable[_Application], state: str, query: Mapping[str, str]) -> Object | list[Object]:
    """Return the applications in a state. `state`: `active`, `rejected` or `completed`, from the path of the request.
    With the state `active`, the query parameter `status` may select one of the active states."""
    wanted = {"active": _ACTIVE, "rejected": (_REJECTED,), "completed": (_COMPLETED,)}.get(state.lower())
    if wanted is None:
        return error(400, "Only following application states are allowed: active, rejected, completed")
    if (status := query.get("status", "").lower()) and state.lower() == "active":
        if status not in _STATUSES:
            return error(400, f"Only following active statuses are allowed: {','.join(_STATUSES)}")
        wanted = tuple(one for one in wanted if one.lower() == status)
    return [one.json() for one in applications if one.state in wanted]


def _partition(seen: _Seen) -> Object:
    capacity, used = seen.capacity(), added(one.used for one in seen.applications)
    counts: dict[str, int] = {"total": len(seen.applications)}
    for one in seen.applications:
        counts[one.state] = counts.get(one.state, 0) + 1
    policy = seen.partition.node_sort_policy
    return {
        "clusterId": "phalanx",
        "name": DEFAULT_PARTITION,
        "capacity": {"capacity": capacity, "usedCapacity": used, "utilization": percent(used, capacity)},
        "nodeSortingPolicy": {"type": policy.type or "fair", "resourceWeights": policy.resource_weights},
        "preemptionEnabled": seen.partition.preemption.enabled is not False,
        "quotaPreemptionEnabled": seen.partition.preemption.quota_preemption_enabled is True,
        "totalNodes": len(seen.nodes),
        "applications": counts,
        "totalContainers": sum(len(one.allocations) for one in seen.applications),
        "state": "Active",
    }


# full name of a queue, the queue, full name of its parent, properties of the parent, maximum amounts of the parent
_Entry = tuple[str, QueueBranch, str, Mapping[str, str], Resources]


def _branches(seen: _Seen) -> Iterator[_Entry]:
    """Yield all queues; each queue comes after its parent."""
    rest: list[_Entry] = [(seen.root.name.lower(), seen.root, "", {}, seen.capacity())]
    while rest:
        entry = rest.pop()
        yield entry
        full, branch, _, above, most = entry
        down = properties_of(branch, above)
        bound = least(most, amounts(branch.resources.max))
        rest += [(f"{full}.{one.name.lower()}", one, full, down, bound) for one in branch.queues]


def _queue(
    seen: _Seen, branch: QueueBranch, parent: str, above: Mapping[str, str], most: Resources, *, deep: bool
) -> Object:
    """Return a queue as YuniKorn's JSON. `parent`: the full name of the queue above it. `above`: the properties of the
    queue above it. `most`: the maximum amounts that the queues above it allow; for the root, the capacity of all nodes.
    `deep`: whether to include the queues below it."""
    full = f"{parent}.{branch.name}".strip(".").lower()
    mine = amounts(branch.resources.max)
    bound, properties, inside = least(most, mine), properties_of(branch, above), seen.below.get(full, ())
    used, names = added(one.used for one in inside), [f"{full}.{one.name.lower()}" for one in branch.queues]
    preemption = properties.get("preemption.policy", "").lower()
    policy = properties.get("application.sort.policy", "fifo").lower()
    return {
        "queuename": full,
        "status": "Active",
        "partition": DEFAULT_PARTITION,
        "pendingResource": added(one.pending for one in inside),
        "maxResource": mine if parent else most,
        "guaranteedResource": amounts(branch.resources.guaranteed),
        "allocatedResource": used,
        "headroom": {name: max(0, amount - used.get(name, 0)) for name, amount in bound.items()},
        "isLeaf": not (branch.queues or branch.parent),
        "isManaged": full in seen.written,
        "properties": properties,
        **_template(branch.child_template),
        "parent": parent,
        "children": [_queue(seen, one, full, properties, bound, deep=True) for one in branch.queues] if deep else [],
        "childNames": names,
        "absUsedCapacity": percent(used, bound),
        "maxRunningApps": branch.max_applications,
        "runningApps": sum(one.state == "Running" for one in inside),
        "sortingPolicy": "fair" if branch.queues or policy == "fair" else "fifo",
        "prioritySorting": properties.get("application.sort.priority", "").lower() != "disabled",
        "preemptionEnabled": seen.partition.preemption.enabled is not False and preemption != "disabled",
        "isPreemptionFence": preemption == "fence",
        "preemptionDelay": properties.get("preemption.delay", "30s"),
        "quotaPreemptionDelay": properties.get("quota.preemption.delay", "0s"),
        "isPriorityFence": properties.get("priority.policy", "").lower() == "fence",
        "priorityOffset": whole(properties.get("priority.offset", "")),
    }


def _template(said: ChildTemplate) -> Object:
    if said == ChildTemplate():
        return {}
    found = {
        "maxApplications": said.max_applications,
        "properties": said.properties,
        "maxResource": amounts(said.resources.max),
        "guaranteedResource": amounts(said.resources.guaranteed),
    }
    return {"template": found}


def _nodes(seen: _Seen, names: Sequence[str]) -> list[Object]:
    here: dict[str, list[Object]] = {name: [] for name in names}
    for application in seen.applications:
        for one in application.allocations:
            if one["nodeId"] in here:
                here[one["nodeId"]].append(one)
    return [_node(name, seen.nodes[name], allocations) for name, allocations in here.items()]


def _node(name: str, node: Object, here: list[Object]) -> Object:
    capacity, used = _allocatable(node), added(one["resource"] for one in here)
    return {
        "nodeID": name,
        "hostName": (node["metadata"].get("labels") or {}).get("kubernetes.io/hostname", name),
        "capacity": capacity,
        "allocated": used,
        "utilized": percent(used, capacity),
        "allocations": here,
        "schedulable": not (node.get("spec") or {}).get("unschedulable", False),
        "isReserved": False,
        "reservations": [],
    }


def _utilizations(seen: _Seen) -> list[Object]:
    """Return a histogram for each resource: the nodes that use 0 to 10 % of their amount, 10 to 20 %, and so on."""
    found: dict[str, list[list[str]]] = {}
    for node in _nodes(seen, sorted(seen.nodes)):
        for resource in node["capacity"]:
            tenths = found.setdefault(resource, [[] for _ in range(_BUCKETS)])
            used = node["utilized"].get(resource, 0)
            tenths[min(_BUCKETS - 1, max(0, used - 1) // _BUCKETS)].append(node["nodeID"])
    return [
        {
            "type": resource,
            "utilization": [
                {"bucketName": f"{at * 10}-{at * 10 + 10}%", "numOfNodes": len(names), "nodeNames": names}
                for at, names in enumerate(tenths)
            ],
        }
        for resource, tenths in sorted(found.items())
    ]


def _users(seen: _Seen, only: str = "") -> list[Object]:
    own: dict[str, list[_Application]] = {}
    for one in seen.applications:
        if not only or one.user == only:
            own.setdefault(one.user, []).append(one)
    return [
        {
            "userName": user,
            "groups": {one.id: one.group for one in found if one.group},
            "queues": _queues_of(seen, found, _of_limits(0, user)),
        }
        for user, found in sorted(own.items())
    ]


def _groups(seen: _Seen, only: str = "") -> list[Object]:
    """Return the usage of each group to which applications are charged. `only`: if not empty, the only group to
    return."""
    own: dict[str, list[_Application]] = {}
    for one in seen.applications:
        if one.group and (not only or one.group == only):
            own.setdefault(one.group, []).append(one)
    return [
        {
            "groupName": group,
            "applications": [one.id for one in found],
            "queues": _queues_of(seen, found, _of_limits(1, group)),
        }
        for group, found in sorted(own.items())
    ]


Most = Callable[[tuple[Limits, Limits]], Limits]


def _of_limits(part: int, who: str) -> Most:
    """Return a function that selects the limits of one user or group from all limits of a queue. `part`: 0 for a user,
    1 for a group. `who`: the name of the user or group."""
    return lambda limits: limits[part].of(who)


def _queues_of(seen: _Seen, applications: Iterable[_Application], most: Most) -> Object:
    limits = {entry[0]: most(limits_of(entry[1].limits)) for entry in _branches(seen) if entry[1].limits}
    return _usage(_below(one for one in applications if one.state != _REJECTED), seen.root.name.lower(), limits)


def _usage(below: Mapping[str, Sequence[_Application]], queue: str, limits: Mapping[str, Limits]) -> Object:
    """Return the usage of one user or group in a queue, and in each queue below it where the user or group has
    applications. `below`: the applications of the user or group, by queue. `limits`: the limits of the user or group,
    by queue."""
    inside, most = below.get(queue, ()), limits.get(queue, Limits())
    depth = queue.count(".") + 2
    children = dict.fromkeys(".".join(one.queue.split(".")[:depth]) for one in inside if one.queue != queue)
    return {
        "queuePath": queue,
        "resourceUsage": added(one.used for one in inside),
        "runningApplications": [one.id for one in inside if one.state == "Running"],
        "maxResources": theirs(dict(most.resources)),
        "maxApplications": most.running or 0,
        "children": [_usage(below, child, limits) for child in children],
    }


def _rule(rule: PlacementRule) -> Object:
    filtered = {"type": rule.filter.type, "userList": list(rule.filter.users), "groupList": list(rule.filter.groups)}
    above = {"parentRule": _rule(rule.parent)} if rule.parent is not None else {}
    parameters = {"create": str(rule.create).lower(), **({"queue": rule.value} if rule.value else {})}
    return {"name": rule.name, "parameters": parameters, "filter": filtered, **above}


def _health(defined: YuniKornDefinitions) -> Object:
    check = {
        "Name": "Queue configuration",
        "Succeeded": not defined.fault,
        "Description": "Check that the queue configuration can be applied",
        "DiagnosisMessage": defined.fault or "applied",
    }
    return {"Healthy": not defined.fault, "HealthChecks": [check]}


# --- inside: amounts --------------------------------------------------------------------------------------------------


def _allocatable(node: Object) -> Resources:
    return theirs(kubernetes_amounts((node.get("status") or {}).get("allocatable")))
