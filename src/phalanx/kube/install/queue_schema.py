"""Define the fields that a Queue object may have: the OpenAPI schema of `queues.phalanx.dev`, with CEL rules that the
API server checks.

`dialects.queue` reads exactly the fields of this schema, and a test compares the two. `kubectl explain queue.spec`
shows the descriptions. The schema limits lengths, because an API server refuses rules whose estimated cost is too high.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from phalanx.model.queue import (
    BorrowingPolicy,
    QueueOrder,
    QueueState,
    ReclaimFloor,
    ReclaimWithinCohort,
    Strategy,
    VictimOrder,
    WithinQueue,
)

Schema: TypeAlias = dict[str, Any]

_MOST_RESOURCES, _MOST_FLAVORS, _MOST_USERS = 32, 16, 1024
_NOT_NEGATIVE = "self.all(name, !quantity(string(self[name])).isLessThan(quantity('0')))"


def described(schema: Schema, text: str) -> Schema:
    return {**schema, "description": text}


def rule(expression: str, message: str) -> Schema:
    return {"rule": expression, "message": message}


def obj(properties: Mapping[str, Schema], text: str, *rules: Schema, required: tuple[str, ...] = ()) -> Schema:
    schema: Schema = {"type": "object", "description": text, "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return schema | ({"x-kubernetes-validations": list(rules)} if rules else {})


def one_of(kinds: type[StrEnum], text: str) -> Schema:
    return {"type": "string", "enum": [str(kind) for kind in kinds], "description": text}


def flag(text: str) -> Schema:
    return {"type": "boolean", "description": text}


def whole(text: str, least: int = 0) -> Schema:
    return {"type": "integer", "format": "int32", "minimum": least, "description": text}


def name(text: str) -> Schema:
    return {"type": "string", "maxLength": 253, "description": text}


def names(text: str) -> Schema:
    items = {"type": "string", "minLength": 1, "maxLength": 253}
    return {"type": "array", "maxItems": 1024, "x-kubernetes-list-type": "set", "items": items, "description": text}


def quantity() -> Schema:
    return {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})?$",
        "maxLength": 32,
    }


def amounts(text: str) -> Schema:
    return {
        "type": "object",
        "description": text,
        "maxProperties": _MOST_RESOURCES,
        "additionalProperties": quantity(),
        "x-kubernetes-validations": [rule(_NOT_NEGATIVE, "an amount must not be negative")],
    }


def seconds(text: str) -> Schema:
    return {
        "description": f"{text} Seconds, or a text such as 90s, 15m, 1h30m, 2d.",
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^((\d+(\.\d+)?(ms|s|m|h|d))+|\d+(\.\d+)?)$",
        "maxLength": 32,
        "x-kubernetes-validations": [rule("!string(self).startsWith('-')", "a length of time must not be negative")],
    }


def numbers(text: str, most: int, least: int = 0) -> Schema:
    values = {"type": "number", "minimum": least}
    return {"type": "object", "description": text, "maxProperties": most, "additionalProperties": values}


def _compared(small: str, large: str, absent: str) -> str:
    """Return a CEL rule that is true if no amount in the field `small` exceeds the amount of the same resource in the
    field `large`. `absent`: the result for a resource that `large` does not name."""
    return (
        f"!has(self.{small}) || self.{small}.all(name, has(self.{large}) && name in self.{large} ? "
        f"!quantity(string(self.{large}[name])).isLessThan(quantity(string(self.{small}[name]))) : {absent})"
    )


QUOTA = obj(
    {
        "flavor": {
            **name("The Flavor on whose nodes the queue has this quota; empty: all nodes."),
            "default": "",
        },
        "group": name(
            "The resource group of the flavor. A group has the resources that its quotas name. A pod gets one flavor "
            "from each group with a resource that the pod requests. Without groups, one flavor is for all resources."
        ),
        "guaranteed": amounts(
            "The guaranteed quota of the queue, by resource: {cpu: 100, nvidia.com/gpu: 8}. If other queues borrow "
            "unused quota, the queue can reclaim it by preemption, if `preemption.reclaim` allows this."
        ),
        "limit": amounts("The highest usage of the queue and the queues below it. A resource without entry: no limit."),
        "lend": amounts("How much of the guarantee other queues may borrow. A resource without entry: all of it."),
    },
    "The quota of the queue on the nodes of one flavor. It does not bound resources that it does not name.",
    rule(_compared("guaranteed", "limit", "true"), "a limit must not be lower than the guarantee"),
    rule(
        _compared("lend", "guaranteed", "!quantity('0').isLessThan(quantity(string(self.lend[name])))"),
        "lend must not exceed the guarantee",
    ),
)

FUNGIBILITY = obj(
    {
        "borrowBeforeNext": flag("Borrow in a flavor before the next flavor is tried. Default true."),
        "preemptBeforeNext": flag("Preempt in a flavor before the next flavor is tried. Default false."),
        "preferPreemption": flag("If every flavor requires borrowing or preemption, choose preemption."),
    },
    "When the next flavor of `quotas` is tried. A flavor without borrowing and preemption always comes first.",
)

PREEMPTION = obj(
    {
        "within": one_of(WithinQueue, "Which jobs of this queue its jobs may preempt: none, jobs of lower priority, or"
                                 " also jobs of equal priority that were submitted later."),
        "reclaim": one_of(ReclaimWithinCohort, "Which jobs its jobs may preempt in queues above their guarantee."),
        "downTo": one_of(ReclaimFloor, "How far reclaiming may go: to the guarantees, or to the fair shares."),
        "strategy": one_of(Strategy, "When its jobs may preempt for fairness: if its share, including the job, is below"
                                     " the share of the victim's queue before the eviction, or at most that share after"
                                     " the eviction."),
        "victims": one_of(VictimOrder, "Which permitted victims are chosen first: those of the queue with the highest"
                                       " share at that moment (the default), or the cheapest victims of all queues."),
        "borrowing": flag("Its jobs may preempt jobs of lower priority even while this queue borrows. No effect"
                          " with `downTo: fair-share` in this queue or in the victim's queue."),
        "borrowingThreshold": whole("With `borrowing`: the highest priority that a victim may have.", -(2**31)),
        "minRun": seconds("Jobs of this queue are not preempted until they have run for this time."),
        "grace": seconds("The termination grace period of preempted pods. Not set: the grace period of each pod."),
        "hourlyBudget": whole("The maximum number of its jobs that are preempted in any hour."),
        "delay": seconds("A job of this queue preempts only after it has waited for capacity for this time."),
        "consolidate": flag("Its jobs may be moved, and may have other jobs moved, to join free capacity on a node."),
        "fence": flag("Its jobs, and jobs of the queues below it, preempt no job outside of these queues."),
        "excessDelay": seconds("If the queue uses more than its limit, because the limit was lowered, evict pods after"
                               " this time. Not set: the pods run to their end."),
    },
    "Which running jobs its jobs may preempt, and how its own jobs are protected. Nothing is allowed by default.",
)  # fmt: skip

_WALL = seconds("The longest time limit that a job may set. A job without a time limit gets this one.")
LIMITS = obj(
    {
        "running": whole("The maximum number of running jobs."),
        "submitted": whole("The maximum number of pending and running jobs."),
        "resources": amounts("The maximum amounts of all running jobs together, by resource."),
        "wall": _WALL,
    },
    "Limits. A field that is not set means no limit.",
)

SPEC = obj(
    {
        "parent": name("The parent queue; empty for a queue at the top of the tree."),
        "gang": {
            "type": "boolean",
            "default": True,
            "description": "Start each job as a gang. With false, pods are placed one by one, as by "
            "kube-scheduler. Jobs that have started only in part may then deadlock each other.",
        },
        "quotas": {
            "type": "array",
            "description": "The quotas of the queue, one for each flavor, in the order in which flavors are tried.",
            "maxItems": _MOST_FLAVORS,
            "items": QUOTA,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["flavor"],
        },
        "fungibility": FUNGIBILITY,
        "weight": {"type": "number", "minimum": 0, "description": "The weight of the queue in shares; default 1."},
        "weights": numbers("Weights by resource, instead of `weight`.", _MOST_RESOURCES),
        "order": one_of(
            QueueOrder,
            "The order of the queue's jobs and of its child queues. `fair`: first the child with the lowest share. "
            "`tiered`: first children within their guarantee, then by the priority of queues, then by share. `fill`: "
            "first the child with the job of the highest priority, then the least full child. `usage`: first the user, "
            "or child, with the lowest past usage.",
        ),
        "strict": flag("The first job blocks the jobs behind it, unless the first job can never fit."),
        "priority": {
            "type": "integer",
            "format": "int32",
            "description": "Among siblings with equal shares, the queue with the higher priority comes first. A "
            "factor of `multifactor`. With `fill` in a queue above, it is added to the priorities of its jobs.",
        },
        "fenced": flag("With `fill` in a queue above: compared with other queues' jobs, its jobs have its priority."),
        "borrow": one_of(BorrowingPolicy, "Which of its jobs may use more than the guarantee."),
        "preemption": PREEMPTION,
        "limits": obj(
            {
                "total": described(LIMITS, "Limits of the whole queue."),
                "perUser": described(LIMITS, "Limits of each user (annotation phalanx.dev/user)."),
                "perGroup": described(LIMITS, "Limits of each group (label phalanx.dev/group)."),
                "perJob": obj(
                    {"resources": amounts("The maximum amounts of all pods of a job together."), "wall": _WALL},
                    "Limits of each job.",
                ),
            },
            "Limits on the number of jobs, and on their resources.",
        ),
        "state": one_of(
            QueueState,
            "open: accepts and starts jobs; held: accepts jobs, but starts none; draining: accepts no new jobs, but "
            "starts earlier ones; closed: neither accepts nor starts jobs. Running jobs continue in every state.",
        ),
        "startTimeout": seconds(
            "How long it may take until all bound pods of a job are ready. After this time, the whole start is taken "
            "back, and the job is tried on other nodes. After three such starts the job is held. Not set: no limit."
        ),
        "stalenessGracePeriod": seconds(
            "How long a gang of bare pods may run with fewer pods than its minimum. After this time its pods are "
            "evicted, and the gang is queued again. Default 60 s; 0: no limit."
        ),
        "accounts": numbers(
            "Shares of users, for the orders `multifactor` and `usage`. A user without an entry has one share. -1 "
            "stands for the queue's own shares (`multifactor`), or for no shares (`usage`).",
            _MOST_USERS,
            -1,
        ),
    },
    "The quotas of the queue, the order in which its jobs start, and the jobs that they may preempt.",
)

_TEXT: Schema = {"type": "string"}
STATUS = obj(
    {
        "state": described(_TEXT, "The state of the queue that the scheduler uses."),
        "stateSince": {"type": "string", "format": "date-time", "description": "The time of the last state change."},
        "observedGeneration": {"type": "integer", "format": "int64"},
        "pending": whole("The number of pending jobs in this queue and the queues below it."),
        "running": whole("The number of started jobs in this queue and the queues below it."),
        "share": described(
            {"type": "number"}, "Weighted dominant share of its usage above its guarantee, compared with its siblings."
        ),
        "used": described(_TEXT, "The usage and the guarantee as text, for people."),
        "usage": {
            "type": "array",
            "description": "The usage of this queue and the queues below it, the guarantee and the limit.",
            "items": obj(
                {
                    "flavor": _TEXT,
                    "resource": _TEXT,
                    "used": quantity(),
                    "guaranteed": quantity(),
                    "limit": quantity(),
                    "borrowed": described(quantity(), "The usage above the guarantee."),
                },
                "The usage of one resource of one flavor.",
                required=("resource", "used"),
            ),
        },
        "pendingJobs": {
            "type": "array",
            "description": "The first pending jobs of this queue itself, in its order.",
            "items": obj(
                {
                    "job": described(_TEXT, "NAMESPACE/NAME."),
                    "position": whole("The position in the queue, from 1.", 1),
                    "reason": described(_TEXT, "The code of the reason why the job is pending."),
                    "expectedStart": {"type": "string", "format": "date-time"},
                },
                "A pending job.",
                required=("job", "position"),
            ),
        },
        "conditions": {
            "type": "array",
            "description": "Active: True if jobs of this queue can start.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": obj(
                {
                    "type": _TEXT,
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": _TEXT,
                    "message": _TEXT,
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                    "observedGeneration": {"type": "integer", "format": "int64"},
                },
                "A condition, as in metav1.Condition.",
                required=("type", "status", "reason", "message", "lastTransitionTime"),
            ),
        },
    },
    "The status, which the scheduler writes every few seconds while it changes.",
)

QUEUE = {
    "type": "object",
    "description": "A queue. It limits how many jobs may run, and orders them. The field `parent` makes queues a tree.",
    "properties": {"spec": SPEC, "status": STATUS},
    "x-kubernetes-validations": [
        rule(
            "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "a queue must not be its own parent",
        )
    ],
}

COLUMNS = [
    {"name": "Parent", "type": "string", "jsonPath": ".spec.parent"},
    {"name": "Used/Guaranteed", "type": "string", "jsonPath": ".status.used"},
    {"name": "Running", "type": "integer", "jsonPath": ".status.running"},
    {"name": "Pending", "type": "integer", "jsonPath": ".status.pending"},
    {"name": "Share", "type": "number", "jsonPath": ".status.share"},
    {"name": "State", "type": "string", "jsonPath": ".status.state"},
    {"name": "Active", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Active')].reason", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
