"""Reasons as people read them."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Finished
from phalanx.model.plan import Wait
from phalanx.model.pod import format_amount
from phalanx.model.policy import Policy
from phalanx.model.reason import LazyReason, Reason, ReasonCode

from .builders import cluster, job, node, role

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "scheduling.md"


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1.5"),
        ("cpu", 100, "0.1"),
        ("memory", 8 * 2**30, "8Gi"),
        ("memory", 3 * 2**29, "1.5Gi"),
        ("memory", 1000, "1000"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_amounts_are_shown_as_people_write_them(resource: str, amount: int, text: str) -> None:
    assert format_amount(resource, amount) == text


def reason_of(*news) -> Reason:
    plan = decide(cluster(*news), Policy(), 0.0)
    return next(action.reason for action in plan.actions if isinstance(action, Wait))


def test_the_numbers_are_those_of_the_sentence() -> None:
    reason = reason_of(node("a", gpu=4), node("b", gpu=3), job("x", role("w", 1, gpu=2)), job("y", role("w", 3, gpu=2)))
    assert reason.text == (
        "placed 2 of 3 pods; then the largest free node has 1 of the 2 gpu asked "
        "(6 gpu asked in all, 5 free; most is held in queue default by x (2))"
    )
    numbers = reason.numbers
    assert (numbers["placed"], numbers["pods"], numbers["asked"]["gpu"], numbers["free"]["gpu"]) == (2, 3, 6, 5)
    assert numbers["holders"] == {"x": 2}


def test_a_reason_says_what_was_true_when_it_was_found() -> None:
    book = cluster(node("a", gpu=4), job("x", role("w", 1, gpu=3)), job("y", role("w", 1, gpu=2)))
    plan = decide(book, Policy(), 0.0)
    fold_plan(book, plan)
    (late,) = (action.reason for action in plan.actions if isinstance(action, Wait))
    fold(book, [Finished("x")])
    assert late.numbers["holders"] == {"x": 3}
    assert "(2 gpu asked in all, 1 free; most is held in queue default by x (3))" in late.text
    assert late.names("x")
    assert not late.names("y")


def test_a_late_reason_is_equal_to_the_same_in_words() -> None:
    late = reason_of(node("a", gpu=4), job("x", role("w", 1, gpu=3)), job("y", role("w", 1, gpu=2)))
    assert isinstance(late, LazyReason)
    assert late == late.plain() == late == pickle.loads(pickle.dumps(late))
    assert hash(late) == hash(late.plain())
    assert late != Reason(code=ReasonCode.NO_ROOM, text="other")


def test_more_nodes_help_where_room_is_missing_and_not_where_a_queue_is() -> None:
    assert reason_of(node("a", cpu=1), job("j", role("w", 1, cpu=2))).more_nodes_help
    assert not reason_of(node("a", cpu=1), job("j", role("w", 1, cpu=1), queue="nowhere")).more_nodes_help


def test_the_guide_names_every_reason() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", GUIDE.read_text(), re.MULTILINE))
    assert named == {str(code) for code in ReasonCode}
