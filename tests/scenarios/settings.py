"""The part of the scenario language that describes queues, flavors, reservations and the policy.

queue NAME parent=up order=fair strict weight=2 weight:gpu=3 priority=1 fenced borrow=none state=held since=40 gang=off
      guaranteed:cpu=4 limit:cpu=8 lend:cpu=1       quota on all nodes
      spot/guaranteed:cpu=4 spot/group=a …          quota on the nodes of the flavor `spot`
      next-before-borrowing preempt-before-next prefer-preemption      the choice between flavors
      within=lower reclaim=any down-to=fair-share borrowing[=THRESHOLD] consolidate       jobs that its jobs may preempt
      min-run=60 grace=30 budget=2 delay=10                            the protection of its own running jobs
      excess=30 fence                                 takes back usage above a lowered limit; bounds its preemptors
      total:running=3 user:submitted=2 group:cpu=4 job:wall=600        limits
      shares:alice=3                                  shares of users, for the order `multifactor` (-1: PARENT)
flavor NAME label:pool=spot tolerate:spot taint:spot=:NoSchedule
reservation NAME from=100 to=200 nodes=a,b users=u groups=g queues=q magnetic
policy backfill=easy backfill-order=shortest depth=10 score=spread levels=zone,rack,host half-life=3600
       formula=classic factor:age=1000 max-age=60 qos:high=10 factor:resource:cpu=5 small-first
       size-relative-to-time billing:gpu=1
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from phalanx.client.quantity import amount
from phalanx.model.node import Flavor, Reservation, Taint, Topology
from phalanx.model.policy import Backfill, BackfillOrder, FairShareFormula, Policy, PriorityWeights, ScoringStrategy
from phalanx.model.queue import (
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
    Weights,
    WithinQueue,
)

if TYPE_CHECKING:
    from .language import Words

QUOTA_PARTS = ("guaranteed", "limit", "lend")


def queue(name: str, words: Words) -> Queue:
    weight = words.option("weight", "1")
    return Queue(
        name=name,
        parent=words.option("parent", ""),
        gang=words.option("gang", "on") != "off",
        quotas=quotas(words),
        fungibility=FlavorFungibility(
            borrow_before_next=not words.flag("next-before-borrowing"),
            preempt_before_next=words.flag("preempt-before-next"),
            prefer_preemption=words.flag("prefer-preemption"),
        ),
        weight=float(weight),
        weights=weights(words, "weight:"),
        order=QueueOrder(words.option("order", "priority")),
        strict=words.flag("strict"),
        priority=int(words.option("priority", "0")),
        fenced=words.flag("fenced"),
        borrow=BorrowingPolicy(words.option("borrow", "all")),
        preemption=preemption(words),
        total=limits(words, "total:"),
        per_user=replace(limits(words, "user:"), named=named_limits(words, "user/")),
        per_group=replace(limits(words, "group:"), named=named_limits(words, "group/")),
        per_job=limits(words, "job:"),
        state=QueueState(words.option("state", "open")),
        state_since_s=float(words.option("since", "0")),
        accounts=weights(words, "shares:"),
    )


def quotas(words: Words) -> tuple[Quota, ...]:
    """Return the quotas by flavor, in the order in which the flavors are first named. The quota on all nodes has the
    flavor `""`."""
    parts: dict[str, dict[str, dict[str, int]]] = {}
    groups = {word.partition("/group=")[0]: word.partition("/group=")[2] for word in words.rest if "/group=" in word}
    words.rest[:] = [word for word in words.rest if "/group=" not in word]
    for word in list(words.rest):
        left, _, value = word.partition("=")
        head, _, resource = left.partition(":")
        flavor, _, part = head.rpartition("/")
        if part in QUOTA_PARTS and resource:
            words.rest.remove(word)
            parts.setdefault(flavor, {}).setdefault(part, {})[resource] = amount(resource, value)
    return tuple(
        Quota(flavor=flavor, group=groups.get(flavor, ""), **{part: bounds(values) for part, values in named.items()})
        for flavor, named in parts.items()
    )


def preemption(words: Words) -> QueuePreemption:
    threshold = words.option("borrowing", "")
    grace, budget, excess = (words.option(word, "") for word in ("grace", "budget", "excess"))
    return QueuePreemption(
        within=WithinQueue(words.option("within", "never")),
        reclaim=ReclaimWithinCohort(words.option("reclaim", "never")),
        down_to=ReclaimFloor(words.option("down-to", "guarantee")),
        strategy=Strategy(words.option("strategy", "initial-share")),
        victims=VictimOrder(words.option("victims", "fairest")),
        borrowing=words.flag("borrowing") or bool(threshold),
        borrowing_threshold=int(threshold) if threshold else None,
        min_run_s=float(words.option("min-run", "0")),
        grace_s=float(grace) if grace else None,
        hourly_budget=int(budget) if budget else None,
        delay_s=float(words.option("delay", "0")),
        consolidate=words.flag("consolidate"),
        fence=words.flag("fence"),
        excess_delay_s=float(excess) if excess else None,
    )


def limits(words: Words, prefix: str) -> Limits:
    named = dict(word.split("=", 1) for word in words.all(prefix))
    running, submitted, wall = (named.pop(key, None) for key in ("running", "submitted", "wall"))
    return Limits(
        running=None if running is None else int(running),
        submitted=None if submitted is None else int(submitted),
        wall_s=None if wall is None else float(wall),
        resources=bounds({resource: amount(resource, value) for resource, value in named.items()}),
    )


def named_limits(words: Words, prefix: str) -> tuple[tuple[str, Limits], ...]:
    """Read limits of one user or group: `user/ann:running=2`."""
    found: dict[str, dict[str, str]] = {}
    for word in words.all(prefix):
        whose, _, said = word.partition(":")
        key, _, value = said.partition("=")
        found.setdefault(whose, {})[key] = value
    return tuple(
        (
            whose,
            Limits(
                running=int(said["running"]) if "running" in said else None,
                resources=bounds({name: amount(name, text) for name, text in said.items() if name != "running"}),
            ),
        )
        for whose, said in found.items()
    )


def weights(words: Words, prefix: str) -> Weights:
    pairs = (word.rsplit("=", 1) for word in words.all(prefix))
    return tuple(sorted((name, float(value)) for name, value in pairs))


def bounds(values: dict[str, int]) -> Bounds:
    return tuple(sorted(values.items()))


def reservation(name: str, words: Words) -> Reservation:
    def names(option: str) -> tuple[str, ...]:
        listed = words.option(option, "")
        return tuple(listed.split(",")) if listed else ()

    return Reservation(
        name=name,
        start_s=float(words.option("from", "0")),
        end_s=float(words.option("to", "inf")),
        nodes=names("nodes"),
        users=names("users"),
        groups=names("groups"),
        queues=names("queues"),
        magnetic=words.flag("magnetic"),
    )


def flavor(name: str, words: Words) -> Flavor:
    from .language import pair, toleration

    return Flavor(
        name=name,
        labels=tuple(pair(word) for word in words.all("label:")),
        tolerations=tuple(toleration(word) for word in words.all("tolerate:")),
        taints=tuple(Taint(*word.replace("=", ":").split(":")) for word in words.all("taint:")),
    )


def policy(words: Words) -> Policy:
    levels = [tuple(listed.split(",")) for listed in words.all("levels=")]
    factors = dict(word.split("=", 1) for word in words.all("factor:"))
    resources = {name: value for name, value in factors.items() if name.startswith("resource:")}
    named = {name.replace("-", "_"): float(value) for name, value in factors.items() if name not in resources}
    billing = weights(words, "billing:")
    return Policy(
        backfill=Backfill(words.option("backfill", "easy")),
        backfill_order=BackfillOrder(words.option("backfill-order", "queue")),
        backfill_depth=int(words.option("depth", "500")),
        score=ScoringStrategy(words.option("score", "pack")),
        topologies=tuple(Topology(levels=each) for each in levels),
        half_life_s=float(words.option("half-life", "604800")),
        fair_share=FairShareFormula(words.option("formula", "fair-tree")),
        billing=billing or Policy().billing,
        factors=PriorityWeights(
            max_age_s=float(words.option("max-age", "604800")),
            qos_values=weights(words, "qos:"),
            resources=tuple((name.removeprefix("resource:"), float(value)) for name, value in resources.items()),
            small_first=words.flag("small-first"),
            size_relative_to_time=words.flag("size-relative-to-time"),
            **named,
        ),
    )
