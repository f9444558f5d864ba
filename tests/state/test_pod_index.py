"""`state/nodes/pod_index.py`: the pods on each node by class, selectors over them, and host ports."""

from __future__ import annotations

import pytest

from phalanx.model.pod import ALL_NAMESPACES, HostPort, Operator, PodAffinityTerm, Requirement, Shape
from phalanx.state.classes import AffinityClass, InternTable
from phalanx.state.nodes.pod_index import PodIndex, arrival_may_help, change_may_help, selector_matches

IN, NOT_IN, EXISTS, ABSENT, GT = (
    Requirement("app", Operator.IN, ("db", "web")),
    Requirement("app", Operator.NOT_IN, ("db",)),
    Requirement("app", Operator.EXISTS),
    Requirement("app", Operator.DOES_NOT_EXIST),
    Requirement("app", Operator.GT, ("1",)),
)


def kind(app: str = "", namespace: str = "a", *, away: tuple[PodAffinityTerm, ...] = ()) -> AffinityClass:
    found = InternTable().kind(namespace, (("app", app),) if app else (), (), away)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("requirement", "matched"),
    [(IN, ["db", "web"]), (NOT_IN, ["web", ""]), (EXISTS, ["db", "web"]), (ABSENT, [""]), (GT, [])],
)
def test_a_selector_matches_as_in_kubernetes(requirement: Requirement, matched: list[str]) -> None:
    found = [app for app in ("db", "web", "") if selector_matches((requirement,), ("a",), kind(app))]
    assert found == matched


def test_a_selector_is_for_its_namespaces() -> None:
    assert not selector_matches((), ("b",), kind("db"))
    assert selector_matches((), ("a", "b"), kind("db"))
    assert selector_matches((), (ALL_NAMESPACES,), kind("db"))


def test_pods_are_counted_by_row_and_a_class_without_pods_is_forgotten() -> None:
    index, db, web = PodIndex(), kind("db"), kind("web")
    index.add(db, 3, 2)
    index.add(web, 3)
    assert index.rows[db] == {3: 2}
    assert list(index.candidates((IN,))) == [db, web]
    assert list(index.candidates((Requirement("app", Operator.IN, ("db",)),))) == [db]
    copy = index.copy()
    for _ in range(2):
        index.remove(db, 3)
    assert db not in index.rows
    assert list(index.candidates((IN,))) == [web]
    assert copy.rows[db] == {3: 2}


def test_a_host_port_is_in_use_until_the_last_pod_closes_it() -> None:
    index, port = PodIndex(), HostPort(80)
    index.open_ports(1, [port])
    index.open_ports(1, [port])
    index.close_ports(1, [port])
    assert index.ports == {1: {port: 1}}
    index.close_ports(1, [port])
    assert not index.ports


def test_who_comes_and_who_goes_may_help_a_pod_that_waits() -> None:
    """Affinity is helped by an arrival. Anti-affinity, of either pod, is helped by a departure."""
    term = PodAffinityTerm(topology="host", selector=(IN,))
    near, away = Shape(requests=(), namespace="a", near=(term,)), Shape(requests=(), namespace="a", away=(term,))
    assert arrival_may_help(near, kind("db"))
    assert not arrival_may_help(near, kind("other"))
    assert not arrival_may_help(away, kind("db"))
    assert change_may_help(away, None, kind("db"))
    plain, guarded = Shape(requests=(), namespace="a"), kind("other", away=(term,))
    assert change_may_help(plain, kind("web"), guarded)
    assert not change_may_help(plain, kind("else"), guarded)
