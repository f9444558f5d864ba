"""`kube/capacity/node_parts.py`: a reserved part of a node is a node of its own, and the node is smaller by it."""

from __future__ import annotations

from dataclasses import replace

from phalanx.dialects.frame.dialect import NodePart, PartUse
from phalanx.kube.capacity.node_parts import in_parts, name_of, node_and_part, split
from phalanx.kube.read.labels import PART
from phalanx.kube.read.pod import Pod, read_pod
from phalanx.kube.read.template.pod_shape import ShapeCache
from phalanx.model.node import tolerates
from phalanx.model.pod import Operator, Requirement, amounts
from tests.core.builders import node
from tests.kube.double import pod

WHOLE = node("n", labels={"zone": "a"}, cpu=8)
KEPT = NodePart(name="lab", node="n", allocatable=amounts({"cpu": 3, "pods": 2}))


def read(name: str = "p", **more: str) -> Pod:
    obj = pod(name, **more)
    return read_pod({**obj, "metadata": {**obj["metadata"], "uid": name, "resourceVersion": "1"}}, ShapeCache())


def test_a_part_and_the_rest_are_the_node() -> None:
    rest, part = split(WHOLE, [KEPT])
    assert dict(rest.allocatable) == {"cpu": 5, "pods": 108}
    assert (part.name, part.part_of, part.allocatable) == ("n/lab", "n", KEPT.allocatable)
    assert dict(part.labels) == {"zone": "a", PART: "lab"}
    assert list(split(WHOLE, [])) == [WHOLE]
    assert (name_of("n", "lab"), node_and_part("n/lab"), node_and_part("n")) == ("n/lab", ("n", "lab"), ("n", ""))


def test_a_part_that_is_larger_than_the_node_leaves_nothing() -> None:
    rest, _ = split(WHOLE, [replace(KEPT, allocatable=amounts({"cpu": 99}))])
    assert "cpu" not in dict(rest.allocatable)


def test_a_part_takes_no_pods_while_its_node_does_not_or_while_it_is_closed() -> None:
    for whole, kept in ((replace(WHOLE, unschedulable=True), KEPT), (WHOLE, replace(KEPT, closed=True))):
        assert list(split(whole, [kept]))[1].unschedulable
    assert not list(split(replace(WHOLE, ready=False), [KEPT]))[1].ready


def test_only_who_may_use_a_part_tolerates_it_and_rather_goes_there() -> None:
    _, part = split(WHOLE, [KEPT])
    (taint,) = part.taints
    other, user = read(), in_parts(read(), PartUse(names=("lab",)), "", None)
    assert not tolerates(other.shape.tolerations, taint)
    assert tolerates(user.shape.tolerations, taint)
    (wish,) = user.shape.preferences
    assert wish.term == (Requirement(PART, Operator.IN, ("lab",)),)
    assert in_parts(other, None, "", None) is other


def test_who_must_use_a_part_goes_nowhere_else() -> None:
    bound = in_parts(read(), PartUse(names=("lab",), required=True), "", None)
    assert bound.shape.affinity == ((Requirement(PART, Operator.IN, ("lab",)),),)
    assert bound.shape.preferences == ()


def test_a_pod_runs_in_its_part_as_long_as_the_part_is_there() -> None:
    running = read(node="n")
    assert in_parts(running, None, "lab", KEPT).node == "n/lab"
    assert in_parts(running, None, "lab", None).node == "n"
    assert in_parts(running, None, "lab", replace(KEPT, node="other")).node == "n"
