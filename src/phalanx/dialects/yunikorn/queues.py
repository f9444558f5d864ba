"""Translates the queues of a YuniKorn configuration into Phalanx Queues, and notes the fields without an effect.

Each queue of the file becomes a Queue under its full name (`root.tenants.group-a`). The name is in lower case, because
YuniKorn ignores case, and characters that are invalid in an object name are replaced by `-`. Properties are inherited
as in YuniKorn. `TABLE` says for every field into which field it is translated, or why it has no effect; the notes are
generated from it.

A queue reclaims its guarantee for a request that is older than `preemption.delay`, from requests of the same or a lower
priority, and from no queue that is below its own guarantee.

Limits of users and groups on a queue and all below it, as YuniKorn counts them.

A user's limit is the one under the user's name, or else the one of `*`, which each user has separately. A group's
limit is for all members together. An application counts for one group only: the search goes from its queue up to the
root, and takes the first group that a limit names and that the user is in, or else the group `*` if a limit names it.
All applications of the group `*` share one limit.

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
    "jobs of users without the right wait with that reason; admin implies submit, also for all queues below",
)
_RULES = Becomes("Job.queue", "of pods with `schedulerName: yunikorn`; with `create`, queues are made for them")
_BACKOFF = Ignored("a job that fits no node is not tried again until something changes")
_TEMPLATE = Becomes("Queue", "for leaves that placement rules create")

_MIGRATED = {
    "partitions[].placementrules": "no rule chooses a queue of ours: a job says it by phalanx.dev/queue",
    "queues[].adminacl": "who may create jobs in a namespace is for RBAC to say; a queue of ours refuses nobody",
    "queues[].submitacl": "who may create jobs in a namespace is for RBAC to say; a queue of ours refuses nobody",
    "queues[].childtemplate": "no rule makes a queue of ours: write the queue",
}

TABLE: Mapping[str, Use] = {
    "partitions[].name": Becomes(
        "–", "only `default`: a cluster is one partition; queues of other partitions are left out"
    ),
    "partitions[].placementrules": _RULES,
    "partitions[].limits": Becomes("limits of root"),
    "partitions[].preemption.enabled": Becomes("Queue.preemption", "`false`: no queue reclaims"),
    "partitions[].preemption.quotapreemptionenabled": Becomes(
        "Queue.preemption", "`false`, the default: usage above a lowered quota is not preempted"
    ),
    "partitions[].nodesortpolicy": Ignored(
        "a setting of the policy: `score: pack` for binpacking, `score: spread` for fair"
    ),
    "partitions[].usergroupresolver": Ignored("users and groups are those of the API server"),
    "queues[].name": Becomes("Queue.name", "the full name, in lower case"),
    "queues[].parent": Becomes("–", "applications run in leaves; queues that rules create may be below a parent"),
    "queues[].resources.guaranteed": Becomes("Quota.guaranteed", "`vcore` is `cpu`; it can be lent whole"),
    "queues[].resources.max": Becomes("Quota.limit", "`vcore` is `cpu`; an explicit 0 forbids the resource"),
    "queues[].maxapplications": Becomes("Limits.running", "of the queue in total"),
    "queues[].adminacl": _ACCESS,
    "queues[].submitacl": _ACCESS,
    "queues[].childtemplate": _TEMPLATE,
    "queues[].limits[].limit": Becomes("–", "a text for people"),
    "queues[].limits[].users": Becomes("Limits per user", "each user has an own limit, or that of `*`"),
    "queues[].limits[].groups": Becomes("Limits per group", "an application counts for one group, as in YuniKorn"),
    "queues[].limits[].maxresources": Becomes("Limits.resources"),
    "queues[].limits[].maxapplications": Becomes("Limits.running", "of jobs that have started"),
    _SORT: Becomes(
        "Queue.order", "`fifo`: by priority, then age; `fair`: the application with the lowest usage is next"
    ),
    _PRIORITY: Becomes("Queue.order", "`disabled`: only by age, or by share"),
    _OFFSET: Becomes("Queue.priority", "added to the priorities of its jobs, as other queues see them"),
    _FENCE: Becomes("Queue.fenced", "other queues see only the offset"),
    _PREEMPTION: Becomes(
        "Queue.preemption",
        "`disabled`: its jobs are not preempted; `fence`: its jobs preempt no job outside of the queue",
    ),
    _DELAY: Becomes("Preemption.delay_s"),
    _QUOTA_DELAY: Becomes("QueuePreemption.excess_delay_s", "0, the default: usage above the quota is not preempted"),
    "application.unschedasks.backoff": _BACKOFF,
    "application.unschedasks.backoff.delay": _BACKOFF,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note that a field of the file has no effect, or a different effect than in YuniKorn. `where`: the queue, or the
    partition, with that field."""

    where: str
    field: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The result of a translation. `queues`: name of a Phalanx Queue -> its spec, parents first. `names`: full name of
    the YuniKorn queue -> name of the Phalanx Queue. `limits`: name of a Phalanx Queue -> the limits of its users and
    groups."""

    queues: Mapping[str, dict[str, Any]]
    notes: tuple[Note, ...]
    names: Mapping[str, str]
    limits: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)


def translate(found: YuniKornConfiguration) -> Translation:
    """Translate the queues of the partition `default`. `found`: a configuration that `checks.read` returned."""
    work = _Work()
    for partition in found.partitions:
        if partition.name == DEFAULT_PARTITION:
            work.partition(partition)
        else:
            why = "a cluster has one partition, `default`; this one is left out"
            work.note(f"partition {partition.name}", "partitions[].name", why)
    return Translation(queues=work.queues, notes=tuple(work.notes), names=work.names, limits=work.limits_of)


def translate_made(branch: QueueBranch, properties: Mapping[str, str], *, reclaim: bool) -> Translation:
    """Translate the queues that a placement rule creates. `properties`: those of the queue above them. `reclaim`:
    whether the partition preempts."""
    work = _Work(reclaim=reclaim)
    work.queue(branch, "", "", properties)
    return Translation(queues=work.queues, notes=(), names=work.names)


def properties_of(queue: QueueBranch, above: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a queue, including inherited ones. `above`: all properties of its parent."""
    found = {**{key: above[key] for key in _INHERITED if key in above}, **queue.properties}
    return {**found, _PREEMPTION: "disabled"} if above.get(_PREEMPTION) == "disabled" else found


def fair_leaves(queue: QueueBranch, prefix: str, above: Mapping[str, str]) -> Iterator[str]:
    """Yield the full names of the leaves, from this queue down, that sort their applications by share. `prefix`: the
    full name of the queue above it, with a dot; `above`: its properties."""
    name, properties = f"{prefix}{queue.name}".lower(), properties_of(queue, above)
    if not queue.queues and properties.get(_SORT, "").lower() == "fair":
        yield name
    for child in queue.queues:
        yield from fair_leaves(child, f"{name}.", properties)


def whole(text: str) -> int:
    """Return the whole number in the text of a property; 0, YuniKorn's default, if the text is invalid."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text.strip()) else 0


# --- inside -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Work:
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    limits_of: dict[str, tuple[Limit, ...]] = field(default_factory=dict)
    reclaim: bool = True
    trims: bool = False

    def note(self, where: str, name: str, why: str = "") -> None:
        use = TABLE[name]
        why = why or (use.why if isinstance(use, Ignored) else "it has another effect here")
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
        """Translate the queue and those below it. `guaranteed`: whether a queue above it has a guarantee."""
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
        """Return the name of the Phalanx Queue: a valid name of an object that no other queue of the file has."""
        said = re.sub(r"[^a-z0-9.-]", "-", full)
        plain = ".".join(part.strip("-") or "queue" for part in said.split("."))
        found = next(name for name in _numbered(plain) if name not in self.queues)
        if found != full:
            self.note(full, "queues[].name", f"no object may be named so; the queue is {found!r}")
        return found

    def preemption(self, queue: QueueBranch, properties: Mapping[str, str], *, guaranteed: bool) -> dict[str, Any]:
        """Return the preemption settings. `guaranteed`: whether the queue, or one above it, has a guarantee."""
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

    def limits(self, name: str, queue: QueueBranch) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if queue.max_applications:
            found["total"] = {"running": queue.max_applications}
        for limit in queue.limits:
            if ANYBODY in limit.users:
                found["perUser"] = _limit(limit)
            if others := [user for user in limit.users if user != ANYBODY]:
                why = f"a limit for {', '.join(others)} alone: a Queue has one for all users; give each a queue below"
                self.note(name, "queues[].limits[].users", why)
            if limit.groups:
                why = "a Queue has one limit for all groups: give the group a queue below"
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
    """Return the order of a queue; empty: the default. Parents sort their children by their used part, and leaves with
    the sort policy `fair` their applications, each of which is a queue below the leaf."""
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


def _quotas(queue: QueueBranch) -> dict[str, Any]:
    quota = {
        name: _amounts(said)
        for name, said in (("guaranteed", queue.resources.guaranteed), ("limit", queue.resources.max))
        if said
    }
    return {"quotas": [quota]} if quota else {}


def _limit(limit: Limit) -> dict[str, Any]:
    most = _amounts(limit.max_resources)
    running = {"running": limit.max_applications} if limit.max_applications else {}
    return {**running, **({"resources": most} if most else {})}


def _amounts(written: Mapping[str, str]) -> dict[str, str]:
    """Translate amounts. YuniKorn's amounts are Kubernetes quantities, except that they may contain blanks."""
    return {"cpu" if name == "vcore" else name: "".join(text.split()) for name, text in written.items()}


def _go_duration_s(text: str) -> float:
    """Return the seconds of a Go duration like `1m30s`; 0, for YuniKorn's default, if it is invalid."""
    parts = _GO_DURATION.findall(text)
    if "".join(number + unit for number, unit in parts) != text:
        return 0.0
    return min(sum(float(number) * _GO_UNITS_S[unit] for number, unit in parts), LONGEST_S)


# full name of a queue -> the groups that its limits name, then those of each queue above it
LimitedGroups = Mapping[str, tuple[tuple[str, ...], ...]]
_NOBODY = Limits()


def limits_of(limits: Sequence[Limit]) -> tuple[Limits, Limits]:
    """Return the limits per user, and the limits per group."""
    users = {name: _read(limit) for limit in limits for name in limit.users}
    groups = {name: _read(limit) for limit in limits for name in limit.groups}
    rest = users.pop(ANYBODY, _NOBODY)
    return replace(rest, named=tuple(users.items())), Limits(named=tuple(groups.items()))


def limited_groups(roots: Sequence[QueueBranch]) -> LimitedGroups:
    """Return the groups whose limits count for each queue."""
    return dict(entry for root in roots for entry in _groups(root, "", ()))


def counted_group(limited: LimitedGroups, queue: str, groups: Sequence[str]) -> str:
    """Return the group for which an application in the queue counts; empty: none. `queue`: the full name."""
    for named in limited.get(queue, ()):
        if found := next((name for name in named if name in groups), ANYBODY if ANYBODY in named else ""):
            return found
    return ""


def with_limits(queue: Queue, limits: Sequence[Limit]) -> Queue:
    """Return the queue with the limits of its users and groups."""
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
