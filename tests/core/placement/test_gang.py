"""Placing gangs whole, held against trying every pod on every node."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from phalanx.core.placement import gang, packing
from phalanx.core.placement.draft import Draft
from phalanx.model.job import Role
from phalanx.model.node import Node
from phalanx.state.cluster import Cluster
from tests.core import brute
from tests.core.builders import cluster, node, role
from tests.core.strategies import node_lists, plain_roles, shapes


def place(book: Cluster, *roles: Role) -> list | gang.PlacementShortfall:
    return gang.place(Draft(book.columns), book.interned.gang(roles))


def amounts_free(nodes: list[Node]) -> dict[str, dict[str, int]]:
    return {each.name: dict(each.allocatable) for each in nodes}


@pytest.mark.slow
@given(node_lists(), plain_roles())
def test_a_gang_is_placed_exactly_if_there_is_a_way(nodes: list[Node], roles: tuple[Role, ...]) -> None:
    placed = place(cluster(*nodes), *roles)
    assert isinstance(placed, list) is brute.gang_fits(nodes, amounts_free(nodes), roles)


@pytest.mark.slow
@given(node_lists(), shapes())
def test_constraints_count_too(nodes: list[Node], shape) -> None:
    roles = (Role(name="r", count=2, minimum=2, shape=shape),)
    placed = place(cluster(*nodes), *roles)
    assert isinstance(placed, list) is brute.gang_fits(nodes, amounts_free(nodes), roles)


@given(node_lists(), plain_roles())
def test_without_room_the_draft_is_as_before_and_with_it_nothing_is_overdrawn(nodes, roles) -> None:
    book = cluster(*nodes)
    draft = Draft(book.columns)
    before = {name: column.copy() for name, column in draft.free.items()}
    if isinstance(gang.place(draft, book.interned.gang(roles)), gang.PlacementShortfall):
        assert all((draft.free[name] == column).all() for name, column in before.items())
    else:
        assert all((column >= 0).all() for column in draft.free.values())


def test_best_fit_fails_in_every_order_and_the_search_finds_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """7 cores must become 3+2+2 and 8 cores 3+3+2: packing role by role never does that."""
    book = cluster(node("a", cpu=7), node("b", cpu=8))
    roles = (role("x", 3, cpu=3), role("y", 3, cpu=2))
    assert isinstance(place(book, *roles), list)
    monkeypatch.setattr(packing, "exact_search", lambda draft, asked, roles, within: None)
    assert isinstance(place(book, *roles), gang.PlacementShortfall)


def test_more_than_the_minimum_as_far_as_it_goes() -> None:
    placed = place(cluster(node("a", cpu=5)), role("one", 1, cpu=1), role("many", 9, 2, cpu=1))
    assert Counter(each.role for each in placed) == {0: 1, 1: 4}


def test_pods_of_a_role_are_numbered_through() -> None:
    placed = place(cluster(node("a", cpu=2), node("b", cpu=2)), role("w", 3, cpu=1))
    assert [each.ordinal for each in placed] == [0, 1, 2]


def test_how_far_it_came_is_of_the_trial() -> None:
    shortfall = place(cluster(node("a", gpu=4), node("b", gpu=3)), role("w", 4, gpu=2))
    assert (shortfall.placed, shortfall.wanted, dict(shortfall.left)["gpu"]) == (3, 4, 1)


def test_a_role_may_ask_for_nothing() -> None:
    assert place(cluster(node("a", cpu=1)), role("none", 3, 0, cpu=9)) == []
