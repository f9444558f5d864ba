"""Queues and policies as users write them: the effect of every field, and the error of an invalid one."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.schema.policy import read_policy
from phalanx.dialects.schema.queue import read_queue
from phalanx.model.node import Topology
from phalanx.model.policy import Backfill, BackfillOrder, FairShareFormula, Policy, PriorityWeights, ScoringStrategy
from phalanx.model.queue import (
    PARENT,
    BorrowingPolicy,
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

EVERYTHING: dict[str, Any] = {
    "startTimeout": "10m",
    "stalenessGracePeriod": "2m",
    "parent": "research",
    "gang": False,
    "quotas": [
        {
            "flavor": "spot",
            "group": "pods",
            "guaranteed": {"cpu": "4", "memory": "1Gi"},
            "limit": {"cpu": 8},
            "lend": {"cpu": "500m"},
        },
        {"limit": {"nvidia.com/gpu": 0}},
    ],
    "fungibility": {"borrowBeforeNext": False, "preemptBeforeNext": True, "preferPreemption": True},
    "weight": 2,
    "weights": {"nvidia.com/gpu": 0.5},
    "order": "fair",
    "fenced": True,
    "strict": True,
    "priority": -3,
    "borrow": "preemptible",
    "preemption": {
        "within": "lower-or-newer",
        "reclaim": "any",
        "downTo": "fair-share",
        "strategy": "final-then-initial",
        "victims": "cheapest",
        "borrowing": True,
        "borrowingThreshold": -1,
        "minRun": "1h30m",
        "grace": 30,
        "hourlyBudget": 2,
        "delay": "2m",
        "consolidate": True,
        "fence": True,
        "excessDelay": "1m",
    },
    "limits": {
        "total": {"running": 9},
        "perUser": {"submitted": 5, "running": 0},
        "perGroup": {"resources": {"cpu": "100"}},
        "perJob": {"resources": {"cpu": 64}, "wall": "2d"},
    },
    "state": "draining",
    "accounts": {"alice": 3, "root": -1},
}


def test_every_field_is_read() -> None:
    assert read_queue("vision", EVERYTHING, state_since_s=5.0) == Queue(
        name="vision",
        start_timeout_s=600.0,
        staleness_grace_s=120.0,
        parent="research",
        gang=False,
        quotas=(
            Quota(
                flavor="spot",
                group="pods",
                guaranteed=(("cpu", 4000), ("memory", 1 << 30)),
                limit=(("cpu", 8000),),
                lend=(("cpu", 500),),
            ),
            Quota(limit=(("nvidia.com/gpu", 0),)),
        ),
        fungibility=FlavorFungibility(borrow_before_next=False, preempt_before_next=True, prefer_preemption=True),
        weight=2.0,
        weights=(("nvidia.com/gpu", 0.5),),
        order=QueueOrder.FAIR,
        fenced=True,
        strict=True,
        priority=-3,
        borrow=BorrowingPolicy.PREEMPTIBLE,
        preemption=QueuePreemption(
            within=WithinQueue.LOWER_OR_NEWER,
            reclaim=ReclaimWithinCohort.ANY,
            down_to=ReclaimFloor.FAIR_SHARE,
            strategy=Strategy.FINAL_THEN_INITIAL,
            victims=VictimOrder.CHEAPEST,
            borrowing=True,
            borrowing_threshold=-1,
            min_run_s=5400.0,
            grace_s=30.0,
            hourly_budget=2,
            delay_s=120.0,
            consolidate=True,
            fence=True,
            excess_delay_s=60.0,
        ),
        total=Limits(running=9),
        per_user=Limits(submitted=5, running=0),
        per_group=Limits(resources=(("cpu", 100_000),)),
        per_job=Limits(wall_s=172_800.0, resources=(("cpu", 64_000),)),
        state=QueueState.DRAINING,
        state_since_s=5.0,
        accounts=(("alice", 3.0), ("root", PARENT)),
    )


def test_a_queue_that_says_nothing_is_the_default_one() -> None:
    assert read_queue("q", {}) == Queue(name="q")


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"wieght": 2}, "spec.wieght: there is no such field; did you mean weight?"),
        ({"parent": "q"}, "spec.parent: 'q' is the queue itself; name another, or none for one at the top"),
        ({"weight": -1}, "spec.weight: -1 is no number of at least 0"),
        ({"weight": float("nan")}, "spec.weight: nan is no number of at least 0"),
        ({"strict": "yes"}, "spec.strict: 'yes' is neither true nor false"),
        ({"order": "random"}, "spec.order: 'random' is none of priority, fifo, fair, tiered, fill, multifactor"),
        ({"priority": 2**40}, "spec.priority: 1099511627776 is no whole number from -2147483648 to 2147483647"),
        ({"limits": {"perJob": {"running": 2}}}, "spec.limits.perJob.running: a job is one job; say it of all (total)"),
        ({"quotas": {}}, "spec.quotas: {} is not a list"),
        (
            {"quotas": [{"guaranteed": {"cpu": "-1"}}]},
            "spec.quotas[0].guaranteed.cpu: '-1' is negative",
        ),
        (
            {"quotas": [{"guaranteed": {"cpu": "two"}}]},
            "spec.quotas[0].guaranteed.cpu: 'two' is not a quantity; write for instance 500m, 2 or 1.5Gi",
        ),
        (
            {"quotas": [{"guaranteed": {"cpu": "1E"}}]},
            "spec.quotas[0].guaranteed.cpu: '1E' is more than any cluster has",
        ),
        (
            {"quotas": [{"guaranteed": {"cpu": 4}, "limit": {"cpu": "3"}}]},
            "spec.quotas[0].limit.cpu: the limit is below what is guaranteed (guaranteed is 4)",
        ),
        (
            {"quotas": [{"lend": {"cpu": "3"}}]},
            "spec.quotas[0].lend.cpu: more is lent than is guaranteed (0)",
        ),
        (
            {"quotas": [{"flavor": "a"}, {"flavor": "a"}]},
            "spec.quotas[1]: a quota for the flavor a stands above already; make one of both",
        ),
        (
            {"preemption": {"minRun": "soon"}},
            "spec.preemption.minRun: 'soon' is no length of time; write seconds (90) or for instance 90s, 15m, 1h30m, "
            "2d",
        ),
        ({"preemption": {"minRun": -1}}, "spec.preemption.minRun: -1 is not from 0 s to a hundred years; write"),
        ({"limits": {"perUsers": {}}}, "spec.limits.perUsers: there is no such field; did you mean perUser?"),
        ({"limits": {"perUser": {"running": -1}}}, "spec.limits.perUser.running: -1 is no whole number from 0 to"),
        ([], "spec: [] is not a mapping of names to values"),
    ],
)
def test_what_cannot_be_says_where_and_what_is_allowed(spec: Any, complaint: str) -> None:
    with pytest.raises(Misread) as raised:
        read_queue("q", spec)
    assert str(raised.value).startswith(complaint)


def test_a_policy_is_read_whole() -> None:
    said = {
        "defaultQueue": "lab",
        "backfill": "conservative",
        "backfillOrder": "shortest",
        "backfillDepth": 7,
        "score": "fragmentation",
        "fairShare": "classic",
        "halfLife": "14d",
        "billing": {"cpu": 1},
        "topologies": [{"levels": ["zone", "rack"]}],
        "factors": {
            "age": 1,
            "size": 2,
            "fairShare": 3,
            "queue": 4,
            "qos": 5,
            "maxAge": "1d",
            "smallFirst": True,
            "sizeRelativeToTime": True,
            "resources": {"cpu": 6},
            "qosValues": {"high": 100},
        },
    }
    assert read_policy(said) == Policy(
        default_queue="lab",
        backfill=Backfill.CONSERVATIVE,
        backfill_order=BackfillOrder.SHORTEST,
        backfill_depth=7,
        score=ScoringStrategy.FRAGMENTATION,
        topologies=(Topology(levels=("zone", "rack")),),
        factors=PriorityWeights(
            age=1.0,
            size=2.0,
            fair_share=3.0,
            queue=4.0,
            qos=5.0,
            resources=(("cpu", 6.0),),
            max_age_s=86400.0,
            qos_values=(("high", 100.0),),
            small_first=True,
            size_relative_to_time=True,
        ),
        fair_share=FairShareFormula.CLASSIC,
        half_life_s=14 * 86400.0,
        billing=(("cpu", 1.0),),
    )
    assert read_policy(None) == read_policy({}) == Policy()


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"backfil": "easy"}, ("backfil",)),
        ({"topologies": [{"levels": []}]}, ("topologies", 0, "levels")),
        ({"topologies": [{"levels": ["a", "a"]}]}, ("topologies", 0, "levels")),
        ({"factors": {"qosValues": {"high": "much"}}}, ("factors", "qosValues", "high")),
    ],
)
def test_a_complaint_about_a_policy_knows_its_place(said: Any, path: tuple[str | int, ...]) -> None:
    with pytest.raises(Misread) as raised:
        read_policy(said)
    assert raised.value.path == path
