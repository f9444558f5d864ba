"""Define which fields a Queue object may have: the OpenAPI schema of `queues.phalanx.dev`, with CEL rules that the API
server checks.

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
        "x-kubernetes-validations": [rule(_NOT_NEGATIVE, "no amount may be negative")],
    }


def seconds(text: str) -> Schema:
    return {
        "description": f"{text} Seconds, or a text such as 90s, 15m, 1h30m, 2d.",
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^((\d+(\.\d+)?(ms|s|m|h|d))+|\d+(\.\d+)?)$",
        "maxLength": 32,
        "x-kubernetes-validations": [rule("!string(self).startsWith('-')", "no length of time is negative")],
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
            **name("The class of nodes that this is about (a Flavor's name); empty: all nodes."),
            "default": "",
        },
        "group": name(
            "The resource group of the flavor. A pod is given one flavor of each group of which it asks a resource; "
            "a group is for the resources that its quotas name. Without groups, one flavor is for all resources."
        ),
        "guaranteed": amounts(
            "What is this queue's by right, by resource: {cpu: 100, nvidia.com/gpu: 8}. What others borrow of it comes "
            "back by reclaim, if the queue may."
        ),
        "limit": amounts("The ceiling for all that runs in this queue and below. Not named: no ceiling."),
        "lend": amounts("Of what is guaranteed and unused, so much may be lent. Not named: all of it."),
    },
    "What the queue has of one flavor's nodes. What is not named is not bounded by it.",
    rule(_compared("guaranteed", "limit", "true"), "a limit may not be below what is guaranteed"),
    rule(
        _compared("lend", "guaranteed", "!quantity('0').isLessThan(quantity(string(self.lend[name])))"),
        "no more may be lent than is guaranteed",
    ),
)

FUNGIBILITY = obj(
    {
        "borrowBeforeNext": flag("Borrow in a flavor rather than look at the next. Default true."),
        "preemptBeforeNext": flag("Preempt in a flavor rather than look at the next. Default false."),
        "preferPreemption": flag("If every flavor needs one of both: preempt in the first rather than borrow."),
    },
    "When the next flavor of `quotas` is tried. A flavor that fits without either comes first in any case.",
)

PREEMPTION = obj(
    {
        "within": one_of(WithinQueue, "Whom its jobs may preempt in this queue: nobody, jobs of lower priority, or also"
                                 " those of equal priority that were submitted later."),
        "reclaim": one_of(ReclaimWithinCohort, "Whom its jobs may preempt in queues that use more than is theirs."),
        "downTo": one_of(ReclaimFloor, "How far reclaiming goes: to the guarantees, or to the fair shares."),
        "strategy": one_of(Strategy, "How much poorer it must be to take for fairness: its share, with the job, below"
                                     " the other's before the loss, or at most what the other has after it."),
        "victims": one_of(VictimOrder, "Who goes first of those who may be asked: those of the queue whose share is"
                                       " highest just then (the default), or whoever costs least, of whatever queue."),
        "borrowing": flag("Its jobs may preempt also while this queue itself borrows: jobs of lower priority. No effect"
                          " with `downTo: fair-share`, here or in the victim's queue."),
        "borrowingThreshold": whole("With `borrowing`: victims have at most this priority.", -(2**31)),
        "minRun": seconds("Jobs of this queue are spared until they have run that long."),
        "grace": seconds("Pods of this queue get that long to end; not set: as each pod says."),
        "hourlyBudget": whole("At most so many of its jobs are preempted in any hour."),
        "delay": seconds("A job of this queue preempts only after it has waited that long for room."),
        "consolidate": flag("Its jobs may be moved, and may have others moved, to make room whole."),
        "fence": flag("Its jobs, and those of the queues below it, preempt no job outside of them."),
        "excessDelay": seconds("Evict pods after this time while the queue uses more than its limit, because the limit"
                               " was lowered. Not set: they run to their end."),
    },
    "What its jobs may do to others that run, and what protects its own. All of it is off unless said.",
)  # fmt: skip

_WALL = seconds("The longest time limit that a job may state; one that states none gets this.")
LIMITS = obj(
    {
        "running": whole("Jobs that run at a time."),
        "submitted": whole("Jobs that wait or run at a time."),
        "resources": amounts("What they hold together, by resource."),
        "wall": _WALL,
    },
    "What is not named is not limited.",
)

SPEC = obj(
    {
        "parent": name("The queue above; empty for one at the top."),
        "gang": {
            "type": "boolean",
            "default": True,
            "description": "Start jobs whole. With false their pods are placed one by one, as kube-scheduler "
            "does: jobs may then deadlock each other half-started.",
        },
        "quotas": {
            "type": "array",
            "description": "What the queue has, flavor by flavor, in the order in which flavors are tried.",
            "maxItems": _MOST_FLAVORS,
            "items": QUOTA,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["flavor"],
        },
        "fungibility": FUNGIBILITY,
        "weight": {"type": "number", "minimum": 0, "description": "Its part of what nobody has by right; default 1."},
        "weights": numbers("Weights by resource, instead of `weight`.", _MOST_RESOURCES),
        "order": one_of(
            QueueOrder,
            "Which job, and which child's, comes next. `fair`: the child with the lowest share. `tiered`: children "
            "within their guarantee, then by the priority of queues, then by share. `fill`: the child with the job of "
            "the highest priority, then the one that is least full. `usage`: the user, or child, that has used least "
            "in the past.",
        ),
        "strict": flag("Its first job holds up those behind it (one that can never fit does not)."),
        "priority": {
            "type": "integer",
            "format": "int32",
            "description": "Among siblings with equal shares, higher comes first; a factor of `multifactor`. With "
            "`fill` above, it is added to the priorities of its jobs.",
        },
        "fenced": flag("With `fill` above: beside other queues its jobs have the priority of the queue."),
        "borrow": one_of(BorrowingPolicy, "Whose jobs may use more than the guarantee."),
        "preemption": PREEMPTION,
        "limits": obj(
            {
                "total": described(LIMITS, "Of the queue as a whole."),
                "perUser": described(LIMITS, "Of each user (annotation phalanx.dev/user)."),
                "perGroup": described(LIMITS, "Of each group (label phalanx.dev/group)."),
                "perJob": obj(
                    {"resources": amounts("What all of its pods hold together, by resource."), "wall": _WALL},
                    "Of each job.",
                ),
            },
            "How many jobs, and how much, at a time.",
        ),
        "state": one_of(
            QueueState,
            "open: takes and starts jobs; held: takes, starts none; draining: starts what was submitted before, takes "
            "no new ones; closed: neither. Running jobs go on in all of them.",
        ),
        "startTimeout": seconds(
            "How long the pods of a job may take, once bound, until each was ready; else it is taken back whole and "
            "tried again elsewhere, and held after three such starts. Not set: for ever."
        ),
        "stalenessGracePeriod": seconds(
            "How long a gang of bare pods may run with fewer pods than its minimum; then its pods are evicted, and "
            "it is queued again. 60 s if not set; 0: for ever."
        ),
        "accounts": numbers(
            "Shares of users, for order `multifactor` and `usage`; a user not named has one, and -1 is the queue's "
            "own, or for `usage` none.",
            _MOST_USERS,
            -1,
        ),
    },
    "What the queue has, in which order its jobs start, and what they may do to others.",
)

_TEXT: Schema = {"type": "string"}
STATUS = obj(
    {
        "state": described(_TEXT, "The state that the scheduler acts on."),
        "stateSince": {"type": "string", "format": "date-time", "description": "When that state was first seen."},
        "observedGeneration": {"type": "integer", "format": "int64"},
        "pending": whole("Jobs that wait, in this queue and below."),
        "running": whole("Jobs that were started, in this queue and below."),
        "share": described(
            {"type": "number"}, "Weighted dominant share of what it uses beyond its guarantee, among its siblings."
        ),
        "used": described(_TEXT, "What is used of what is guaranteed, for people."),
        "usage": {
            "type": "array",
            "description": "Per flavor and resource: what this queue and those below use, by right, and at most.",
            "items": obj(
                {
                    "flavor": _TEXT,
                    "resource": _TEXT,
                    "used": quantity(),
                    "guaranteed": quantity(),
                    "limit": quantity(),
                    "borrowed": described(quantity(), "Of what is used, beyond the guarantee."),
                },
                "One flavor's resource.",
                required=("resource", "used"),
            ),
        },
        "pendingJobs": {
            "type": "array",
            "description": "The first that wait in this queue itself, in its order.",
            "items": obj(
                {
                    "job": described(_TEXT, "NAMESPACE/NAME."),
                    "position": whole("From 1.", 1),
                    "reason": described(_TEXT, "The code of the reason why it waits."),
                    "expectedStart": {"type": "string", "format": "date-time"},
                },
                "One that waits.",
                required=("job", "position"),
            ),
        },
        "conditions": {
            "type": "array",
            "description": "Active: whether jobs of this queue start.",
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
                "As metav1.Condition.",
                required=("type", "status", "reason", "message", "lastTransitionTime"),
            ),
        },
    },
    "Written by the scheduler every few seconds while something changes.",
)

QUEUE = {
    "type": "object",
    "description": "A queue: who may start how many of their jobs, in which order. Queues form one tree, by `parent`.",
    "properties": {"spec": SPEC, "status": STATUS},
    "x-kubernetes-validations": [
        rule(
            "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "a queue is not its own parent",
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
