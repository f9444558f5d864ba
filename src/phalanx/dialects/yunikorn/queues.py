"""Translate the queues of a YuniKorn configuration into Phalanx Queues, and list the fields that have no effect.

Each queue of the file becomes a Queue with the queue's full name (`root.tenants.group-a`). The name is in lower case,
because YuniKorn ignores case. Characters that are invalid in the name of an object are replaced by `-`. Properties are
inherited as in YuniKorn. `TABLE` states for every field of the file either the Phalanx field that gets its value, or
the reason why it has no effect. The notes for users are generated from `TABLE`.

A queue below its guarantee may preempt pods of other queues when its request is older than `preemption.delay`. The
victims have the same or a lower priority, and their queue uses more than its own guarantee.

The limits of users and groups in a queue also apply to all queues below it, as in YuniKorn. The limit that names a user
applies to that user. Every other user has the limit of `*`, each user separately. The limit of a group applies to all
its members together. An application is charged to one group only. To find this group, the limits are searched from the
application's queue up to the root. The first queue whose limits name a group of the user, or the group `*` (all users),
determines the group. All applications of the group `*` share one limit.

Source: pkg/scheduler/ugm of apache/yunikorn-core (1.9)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from phalanx.dialects.frame.fields import Becomes, Ignored, Use
from phalanx.dialects.schema.fields import LONGEST_S
from phalanx.dialects.yunikorn.checks import DEFAULT_PARTITION, amounts
from phalanx.dialects.yunikorn.configuration import ANYBODY, Limit, QueueBranch, QueuePartition, YuniKornConfiguration
from phalanx.model.queue import Limits, Queue

_SORT, _PRIORITY = "application.sort.policy", "application.sort.priority"
_OFFSET, _FENCE = "priority.offset", "priority.policy"
_PREEMPTION, _DELAY = "preemption.policy", "preemption.delay"
_QUOTA_DELAY = "quota.preemption.delay"
_INHERITED = (_SORT, _PRIORITY, _DELAY, _QUOTA_DELAY)
_DELAY_S, _GO_UNITS_S = 30.0, {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_GO_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_ACCESS = Becomes(
    "Claim.blocked",
    "the jobs of users who may not submit to the queue wait with this reason; users in "
    "`adminacl` may submit, too; both lists also apply to all queues below",
)
_RULES = Becomes(
    "Job.queue", "the queue of pods with `schedulerName: yunikorn`; a rule with `create` creates this queue"
)
_BACKOFF = Ignored("Phalanx tries a job that does not fit again only after a change in the cluster")
_TEMPLATE = Becomes("Queue", "the settings of leaf queues that placement rules create")

_MIGRATED = {
    "partitions[].placementrules": "no rule chooses a Phalanx Queue: jobs name it in the label phalanx.dev/queue",
    "queues[].adminacl": "a Phalanx Queue accepts jobs of all users: use RBAC to restrict who may create jobs in a "
    "namespace",
    "queues[].submitacl": "a Phalanx Queue accepts jobs of all users: use RBAC to restrict who may create jobs in a "
    "namespace",
    "queues[].childtemplate": "no rule creates a Phalanx Queue: write the Queue yourself",
}

TABLE: Mapping[str, Use] = {
    "partitions[].name": Becomes("–", "only the partition `default` is read; queues of other partitions are left out"),
    "partitions[].placementrules": _RULES,
    "partitions[].limits": Becomes("limits of root"),
    "partitions[].preemption.enabled": Becomes(
        "Queue.preemption", "`false`: no queue preempts to reclaim its guarantee"
    ),
    "partitions[].preemption.quotapreemptionenabled": Becomes(
        "Queue.preemption",
        "with `false`, the default, no job is preempted because its queue uses more than a quota that was lowered",
    ),
    "partitions[].nodesortpolicy": Ignored(
        "use the policy's setting `score: pack` in place of binpacking, or `score: spread` in place of fair"
    ),
    "partitions[].usergroupresolver": Ignored("the API server determines users and groups"),
    "queues[].name": Becomes("Queue.name", "the full name of the queue, in lower case"),
    "queues[].parent": Becomes(
        "–", "applications run only in leaf queues; placement rules may create queues below a queue with `parent: true`"
    ),
    "queues[].resources.guaranteed": Becomes(
        "Quota.guaranteed", "`vcore` is `cpu`; other queues may borrow the unused part"
    ),
    "queues[].resources.max": Becomes("Quota.limit", "`vcore` is `cpu`; an explicit 0 forbids the resource"),
    "queues[].maxapplications": Becomes("Limits.running", "the maximum number of running jobs in the queue"),
    "queues[].adminacl": _ACCESS,
    "queues[].submitacl": _ACCESS,
    "queues[].childtemplate": _TEMPLATE,
    "queues[].limits[].limit": Becomes("–", "a text for people only"),
    "queues[].limits[].users": Becomes(
        "Limits per user",
        "the limit applies to each named user separately; `*` stands for each user whom no other limit names",
    ),
    "queues[].limits[].groups": Becomes(
        "Limits per group",
        "the limit applies to all members of a group together; "
        "an application is charged to one group only, as in YuniKorn",
    ),
    "queues[].limits[].maxresources": Becomes("Limits.resources"),
    "queues[].limits[].maxapplications": Becomes(
        "Limits.running", "the maximum number of running jobs of the user or group"
    ),
    _SORT: Becomes(
        "Queue.order",
        "`fifo`: applications are ordered by priority, then by age; `fair`: the application with the "
        "lowest usage is next",
    ),
    _PRIORITY: Becomes(
        "Queue.order", "`disabled`: priorities do not count; applications are ordered only by age, or by usage"
    ),
    _OFFSET: Becomes(
        "Queue.priority", "added to the priorities of the queue's jobs when they compete with jobs of other queues"
    ),
    _FENCE: Becomes(
        "Queue.fenced", "`fence`: only the offset counts when the queue's jobs compete with jobs of other queues"
    ),
    _PREEMPTION: Becomes(
        "Queue.preemption",
        "`disabled`: jobs of the queue are not preempted; `fence`: jobs of the queue preempt no job "
        "outside of the queue",
    ),
    _DELAY: Becomes("Preemption.delay_s"),
    _QUOTA_DELAY: Becomes(
        "QueuePreemption.excess_delay_s",
        "the time after which usage above the quota is preempted; with 0, the default, it is not preempted",
    ),
    "application.unschedasks.backoff": _BACKOFF,
    "application.unschedasks.backoff.delay": _BACKOFF,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note for users that a field of the file has no effect in Phalanx, or another effect than in YuniKorn. `where`:
    the queue or the partition that has the field. `why`: the reason."""

    where: str
    field: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A translated configuration. `queues`: name of a Phalanx Queue -> the spec of the Queue; parents come before their
    children. `notes`: the fields that have no effect. `names`: full name of a YuniKorn queue -> name of its Phalanx
    Queue. `limits`: name of a Phalanx Queue -> the limits of users and groups in it."""

    queues: Mapping[str, dict[str, object]]
    notes: tuple[Note, ...]
    names: Mapping[str, str]
    limits: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)


def translate(found: YuniKornConfiguration) -> Translation:
    """Return the translated queues of the partition `default`. `found`: a configuration that `checks.read` has parsed
    and checked."""
    work = _Work()
    for partition in found.partitions:
        if partition.name == DEFAULT_PARTITION:
            work.partition(partition)
        else:
            why = "only the partition `default` is read; this partition is left out"
            work.note(f"partition {partition.name}", "partitions[].name", why)
    return Translation(queues=work.queues, notes=tuple(work.notes), names=work.names, limits=work.limits_of)


def translate_made(branch: QueueBranch, properties: Mapping[str, str], *, reclaim: bool) -> Translation:
    """Return the translated queues that a placement rule creates. `branch`: the topmost of these queues. `properties`:
    the properties of the queue above it. `reclaim`: whether preemption is enabled in the partition."""
    work = _Work(reclaim=reclaim)
    work.queue(branch, "", "", properties)
    return Translation(queues=work.queues, notes=(), names=work.names)


def properties_of(queue: QueueBranch, above: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a queue, with the properties that it inherits. `above`: the properties of the queue
    above it, in the same form."""
    found = {**{key: above[key] for key in _INHERITED if key in above}, **queue.properties}
    return {**found, _PREEMPTION: "disabled"} if above.get(_PREEMPTION) == "disabled" else found


def fair_leaves(queue: QueueBranch, prefix: str, above: Mapping[str, str]) -> Iterator[str]:
    """Yield the full name of each leaf queue whose property `application.sort.policy` is `fair`, at and below `queue`.
    `prefix`: the full name of the queue above `queue`, with a dot at its end. `above`: the properties of that queue."""
    name, properties = f"{prefix}{queue.name}".lower(), properties_of(queue, above)
    if not queue.queues and properties.get(_SORT, "").lower() == "fair":
        yield name
    for child in queue.queues:
        yield from fair_leaves(child, f"{name}.", properties)


def whole(text: str) -> int:
    """Return the whole number that is the value of a property; 0, YuniKorn's default, if the value is invalid."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text.strip()) else 0


# --- internal ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Work:
    queues: dict[str, dict[str, object]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    limits_of: dict[str, tuple[Limit, ...]] = field(default_factory=dict)
    reclaim: bool = True
    trims: bool = False

    def note(self, where: str, name: str, why: str = "") -> None:
        use = TABLE[name]
        why = why or (use.why if isinstance(use, Ignored) else "it has another effect in Phalanx")
        self.notes.append(Note(where=where, field=name.rpartition("[].")[2], why=why))

    def partition(self, partition: QueuePartition) -> None:
        self.reclaim = partition.preemption.enabled is not False
        self.trims = partition.preemption.quota_preemption_enabled is True
        said = {
            "partitions[].placementrules": partition.placement_rules,
            "partitions[].nodesortpolicy": partition.node_sort_policy.type,
            "partitions[].usergroupresolver": partition.user_group_resolver.type,
        }
        for name, value in said.items():
            if value:
                self.note(f"partition {partition.name}", name, _MIGRATED.get(name, ""))
        for root in partition.queues or ():
            self.queue(root, "", "", {})

    def queue(
        self, queue: QueueBranch, parent: str, prefix: str, above: Mapping[str, str], *, guaranteed: bool = False
    ) -> None:
        """Translate `queue` and all queues below it. `parent`: the Phalanx Queue of the queue above it. `prefix`: the
        full name of the queue above it, with a dot at its end. `above`: the properties of the queue above it.
        `guaranteed`: whether any queue above it has a guarantee."""
        guaranteed = guaranteed or any(amounts(queue.resources.guaranteed).values())
        full = f"{prefix}{queue.name}".lower()
        name = self.names[full] = self.name(f"{parent}.{queue.name}".strip(".").lower())
        properties = properties_of(queue, above)
        spec: dict[str, Any] = {"parent": parent} if parent else {}
        spec |= _quotas(queue)
        if order := _order(queue, properties):
            spec["order"] = order
        if properties.get(_FENCE, "").lower() == "fence":
            spec["fenced"] = True
        if offset := whole(properties.get(_OFFSET, "")):
            spec["priority"] = offset
        if preemption := self.preemption(queue, properties, guaranteed=guaranteed):
            spec["preemption"] = preemption
        if limits := self.limits(name, queue):
            spec["limits"] = limits
        self.limits_of[name] = queue.limits
        self.queues[name] = spec
        self.without_effect(name, queue)
        for child in queue.queues:
            self.queue(child, name, f"{full}.", properties, guaranteed=guaranteed)

    def name(self, full: str) -> str:
        """Return a name for the Phalanx Queue of the queue with this full name. It is a valid name of an object, and no
        other queue of the file has it."""
        said = re.sub(r"[^a-z0-9.-]", "-", full)
        plain = ".".join(part.strip("-") or "queue" for part in said.split("."))
        found = next(name for name in _numbered(plain) if name not in self.queues)
        if found != full:
            self.note(full, "queues[].name", f"this is not a valid name of an object; the Queue is {found!r}")
        return found

    def preemption(self, queue: QueueBranch, properties: Mapping[str, str], *, guaranteed: bool) -> dict[str, object]:
        """Return the field `preemption` of the Phalanx Queue. `guaranteed`: whether the queue, or a queue above it, has
        a guarantee."""
        found: dict[str, Any] = {}
        if properties.get(_PREEMPTION, "").lower() == "disabled":
            found["minRun"] = LONGEST_S
        if properties.get(_PREEMPTION, "").lower() == "fence":
            found["fence"] = True
        if self.reclaim and guaranteed:
            found |= {"reclaim": "lower-or-equal", "delay": _go_duration_s(properties.get(_DELAY, "")) or _DELAY_S}
        if self.trims and queue.resources.max and (delay_s := _go_duration_s(properties.get(_QUOTA_DELAY, ""))):
            found["excessDelay"] = delay_s
        return found

    def limits(self, name: str, queue: QueueBranch) -> dict[str, object]:
        found: dict[str, Any] = {}
        if queue.max_applications:
            found["total"] = {"running": queue.max_applications}
        for limit in queue.limits:
            if ANYBODY in limit.users:
                found["perUser"] = _limit(limit)
            if others := [user for user in limit.users if user != ANYBODY]:
                why = (
                    f"it is a limit for {', '.join(others)} only, and a Queue has one limit for all users: create "
                    "a child queue for each of them"
                )
                self.note(name, "queues[].limits[].users", why)
            if limit.groups:
                why = "a Queue has one limit for all groups: create a child queue for the group"
                self.note(name, "queues[].limits[].groups", why)
        return found

    def without_effect(self, name: str, queue: QueueBranch) -> None:
        for field_name, value in (("adminacl", queue.admin_acl), ("submitacl", queue.submit_acl)):
            if value.strip() not in {"", ANYBODY}:
                self.note(name, f"queues[].{field_name}", _MIGRATED[f"queues[].{field_name}"])
        if (made := queue.child_template).max_applications or made.properties or made.resources.max:
            self.note(name, "queues[].childtemplate", _MIGRATED["queues[].childtemplate"])
        for key in sorted(queue.properties):
            if key not in TABLE:
                self.notes.append(Note(where=name, field=key, why="YuniKorn does not know this property either"))
            elif isinstance(TABLE[key], Ignored):
                self.note(name, key)


def _order(queue: QueueBranch, properties: Mapping[str, str]) -> str:
    """Return the field `order` of the Phalanx Queue; empty for the default. In a parent queue, the child queue that
    uses the smallest part of its quota comes first. A leaf with the sort policy `fair` chooses among its applications
    in the same way, because each application of such a leaf is a Phalanx Queue below the leaf."""
    by_priority = properties.get(_PRIORITY, "").lower() != "disabled"
    if queue.queues or queue.parent or properties.get(_SORT, "fifo").lower() == "fair":
        return "fill" if by_priority else "fair"
    return "" if by_priority else "fifo"


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1


def _quotas(queue: QueueBranch) -> dict[str, object]:
    quota = {
        name: _amounts(said)
        for name, said in (("guaranteed", queue.resources.guaranteed), ("limit", queue.resources.max))
        if said
    }
    return {"quotas": [quota]} if quota else {}


def _limit(limit: Limit) -> dict[str, object]:
    most = _amounts(limit.max_resources)
    running = {"running": limit.max_applications} if limit.max_applications else {}
    return {**running, **({"resources": most} if most else {})}


def _amounts(written: Mapping[str, str]) -> dict[str, str]:
    """Return amounts of a YuniKorn configuration as Kubernetes quantities. YuniKorn's amounts differ from Kubernetes
    quantities only in that they may contain blanks."""
    return {"cpu" if name == "vcore" else name: "".join(text.split()) for name, text in written.items()}


def _go_duration_s(text: str) -> float:
    """Return a Go duration like `1m30s` in seconds; 0 if it is invalid, so that YuniKorn's default applies."""
    parts = _GO_DURATION.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        return 0.0
    return min(sum(float(number) * _GO_UNITS_S[unit] for number, unit in parts), LONGEST_S)


# full name of a queue -> the groups in the limits of the queue, then the groups in the limits of each queue above it
LimitedGroups = Mapping[str, tuple[tuple[str, ...], ...]]
_NOBODY = Limits()


def limits_of(limits: Sequence[Limit]) -> tuple[Limits, Limits]:
    """Return the limits of users and the limits of groups in a queue. `limits`: the entries of its field `limits`."""
    users = {name: _read(limit) for limit in limits for name in limit.users}
    groups = {name: _read(limit) for limit in limits for name in limit.groups}
    rest = users.pop(ANYBODY, _NOBODY)
    return replace(rest, named=tuple(users.items())), Limits(named=tuple(groups.items()))


def limited_groups(roots: Sequence[QueueBranch]) -> LimitedGroups:
    """Return for each queue the groups that are named by limits of the queue or of queues above it."""
    return dict(entry for root in roots for entry in _groups(root, "", ()))


def counted_group(limited: LimitedGroups, queue: str, groups: Sequence[str]) -> str:
    """Return the group to which an application is charged; empty if there is none. `queue`: the full name of the
    application's queue. `groups`: the groups of its user."""
    for named in limited.get(queue, ()):
        if found := next((name for name in named if name in groups), ANYBODY if ANYBODY in named else ""):
            return found
    return ""


def with_limits(queue: Queue, limits: Sequence[Limit]) -> Queue:
    """Return a copy of `queue` that has these limits of users and groups."""
    if not limits:
        return queue
    users, groups = limits_of(limits)
    return replace(queue, per_user=users, per_group=groups)


def _read(limit: Limit) -> Limits:
    most = {"cpu" if name == "vcore" else name: amount for name, amount in amounts(limit.max_resources).items()}
    return Limits(running=limit.max_applications or None, resources=tuple(sorted(most.items())))


def _groups(
    queue: QueueBranch, prefix: str, above: tuple[tuple[str, ...], ...]
) -> Iterator[tuple[str, tuple[tuple[str, ...], ...]]]:
    name = f"{prefix}{queue.name}".lower()
    own = tuple(group for limit in queue.limits for group in limit.groups)
    here = (own, *above) if own else above
    yield name, here
    for child in queue.queues:
        yield from _groups(child, f"{name}.", here)
