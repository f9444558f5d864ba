"""`model/node.py`: taints and tolerations, flavors, and node groups."""

from __future__ import annotations

import pytest

from phalanx.model.node import Flavor, NodeGroup, Taint, joined_flavor, joined_name, parts_of, taint_text, tolerates
from phalanx.model.pod import Shape, Toleration
from tests.core.builders import node

GPU = Taint("gpu", "h100")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="gpu", value="h100"), True),
        (Toleration(key="gpu", value="a100"), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="gpu", value="h100", effect="NoExecute"), False),
        (Toleration(key="gpu", value="h100", effect="NoSchedule"), True),
        (Toleration(key="spot", operator="Exists"), False),
        (Toleration(key="gpu", operator="Odd", value="h100"), False),
    ],
    ids=str,
)
def test_a_taint_is_tolerated_as_in_kubernetes(toleration: Toleration, tolerated: bool) -> None:
    assert tolerates((toleration,), GPU) is tolerated
    assert tolerates((Toleration(key="other", operator="Exists"), toleration), GPU) is tolerated
    assert not tolerates((), GPU)


def test_a_taint_by_name_is_not_tolerated_by_a_toleration_of_everything() -> None:
    by_name = Taint("phalanx.dev/part", "x", by_name=True)
    assert not tolerates((Toleration(operator="Exists"),), by_name)
    assert tolerates((Toleration(key="phalanx.dev/part", operator="Exists"),), by_name)


@pytest.mark.parametrize(
    ("taint", "text"), [(GPU, "gpu=h100:NoSchedule"), (Taint("spot", effect="NoExecute"), "spot:NoExecute")]
)
def test_a_taint_reads_as_kubectl_writes_it(taint: Taint, text: str) -> None:
    assert taint_text(taint) == text


def test_a_flavor_is_for_pods_that_tolerate_its_taints_or_gives_them_the_toleration() -> None:
    shape = Shape(requests=())
    assert Flavor(name="f", taints=(GPU,)).untolerated(shape) == GPU
    assert Flavor(name="f", taints=(Taint("soft", effect="PreferNoSchedule"),)).untolerated(shape) is None
    opened = Flavor(name="f", taints=(GPU,), tolerations=(Toleration(key="gpu", operator="Exists"),))
    assert opened.untolerated(shape) is None
    assert opened.applied_to(shape).tolerations == opened.tolerations


def test_a_shape_of_a_flavor_selects_the_nodes_of_both() -> None:
    shape = Shape(requests=(), selector=(("zone", "a"),))
    assert Flavor(name="f", labels=(("gpu", "h100"),)).applied_to(shape).selector == (("gpu", "h100"), ("zone", "a"))


def test_flavors_of_several_resource_groups_are_joined() -> None:
    known = {"cpu": Flavor(name="cpu", labels=(("a", "1"),)), "gpu": Flavor(name="gpu", labels=(("b", "2"),))}
    name = joined_name(known)
    assert (name, parts_of(name), parts_of("")) == ("cpu+gpu", ("cpu", "gpu"), ())
    both = joined_flavor(name, known)
    assert both is not None
    assert both.labels == (("a", "1"), ("b", "2"))
    assert joined_flavor("cpu+gone", known) == known["cpu"]
    assert joined_flavor("gone", known) is None


def test_a_node_of_a_group_has_not_arrived() -> None:
    made = NodeGroup(name="g", template=node("t", cpu=8)).node("g-1")
    assert (made.name, made.group, made.ready, made.allocatable) == ("g-1", "g", False, node("t", cpu=8).allocatable)
