"""Matching and fitting, held against the plain rules of `brute`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from phalanx.core.fold.fold import fold
from phalanx.core.placement.filters import matching
from phalanx.model.event import NodeSeen
from phalanx.model.node import Node, Taint
from phalanx.model.pod import Operator, Requirement, Shape, Toleration
from phalanx.state.classes import Demand
from phalanx.state.cluster import Cluster
from tests.core import brute
from tests.core.builders import cluster, node
from tests.core.strategies import node_lists, shapes


def matched(book: Cluster, shape: Shape) -> set[str]:
    passed = matching.matching(book.columns.attributes, book.interned.demand(shape).where)
    return {book.columns.names[row] for row in np.flatnonzero(passed)}


@pytest.mark.slow
@given(node_lists(), shapes())
def test_matching_is_what_the_plain_rules_say(nodes: list[Node], shape: Shape) -> None:
    assert matched(cluster(*nodes), shape) == {each.name for each in nodes if brute.matches(each, shape)}


@pytest.mark.slow
@given(node_lists(), node_lists(), shapes())
def test_matching_follows_nodes_that_change(nodes: list[Node], later: list[Node], shape: Shape) -> None:
    book = cluster(*nodes)
    matched(book, shape)
    fold(book, [NodeSeen(each) for each in later])
    now = {each.name: each for each in (*nodes, *later)}
    assert matched(book, shape) == {name for name, each in now.items() if brute.matches(each, shape)}


@pytest.mark.parametrize(
    ("operator", "values", "names"),
    [
        (Operator.IN, ("3", "x"), {"three"}),
        (Operator.NOT_IN, ("3",), {"ten", "word", "none"}),
        (Operator.EXISTS, (), {"three", "ten", "word"}),
        (Operator.DOES_NOT_EXIST, (), {"none"}),
        (Operator.GT, ("3",), {"ten"}),
        (Operator.LT, ("10",), {"three"}),
        (Operator.GT, ("many",), set()),
    ],
)
def test_operators(operator: Operator, values: tuple[str, ...], names: set[str]) -> None:
    book = cluster(
        node("three", labels={"gen": "3"}),
        node("ten", labels={"gen": "10"}),
        node("word", labels={"gen": "word"}),
        node("none"),
    )
    shape = Shape(requests=(), affinity=((Requirement("gen", operator, values),),))
    assert matched(book, shape) == names


def test_an_empty_term_matches_no_node() -> None:
    assert matched(cluster(node("a")), Shape(requests=(), affinity=((),))) == set()


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("gpu", "Exists"), True),
        (Toleration("gpu", "Equal", "yes"), True),
        (Toleration("gpu", "", "yes", "NoSchedule"), True),
        (Toleration("", "Exists"), True),
        (Toleration("gpu", "Equal", "no"), False),
        (Toleration("gpu", "Exists", "", "NoExecute"), False),
        (Toleration("cpu", "Exists"), False),
        (Toleration("gpu", "Lt", "yes"), False),
    ],
)
def test_tolerations(toleration: Toleration, expected: bool) -> None:
    assert matching.tolerates((toleration,), Taint("gpu", "yes", "NoSchedule")) is expected


def test_an_absurd_amount_fits_nowhere_and_breaks_nothing() -> None:
    book = cluster(node("a", cpu=1000))
    demand: Demand = book.interned.demand(Shape(requests=(("cpu", 10**30),)))
    assert matching.empty_capacity(book.columns, demand) == 0
