"""Charges on nodes: what a decision takes, and what gives it back."""

from __future__ import annotations

import pytest

from phalanx.core.fold.fold import fold
from phalanx.model.event import Finished, NodeGone, Opened, Refused, Released
from phalanx.model.job import Placement, Slot
from phalanx.model.plan import Place, Start
from phalanx.model.reason import Reason, ReasonCode
from tests.core.builders import cluster, free, job, node, role
from tests.invariants import InvariantViolation, check_invariants

ON_A = (Placement(0, 0, "a"), Placement(0, 1, "a"))

WHY = Reason(code=ReasonCode.BACKOFF, text="no")


def started():
    book = cluster(node("a", cpu=8), job("j", role("w", 2, cpu=3)))
    fold(book, [Start("j", 1, ON_A)])
    return book


def test_a_decision_is_charged_when_it_is_folded() -> None:
    assert free(started(), "a") == 2


@pytest.mark.parametrize("answer", [Finished("j"), Refused("j", 1, WHY), Released("j", (Slot(0, 0), Slot(0, 1)))])
def test_what_ends_gives_all_back(answer) -> None:
    book = started()
    fold(book, [answer])
    check_invariants(book)
    assert free(book, "a") == 8


def test_an_open_slot_gives_back_its_room_and_takes_it_where_it_is_placed() -> None:
    book = started()
    fold(book, [Opened("j", (Slot(0, 1),))])
    assert free(book, "a") == 5
    fold(book, [Place("j", (Placement(0, 1, "a"),))])
    check_invariants(book)
    assert free(book, "a") == 2


def test_a_lost_node_keeps_its_charges_until_the_pods_are_gone() -> None:
    book = started()
    fold(book, [NodeGone("a")])
    check_invariants(book)
    assert book.columns.row_of["a"] == 0
    fold(book, [Finished("j")])
    check_invariants(book)
    assert "a" not in book.columns.row_of


def test_a_decision_without_room_is_noticed() -> None:
    book = cluster(node("a", cpu=2), job("j", role("w", 2, cpu=3)))
    fold(book, [Start("j", 1, ON_A)])
    with pytest.raises(InvariantViolation, match="we placed a pod of j on a, which had no room for it"):
        check_invariants(book)


def test_a_partial_gang_is_noticed() -> None:
    book = cluster(node("a", cpu=8), job("j", role("w", 2, cpu=3)))
    fold(book, [Start("j", 1, ON_A[:1])])
    with pytest.raises(InvariantViolation, match="j was started with 1 of 2 pods of w"):
        check_invariants(book)
