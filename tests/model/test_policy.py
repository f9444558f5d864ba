"""`model/policy.py`: every choice of the policy can be written into a policy file, and the guide describes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold
from phalanx.dialects.schema.fields import Misread
from phalanx.dialects.schema.policy import read_policy
from phalanx.model.event import PolicySeen, QueueSeen, Submitted, Ticked
from phalanx.model.policy import (
    Backfill,
    BackfillOrder,
    FairShareFormula,
    Policy,
    PriorityWeights,
    ScoringStrategy,
    WaitingJob,
)
from phalanx.model.queue import Queue, QueueOrder
from tests.core.builders import cluster, job, node, role

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
# the field of the policy, and its name in a file
CHOICES: Mapping[type[StrEnum], tuple[str, str]] = {
    Backfill: ("backfill", "backfill"),
    BackfillOrder: ("backfill_order", "backfillOrder"),
    ScoringStrategy: ("score", "score"),
    FairShareFormula: ("fair_share", "fairShare"),
}
ALL = [(kind, value) for kind in CHOICES for value in kind]


@pytest.mark.parametrize(("kind", "value"), ALL, ids=str)
def test_a_choice_is_written_in_a_file_by_its_value(kind: type[StrEnum], value: StrEnum) -> None:
    field, name = CHOICES[kind]
    found = getattr(read_policy({name: str(value)}), field)
    assert found is value


@pytest.mark.parametrize(("kind", "value"), ALL, ids=str)
def test_the_guide_names_each_choice(kind: type[StrEnum], value: StrEnum) -> None:
    text = "".join(path.read_text() for path in GUIDE.glob("*.md"))
    assert re.search(rf"[`: ,|\[]{re.escape(value)}[`, |\n\]]", text)


@pytest.mark.parametrize("kind", CHOICES, ids=lambda kind: kind.__name__)
def test_another_word_is_refused_with_the_known_ones(kind: type[StrEnum]) -> None:
    with pytest.raises(Misread) as caught:
        read_policy({CHOICES[kind][1]: "other"})
    assert all(value in str(caught.value) for value in kind)


def test_an_empty_file_is_the_default_policy() -> None:
    assert read_policy({}) == Policy()
    assert Policy().factors == PriorityWeights()


def test_policies_are_compared_and_kept_as_keys() -> None:
    """The loop sends a policy only when it has changed."""
    assert len({Policy(), Policy(), replace(Policy(), backfill=Backfill.GREEDY)}) == 2
    assert Policy() != replace(Policy(), half_life_s=1.0)


# --- functions --------------------------------------------------------------------------------------------------------


def seen_by(function: Any) -> list[str]:
    """The order in which jobs are started one by one with this function as priority. `small` asks for less."""
    policy = Policy(priority_function=function)
    state = cluster(node("n", cpu=64_000), PolicySeen(policy), QueueSeen(Queue(name="q", order=QueueOrder.MULTIFACTOR)))
    jobs = (
        job("large", role(count=3, minimum=2, cpu=2000), queue="q", at=10.0),
        job("small", role(cpu=1000), queue="q"),
    )
    fold(state, [Ticked(100.0), *map(Submitted, jobs)])
    return [action.job for action in decide(state, policy, 100.0).plan.actions if hasattr(action, "placements")]


def test_a_function_orders_waiting_jobs_from_what_it_sees_of_them() -> None:
    seen: dict[str, WaitingJob] = {}

    def more_pods_first(waiting: WaitingJob) -> float:
        seen[waiting.id] = waiting
        return waiting.pods

    assert seen_by(more_pods_first) == ["large", "small"]
    assert seen_by(lambda waiting: -waiting.pods) == ["small", "large"]
    large = seen["large"]
    assert (large.queue, large.pods, dict(large.requests)) == ("q", 2, {"cpu": 4.0, "pods": 2})  # in cores
    assert (large.waited_s, large.limit_s, large.estimate_s) == (90.0, None, None)


def test_the_guide_describes_each_field_that_a_function_sees() -> None:
    table = (GUIDE / "simulate.md").read_text().partition("| `job.` |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z_]+)`", table.replace("`cpu`", "").replace("`memory`", ""))) - {"namespace"} >= {
        each.name for each in fields(WaitingJob)
    }
    assert phalanx.WaitingJob is WaitingJob
