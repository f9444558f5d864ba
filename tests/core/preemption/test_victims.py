"""`core/preemption/victims.py`: packages of candidates that free capacity for one more pod, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from phalanx.core.preemption.victims import (
    CandidateTable,
    Descending,
    VictimPackages,
    by_queue_share,
    collect_victims,
    in_victim_order,
    lost_s,
)
from phalanx.model.event import Adopted
from phalanx.state.classes import Demand
from tests.core.builders import node
from tests.core.preemption.test_candidates import NOW_S, Searched, asks, queue, runs


def wanted(book: Searched) -> Demand:
    [demand] = book.book.jobs["urgent"].gang.demands
    return demand


def packages(book: Searched, need: int = 1) -> list[list[str]]:
    """Return the jobs of each package, the cheapest package first."""
    found = VictimPackages(book.all.field, wanted(book), need, None)
    return [[book.name(each) for each in found.members(package)] for package in found.order.tolist()]


def collected(book: Searched, need: int = 1) -> tuple[list[str], int]:
    chosen, left = collect_victims(book.all.field, wanted(book), need, book.all, None)
    return [book.name(each) for each in chosen], left


def searched(*running: Adopted, cpu: int = 4, nodes: dict[str, int] | None = None, pods: int = 1) -> Searched:
    """Nodes that are full of these jobs, and a job that requests `cpu` for each of its pods."""
    sizes = nodes or {"a": 4, "b": 4}
    return Searched(
        queue(),
        *(node(name, cpu=size) for name, size in sizes.items()),
        *running,
        asks("urgent", cpu, pods=pods, priority=9),
    )


# --- packages ---------------------------------------------------------------------------------------------------------


def test_a_candidate_that_alone_frees_enough_is_a_package() -> None:
    book = searched(runs(asks("whole", 4), "a"), runs(asks("half1", 2), "b"), runs(asks("half2", 2), "b"))
    assert [sorted(each) for each in packages(book)] == [["whole"], ["half1", "half2"]]


def test_the_shortest_run_on_a_node_is_a_package() -> None:
    """The third candidate is not needed."""
    book = searched(*(runs(asks(f"j{at}", 2, priority=at), "a") for at in range(3)), nodes={"a": 6})
    assert packages(book) == [["j0", "j1"]]


def test_free_capacity_counts_so_that_few_candidates_are_enough() -> None:
    book = searched(runs(asks("small", 1), "a"), runs(asks("h1", 2), "b"), runs(asks("h2", 2), "b"))
    assert [sorted(each) for each in packages(book)] == [["small"], ["h1", "h2"]]


def test_packages_go_by_the_priority_of_their_most_important_candidate() -> None:
    cheap = runs(asks("low", 4, priority=1), "b")
    book = searched(runs(asks("low1", 2), "a"), runs(asks("high", 2, priority=5), "a"), cheap)
    assert packages(book) == [["low"], ["low1", "high"]]


def test_fewer_candidates_a_pod_are_cheaper() -> None:
    book = searched(
        runs(asks("two", 4), "a"),
        runs(asks("h1", 2), "b"),
        runs(asks("h2", 2), "b"),
        cpu=2,
        nodes={"a": 4, "b": 4},
        pods=2,
    )
    assert packages(book, need=2)[0] == ["two"], "one candidate for two pods"


def test_less_lost_work_is_cheaper() -> None:
    old, new = runs(asks("old", 4), "a", started_s=0.0), runs(asks("new", 4), "b", started_s=90.0)
    assert packages(searched(old, new)) == [["new"], ["old"]]


def test_work_before_the_last_checkpoint_is_not_lost() -> None:
    ran = np.array([95.0, 30.0, 100.0])
    every = np.array([10.0, 0.0, 50.0])
    assert lost_s(ran, every, np.array([0, 1, 2])).tolist() == [5.0, 30.0, 0.0]
    assert lost_s(ran, np.zeros(3), np.array([0, 1, 2])) is ran
    saves = runs(asks("saves", 4, checkpoint_s=50.0), "a", started_s=NOW_S - 51.0)
    late = runs(asks("late", 4), "b", started_s=NOW_S - 10.0)
    assert packages(searched(saves, late)) == [["saves"], ["late"]]


def test_less_waste_is_cheaper_if_all_else_is_equal() -> None:
    large, fits = runs(asks("large", 6), "a", started_s=NOW_S), runs(asks("fits", 4), "b", started_s=NOW_S)
    assert packages(searched(large, fits, nodes={"a": 6, "b": 4})) == [["fits"], ["large"]]


def test_pods_above_minimums_come_before_all_gangs() -> None:
    rigid = runs(asks("rigid", 4), "b")
    elastic = runs(asks("elastic", 4, pods=2, minimum=1, priority=8), "a", "c")
    found = packages(searched(rigid, elastic, nodes={"a": 4, "b": 4, "c": 4}))
    assert "/" in found[0][0]


def test_a_node_that_the_pod_may_not_use_has_no_package() -> None:
    book = searched(runs(asks("small", 2), "a"), nodes={"a": 2})
    assert packages(book) == []
    assert collected(book) == ([], 1)


# --- collecting -------------------------------------------------------------------------------------------------------


def test_as_many_packages_are_taken_as_pods_are_needed() -> None:
    running = [runs(asks(name, 4), on) for name, on in (("x", "a"), ("y", "b"), ("z", "c"))]
    sizes = {"a": 4, "b": 4, "c": 4}
    for need in (1, 2, 3):
        chosen, left = collected(searched(*running, nodes=sizes), need)
        assert (len(chosen), left) == (need, 0)
    chosen, left = collected(searched(*running, nodes=sizes), 5)
    assert (len(chosen), left) == (3, 2), "what was evicted stays evicted; the caller decides"


def test_a_package_with_a_protected_member_is_given_back_whole() -> None:
    book = searched(runs(asks("free", 2), "a"), runs(asks("kept", 2), "a"), nodes={"a": 4})

    class Refusing:
        def evict(self, candidate: int) -> bool:
            return book.name(candidate) != "kept" and book.all.evict(candidate)

        def restore(self, candidate: int) -> None:
            book.all.restore(candidate)

    before = book.free()
    assert collect_victims(book.all.field, wanted(book), 1, Refusing(), None) == ([], 1)
    assert book.free() == before
    assert book.all.field.gone[book.number("kept")], "it is not tried again"
    assert not book.all.field.gone[book.number("free")]


@pytest.mark.parametrize("seed", range(25))
def test_what_is_collected_frees_enough_and_uses_only_what_is_allowed(seed: int) -> None:
    random = Random(seed)
    sizes = {name: random.randint(4, 8) for name in "abc"}
    left, running = dict(sizes), []
    for at in range(12):
        cpu, on = random.randint(1, 3), random.choice("abc")
        if left[on] >= cpu:
            left[on] -= cpu
            running.append(
                runs(asks(f"j{at}", cpu, priority=random.randint(0, 3)), on, started_s=float(random.randint(0, 90)))
            )
    cpu, need = random.randint(2, 4), random.randint(1, 3)
    book = searched(*running, cpu=cpu, nodes=sizes, pods=need)
    room = book.draft.room(wanted(book))
    possible = sum(size // cpu for size in sizes.values())
    chosen, missing = collected(book, need)
    assert missing == max(0, need - (possible - room))
    assert book.draft.room(wanted(book)) - room >= need - missing
    assert len(set(chosen)) == len(chosen)


def test_restored_candidates_must_fit_again() -> None:
    book = searched(runs(asks("x", 2), "a"), runs(asks("y", 2), "a"), nodes={"a": 4})
    x, y = book.number("x"), book.number("y")
    for each in (x, y):
        assert book.all.evict(each)
    assert book.all.field.could_stay([x, y]) == [x, y]
    assert book.all.field.can_stay(x)
    book.draft.put(0, wanted(book), 1)
    assert book.all.field.could_stay([x, y]) == []
    assert not book.all.field.can_stay(y)


def test_a_candidate_is_found_on_each_of_its_nodes() -> None:
    book = searched(runs(asks("wide", 2, pods=3), "a", "a", "b"))
    table: CandidateTable = book.all.field
    [wide] = range(len(table.job))
    held = {book.book.columns.names[int(book.draft.rows[each.position])]: each.pods for each in table.holdings(wide)}
    assert held == {"a": 2, "b": 1}
    assert [table.units_on(each.position) for each in table.holdings(wide)] == [[wide], [wide]]
    assert sorted(table.amounts("cpu").tolist()) == [2, 4]


# --- queues in turn ---------------------------------------------------------------------------------------------------


def test_the_queue_with_the_highest_share_loses_first_and_shares_change_meanwhile() -> None:
    shares = {0: 5, 1: 4}
    lines: dict[int, Iterator[int]] = {0: iter([10, 11, 12]), 1: iter([20, 21])}
    taken: list[int] = []
    for package in by_queue_share(lines, lambda group: shares[group]):
        taken.append(package)
        shares[package // 20] -= 2
    assert taken == [10, 20, 11, 21, 12]


def test_with_equal_shares_the_first_package_decides() -> None:
    lines: dict[int, Iterator[int]] = {3: iter([1]), 2: iter([0])}
    assert [*by_queue_share(lines, lambda group: 1)] == [1, 0]


def test_tiers_are_kept_apart_and_queues_take_turns_within_a_tier() -> None:
    order, tiers, groups = np.arange(4), np.array([1, 0, 0, 1]), np.array([0, 0, 1, 1])
    assert [*in_victim_order(order, tiers, groups, None)] == [0, 1, 2, 3]
    assert [*in_victim_order(order, tiers, groups, lambda group: group)] == [2, 1, 3, 0]
    assert [*in_victim_order(order[:0], tiers, groups, lambda group: group)] == []


def test_values_compare_in_reverse() -> None:
    values: list[Any] = [Descending(value) for value in (1, 3, 2)]
    assert [each.value for each in sorted(values)] == [3, 2, 1]
    assert Descending((1, 2)) == Descending((1, 2))
    assert hash(Descending(1)) == hash(Descending(1))
    assert Descending(1) != 1
