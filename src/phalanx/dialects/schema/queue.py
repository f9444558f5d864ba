"""Parse a queue: the `spec` of the Queue resource (`phalanx.dev/v1`), or a queue in a file.

The resource and the files have the same schema, and `kube.install.queue_schema` is its OpenAPI form. This module finds
errors in a single queue: wrong names, types or ranges, a limit below its guarantee, and a queue that lends more than
its guarantee. The core finds errors in the queue tree (a missing parent, a cycle) and reports them for the affected
queues.
"""

from __future__ import annotations

from phalanx.dialects.schema.fields import Fields, Misread
from phalanx.fair_tree import PARENT
from phalanx.model.queue import (
    STALENESS_GRACE_S,
    BorrowingPolicy,
    Bounds,
    FlavorFungibility,
    Limits,
    Queue,
    QueueOrder,
    QueuePreemption,
    QueueState,
    Quota,
    ReclaimFloor,
    ReclaimWithinCohort,
    Strategy,
    VictimOrder,
    WithinQueue,
)


def read_queue(name: str, spec: object, *, state_since_s: float = 0.0) -> Queue:
    """Return the queue. `state_since_s`: the time when the queue's state was set (seconds since the epoch), which the
    spec does not contain. Raise Misread if the spec is invalid."""
    said = Fields(spec, ("spec",))
    parent = said.text("parent")
    if parent == name:
        raise Misread(
            ("spec", "parent"),
            f"{name!r} is the queue itself; name another queue, or leave the field out for a queue at the top",
        )
    limits = said.fields("limits")
    queue = Queue(
        name=name,
        parent=parent,
        gang=said.flag("gang", True),
        quotas=_quotas(said),
        fungibility=_fungibility(said.fields("fungibility")),
        weight=said.number("weight", 1.0),
        weights=said.weights("weights"),
        order=said.choice("order", QueueOrder.PRIORITY),
        strict=said.flag("strict"),
        priority=said.whole("priority", least=-(2**31)),
        fenced=said.flag("fenced"),
        borrow=said.choice("borrow", BorrowingPolicy.ALL),
        preemption=_preemption(said.fields("preemption")),
        total=_limits(limits.fields("total")),
        per_user=_limits(limits.fields("perUser")),
        per_group=_limits(limits.fields("perGroup")),
        per_job=_limits_of_a_job(limits.fields("perJob")),
        state=said.choice("state", QueueState.OPEN),
        state_since_s=state_since_s,
        accounts=said.weights("accounts", least=PARENT),
        start_timeout_s=said.seconds_or_none("startTimeout"),
        staleness_grace_s=said.seconds("stalenessGracePeriod", STALENESS_GRACE_S),
    )
    limits.done()
    said.done()
    return queue


def _quotas(said: Fields) -> tuple[Quota, ...]:
    found: dict[str, Quota] = {}
    for entry in said.each("quotas"):
        flavor = entry.text("flavor")
        if flavor in found:
            whom = f"the flavor {flavor}" if flavor else "all nodes"
            raise Misread(entry.path, f"there is already a quota for {whom}; combine both into one")
        group = entry.text("group")
        parts = {name: entry.amounts(name) for name in ("guaranteed", "limit", "lend")}
        entry.done()
        _check_amounts(entry, **parts)
        found[flavor] = Quota(
            flavor=flavor, group=group, guaranteed=parts["guaranteed"], limit=parts["limit"], lend=parts["lend"]
        )
    return tuple(found.values())


def _check_amounts(entry: Fields, *, guaranteed: Bounds, limit: Bounds, lend: Bounds) -> None:
    own, ceiling = dict(guaranteed), dict(limit)
    for resource, amount in ceiling.items():
        if amount < own.get(resource, 0):
            asked = f"guaranteed is {entry.values['guaranteed'][resource]}"
            raise Misread((*entry.path, "limit", resource), f"the limit is lower than the guarantee ({asked})")
    for resource, amount in lend:
        if amount > own.get(resource, 0):
            text = f"it is more than the guarantee ({(entry.values.get('guaranteed') or {}).get(resource, 0)})"
            raise Misread((*entry.path, "lend", resource), text)


def _fungibility(said: Fields) -> FlavorFungibility:
    found = FlavorFungibility(
        borrow_before_next=said.flag("borrowBeforeNext", True),
        preempt_before_next=said.flag("preemptBeforeNext"),
        prefer_preemption=said.flag("preferPreemption"),
    )
    said.done()
    return found


def _preemption(said: Fields) -> QueuePreemption:
    found = QueuePreemption(
        within=said.choice("within", WithinQueue.NEVER),
        reclaim=said.choice("reclaim", ReclaimWithinCohort.NEVER),
        down_to=said.choice("downTo", ReclaimFloor.GUARANTEE),
        strategy=said.choice("strategy", Strategy.INITIAL_SHARE),
        victims=said.choice("victims", VictimOrder.FAIREST),
        borrowing=said.flag("borrowing"),
        borrowing_threshold=said.whole_or_none("borrowingThreshold", least=-(2**31)),
        min_run_s=said.seconds("minRun"),
        grace_s=said.seconds_or_none("grace"),
        hourly_budget=said.whole_or_none("hourlyBudget"),
        delay_s=said.seconds("delay"),
        consolidate=said.flag("consolidate"),
        fence=said.flag("fence"),
        excess_delay_s=said.seconds_or_none("excessDelay"),
    )
    said.done()
    return found


def _limits(said: Fields) -> Limits:
    found = Limits(
        running=said.whole_or_none("running"),
        submitted=said.whole_or_none("submitted"),
        resources=said.amounts("resources"),
        wall_s=said.seconds_or_none("wall"),
    )
    said.done()
    return found


def _limits_of_a_job(said: Fields) -> Limits:
    for count in ("running", "submitted"):
        if said.values.get(count) is not None:
            raise Misread(
                (*said.path, count), "this limit cannot apply to a single job; set it in total, perUser or perGroup"
            )
    return _limits(said)
