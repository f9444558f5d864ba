"""Folding events: charges, releases, and late events."""

from __future__ import annotations

from typing import get_args

import pytest

from phalanx.core.fold.fold import TAKEN_IN_BY, fold
from phalanx.core.fold.transitions import IllegalTransition
from phalanx.model.event import (
    Adopted,
    Event,
    Finished,
    NodeGone,
    Occupied,
    Opened,
    PolicySeen,
    QueueSeen,
    Refused,
    Released,
    Started,
    Vacated,
)
from phalanx.model.job import Phase, Placement, Slot
from phalanx.model.plan import Action, Place, Start
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode
from tests.core.builders import cluster, free, job, node, role
from tests.invariants import check_invariants

ON_A = (Placement(0, 0, "a"), Placement(0, 1, "a"))

WHY = Reason(code=ReasonCode.BACKOFF, text="no")


def started():
    book = cluster(node("a", cpu=8), job("j", role("w", 2, cpu=3)))
    fold(book, [Start("j", 1, ON_A)])
    return book


@pytest.mark.parametrize("way", ["__setitem__", "__ior__", "setdefault", "update"])
def test_what_all_share_that_wait_takes_nothing_in(way) -> None:
    waiting = cluster(node("a", cpu=8), job("j", role("w", 2, cpu=3))).jobs["j"]
    said = ({Slot(0, 0): "a"},) if way in {"__ior__", "update"} else (Slot(0, 0), "a")
    with pytest.raises(TypeError, match="shared"):
        getattr(waiting.nominated, way)(*said)
    assert not waiting.nominated


def test_every_event_and_action_is_taken_in() -> None:
    assert set(TAKEN_IN_BY) == {*get_args(Event), *get_args(Action)}


@pytest.mark.parametrize(
    "event",
    [Started("j", 1), Released("j", (Slot(0, 0),)), Refused("j", 1, WHY), Finished("j"), Opened("j", (Slot(0, 1),))],
)
def test_told_twice_is_told_once(event) -> None:
    once, twice = started(), started()
    fold(once, [event])
    fold(twice, [event, event])
    check_invariants(twice)
    assert free(once, "a") == free(twice, "a")


def test_an_answer_to_an_earlier_start_is_ignored() -> None:
    book = started()
    fold(book, [Refused("j", 1, WHY), Start("j", 2, ON_A), Refused("j", 1, WHY), Started("j", 1)])
    assert (book.jobs["j"].phase, book.jobs["j"].attempt) == (Phase.STARTING, 2)


def test_rows_of_lost_nodes_are_used_again() -> None:
    book = cluster(node("a", cpu=1))
    fold(book, [NodeGone("a")])
    for name in ("b", "c"):
        fold(book, [Occupied("p" + name, name, (("cpu", 1),)), Vacated("p" + name)])
    assert book.columns.names == [""]


def test_adopted_replaces_what_was_known() -> None:
    book = started()
    other = job("j", role("w", 3, cpu=1))
    fold(book, [Adopted(other, 4, Phase.RUNNING, (Placement(0, 0, "a"),), (Slot(0, 1),))])
    check_invariants(book)
    record = book.jobs["j"]
    assert (free(book, "a"), record.attempt, list(record.open)) == (7, 4, [Slot(0, 1)])


@pytest.mark.parametrize(
    ("news", "says"),
    [
        (Start("j", 3, ()), "job .j. was started 1 times"),
        (Start("k", 1, ()), "Start of job 'k', which is not in the book"),
        (Started("j", 7), "job 'j' was started 1 times; Started answers start 7"),
        (Place("j", (Placement(0, 5, "a"),)), "job 'j' has no open slot 0/5 to place"),
        (Opened("j", (Slot(3, 0),)), "job 'j' has 1 roles; there is no slot"),
    ],
)
def test_what_no_correct_sender_sends_is_refused(news, says) -> None:
    with pytest.raises(IllegalTransition, match="^" + says.split(";")[0]):
        fold(started(), [news])


def test_a_copy_is_another_book() -> None:
    book = started()
    copy = book.copy()
    fold(copy, [Finished("j")])
    check_invariants(copy)
    check_invariants(book)
    assert (free(book, "a"), free(copy, "a")) == (2, 8)


def test_room_is_free_on_many_nodes() -> None:
    """The columns grow by doubling, and keep their content."""
    book = cluster(*(node(f"n{index}", cpu=index) for index in range(100)))
    check_invariants(book)
    assert [free(book, f"n{index}") for index in range(100)] == list(range(100))


def test_jobs_that_name_no_queue_follow_the_default_queue() -> None:
    book = cluster(QueueSeen(Queue(name="other")), job("named", role()), job("unnamed", role(), queue=""))
    assert [book.jobs[name].queue for name in ("named", "unnamed")] == ["default", "default"]
    fold(book, [PolicySeen(Policy(default_queue="other"))])
    assert [book.jobs[name].queue for name in ("named", "unnamed")] == ["default", "other"]
    assert book.copy().jobs["unnamed"].queue == "other"
    check_invariants(book)
