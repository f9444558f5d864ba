"""`kube/gang/spec/elsewhere.py`: nodes of other clusters, and the roles that must or must not run on these nodes."""

from __future__ import annotations

import pytest

from phalanx.kube.gang.spec.elsewhere import cluster_of, cluster_of_all, confined, node_name, outside
from phalanx.model.job import Placement, Role
from phalanx.model.node import Node
from phalanx.model.pod import Operator, Requirement, Shape
from tests.core.builders import role


def allowed(found: Role, labels: dict[str, str]) -> bool:
    """Return whether a node with these labels meets the role's node affinity."""

    def holds(rule: Requirement) -> bool:
        value = labels.get(rule.key)
        match rule.operator:
            case Operator.IN:
                return value in rule.values
            case Operator.NOT_IN:
                return value not in rule.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
        raise AssertionError(rule)

    return not found.shape.affinity or any(all(map(holds, term)) for term in found.shape.affinity)


def key(of: Role) -> str:
    return of.shape.affinity[0][-1].key


def test_a_node_of_another_cluster_names_it() -> None:
    assert cluster_of(node_name("west", "n1")) == "west"
    assert cluster_of("n1") == ""
    assert cluster_of(Node(name="n1", allocatable=()).name) == ""


@pytest.mark.parametrize(
    ("nodes", "cluster"), [(["n1", "n2"], ""), ([node_name("west", "n1"), node_name("west", "n2")], "west"), ([], "")]
)
def test_a_gang_runs_in_one_cluster(nodes: list[str], cluster: str) -> None:
    assert cluster_of_all([Placement(0, at, name) for at, name in enumerate(nodes)]) == cluster


def test_a_confined_role_stays_in_its_clusters_and_an_outside_role_out_of_them() -> None:
    plain = role(cpu=1)
    anywhere, west, away = confined(plain), confined(plain, ("west",)), outside(plain, ("west",))
    label = key(west)
    assert allowed(west, {label: "west"})
    assert not allowed(west, {label: "east"})
    assert not allowed(west, {})
    assert allowed(anywhere, {label: "east"})
    assert not allowed(anywhere, {})
    assert allowed(away, {label: "east"})
    assert not allowed(away, {label: "west"})


def test_each_term_of_the_roles_own_affinity_stays() -> None:
    own = tuple((Requirement("zone", Operator.IN, (zone,)),) for zone in "ab")
    west = confined(Role(name="w", count=1, minimum=1, shape=Shape(requests=(), affinity=own)), ("west",))
    label = key(west)
    assert allowed(west, {"zone": "a", label: "west"})
    assert not allowed(west, {"zone": "a", label: "east"})
    assert not allowed(west, {"zone": "c", label: "west"})
