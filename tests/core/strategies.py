"""Random nodes and shapes with few values, so that they match each other often enough to be interesting."""

from __future__ import annotations

from hypothesis import strategies as st

from phalanx.model.job import Role
from phalanx.model.node import Node, Taint
from phalanx.model.pod import Operator, Requirement, Shape, Toleration, amounts

KEYS = st.sampled_from(["zone", "gen"])
VALUES = st.sampled_from(["a", "b", "3", "10"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])

taints = st.builds(Taint, KEYS, st.sampled_from(["", "a"]), EFFECTS)
tolerations = st.builds(
    Toleration,
    st.sampled_from(["", "zone", "gen", "node.kubernetes.io/unschedulable"]),
    st.sampled_from(["Exists", "Equal"]),
    st.sampled_from(["", "a"]),
    st.sampled_from(["", "NoSchedule", "NoExecute"]),
)


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(list(Operator)))
    if operator in {Operator.GT, Operator.LT}:
        return Requirement("gen", operator, (draw(st.sampled_from(["3", "5", "-1"])),))
    values = tuple(draw(st.lists(VALUES, min_size=1, max_size=2)))
    if operator in {Operator.EXISTS, Operator.DOES_NOT_EXIST}:
        values = ()
    elif draw(st.booleans()):
        return Requirement("metadata.name", operator, (draw(st.sampled_from(["n0", "n1"])),), field=True)
    return Requirement(draw(KEYS), operator, values)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    asks = {"cpu": draw(st.integers(0, 3)), "memory": draw(st.integers(0, 3)), "gpu": draw(st.sampled_from([0, 0, 1]))}
    term = st.lists(requirements(), max_size=2).map(tuple)
    return Shape(
        requests=amounts(asks),
        selector=tuple(draw(st.dictionaries(KEYS, VALUES, max_size=1)).items()),
        affinity=tuple(draw(st.lists(term, max_size=2))),
        tolerations=tuple(draw(st.lists(tolerations, max_size=2))),
    )


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    room = {"cpu": draw(st.integers(0, 5)), "memory": draw(st.integers(0, 5)), "gpu": draw(st.integers(0, 1))}
    room["pods"] = draw(st.sampled_from([1, 3, 10]))
    return Node(
        name=name,
        allocatable=amounts(room),
        labels=tuple(draw(st.dictionaries(KEYS, VALUES, max_size=2)).items()),
        taints=tuple(draw(st.lists(taints, max_size=1))),
        unschedulable=draw(st.sampled_from([False, False, True])),
        ready=draw(st.sampled_from([True, True, False])),
    )


@st.composite
def node_lists(draw: st.DrawFn, most: int = 4) -> list[Node]:
    return [draw(nodes(f"n{index}")) for index in range(draw(st.integers(1, most)))]


@st.composite
def plain_roles(draw: st.DrawFn) -> tuple[Role, ...]:
    """One to three roles of up to three pods, asking amounts only."""
    roles = []
    for index in range(draw(st.integers(1, 3))):
        asks = amounts({"cpu": draw(st.integers(0, 3)), "memory": draw(st.integers(0, 3))})
        count = draw(st.integers(1, 3))
        roles.append(Role(name=f"r{index}", count=count, minimum=count, shape=Shape(requests=asks)))
    return tuple(roles)
