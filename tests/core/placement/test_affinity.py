"""Affinity, anti-affinity, spread and host ports, held against trying every node by the rules of Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Occupied, Submitted
from phalanx.model.job import Job, Role
from phalanx.model.plan import Start
from phalanx.model.pod import HostPort, Operator, PodAffinityTerm, Requirement, Shape, TopologySpread, amounts
from phalanx.model.policy import Policy
from tests.core.builders import cluster, node
from tests.invariants import check_invariants

Pod = tuple[Shape, str]  # a pod and its node

ZONES = {"n0": "a", "n1": "a", "n2": "b", "n3": ""}
labels = st.dictionaries(st.just("app"), st.sampled_from(["x", "y"]), max_size=1).map(lambda each: tuple(each.items()))
selectors = st.sampled_from(
    [
        (),
        (Requirement("app", Operator.IN, ("x",)),),
        (Requirement("app", Operator.NOT_IN, ("x",)),),
        (Requirement("app", Operator.EXISTS),),
        (Requirement("app", Operator.DOES_NOT_EXIST),),
    ]
)
terms = st.builds(
    PodAffinityTerm, st.sampled_from(["zone", "host"]), selectors, st.sampled_from([(), ("m",), ("*",), ("n", "m")])
)
spreads = st.builds(
    TopologySpread, st.sampled_from(["zone", "host"]), st.integers(1, 2), selectors, st.just(True), st.integers(1, 3)
)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    return Shape(
        requests=amounts({"cpu": 1}),
        labels=draw(labels),
        namespace=draw(st.sampled_from(["n", "m"])),
        near=tuple(draw(st.lists(terms, max_size=1))),
        away=tuple(draw(st.lists(terms, max_size=1))),
        spread=tuple(draw(st.lists(spreads, max_size=1))),
        ports=tuple(draw(st.lists(st.builds(HostPort, st.sampled_from([80, 81])), max_size=1))),
    )


others = st.lists(st.tuples(shapes(), st.sampled_from(sorted(ZONES))), max_size=5)


@pytest.mark.slow
@given(others, shapes())
def test_one_pod_goes_to_a_node_exactly_if_some_node_will_do(running: list[Pod], shape: Shape) -> None:
    started = placed(running, shape, 1)
    will_do = [name for name in ZONES if may(running, shape, name)]
    assert started[0] in will_do if started else not will_do


@pytest.mark.slow
@given(others, shapes(), st.integers(2, 4))
def test_pods_of_a_gang_are_placed_one_by_one_by_the_same_rules(running: list[Pod], shape: Shape, count: int) -> None:
    pods = list(running)
    for name in placed(running, shape, count):
        assert may(pods, shape, name)
        pods.append((shape, name))


def placed(running: Sequence[Pod], shape: Shape, count: int) -> list[str]:
    """The nodes that the job's pods are given, in order."""
    book = cluster(*(node(name, labels=labels_of(name), cpu=9) for name in ZONES))
    for at, (other, name) in enumerate(running):
        seen = {"labels": other.labels, "namespace": other.namespace, "ports": other.ports}
        fold(book, [Occupied(f"pod-{at}", name, amounts({"pods": 1}), **seen, near=other.near, away=other.away)])
    role = Role(name="w", count=count, minimum=count, shape=shape)
    fold(book, [Submitted(Job(id="job", queue="default", roles=(role,)))])
    plan = decide(book, Policy(), 0.0)
    fold_plan(book, plan)
    check_invariants(book)
    starts = [action for action in plan.actions if isinstance(action, Start)]
    return [each.node for start in starts for each in start.placements]


def labels_of(name: str) -> dict[str, str]:
    zone = {"zone": ZONES[name]} if ZONES[name] else {}
    return {"host": name, **zone}


def may(running: Sequence[Pod], shape: Shape, name: str) -> bool:
    """Whether the pod may go to that node, the others being where they are."""
    return (
        all(port not in other.ports for other, at in running if at == name for port in shape.ports)
        and near_enough(running, shape, name)
        and not any(is_with(running, term, shape.namespace, name) for term in shape.away)
        and not any(keeps_away(other, at, shape, name) for other, at in running)
        and all(is_level(running, spread, shape, name) for spread in shape.spread)
    )


def near_enough(running: Sequence[Pod], shape: Shape, name: str) -> bool:
    if any(term.topology not in labels_of(name) for term in shape.near):
        return False
    followed = [(other, at) for other, at in running if all(picks(term, shape.namespace, other) for term in shape.near)]
    if not any(term.topology in labels_of(at) for term in shape.near for _, at in followed) and all(
        picks(term, shape.namespace, shape) for term in shape.near
    ):
        return True
    return all(any(same(term.topology, at, name) for _, at in followed) for term in shape.near)


def is_with(running: Sequence[Pod], term: PodAffinityTerm, namespace: str, name: str) -> bool:
    return any(picks(term, namespace, other) and same(term.topology, at, name) for other, at in running)


def keeps_away(other: Shape, at: str, shape: Shape, name: str) -> bool:
    return any(picks(term, other.namespace, shape) and same(term.topology, at, name) for term in other.away)


def is_level(running: Sequence[Pod], spread: TopologySpread, shape: Shape, name: str) -> bool:
    if spread.topology not in labels_of(name):
        return False
    counts = {labels_of(each)[spread.topology]: 0 for each in ZONES if spread.topology in labels_of(each)}
    for other, at in running:
        if spread.topology in labels_of(at) and other.namespace == shape.namespace and meets(spread.selector, other):
            counts[labels_of(at)[spread.topology]] += 1
    least = min(counts.values()) if len(counts) >= spread.min_domains else 0
    would = counts[labels_of(name)[spread.topology]] + meets(spread.selector, shape)
    return would - least <= spread.max_skew


def same(topology: str, one: str, other: str) -> bool:
    return topology in labels_of(one) and labels_of(one)[topology] == labels_of(other).get(topology)


def picks(term: PodAffinityTerm, namespace: str, shape: Shape) -> bool:
    namespaces = term.namespaces or (namespace,)
    return ("*" in namespaces or shape.namespace in namespaces) and meets(term.selector, shape)


def meets(selector: Sequence[Requirement], shape: Shape) -> bool:
    app = dict(shape.labels).get("app")
    for each in selector:
        by_operator = {"In": app in each.values, "NotIn": app not in each.values}
        if not {**by_operator, "Exists": app is not None, "DoesNotExist": app is None}[each.operator]:
            return False
    return True
