"""Queues and policies as users write them: the effect of every field, and the error of an invalid one."""

from __future__ import annotations

from typing import Any

from phalanx.dialects.schema.queue import read_queue
from phalanx.fair_tree import PARENT
from phalanx.model.queue import (
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
