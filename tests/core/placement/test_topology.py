"""Closeness held against trying everything: a gang is placed exactly if some domain holds it, and as it asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.core.placement import gang, topology
from phalanx.core.placement.draft import Draft
from phalanx.model.job import Group, Role
from phalanx.model.node import Node, SliceLayer, Topology, TopologyRequest
from phalanx.model.pod import NodePreference, Operator, Requirement, Shape, amounts
from tests.core import brute
from tests.core.builders import cluster, node, role

LEVELS = (Topology(levels=("block", "rack", "host")),)
close = st.sampled_from(["block", "rack", "host"])


@st.composite
def labelled(draw: st.DrawFn) -> list[Node]:
    """Up to seven nodes in two blocks of two racks; some lack a label."""
    made = []
    for at in range(draw(st.integers(1, 7))):
        labels = {"block": draw(st.sampled_from("xy")), "rack": draw(st.sampled_from("12")), "host": f"n{at}"}
        if draw(st.integers(0, 5)) == 0:
            del labels[draw(st.sampled_from(sorted(labels)))]
        made.append(node(f"n{at}", labels=labels, cpu=draw(st.integers(0, 4))))
    return made


def domains(nodes: Sequence[Node], level: str) -> Iterator[list[Node]]:
    """The nodes of each domain, by the definition."""
    keys = LEVELS[0].levels[: LEVELS[0].levels.index(level) + 1]
    found: dict[tuple[str, ...], list[Node]] = {}
    for each in nodes:
        labels = dict(each.labels)
        if all(key in labels for key in keys):
            found.setdefault(tuple(labels[key] for key in keys), []).append(each)
    yield from found.values()


def placed(nodes: Sequence[Node], roles: tuple[Role, ...], near: TopologyRequest | None, *groups: Group) -> list | None:
    book = cluster(*nodes)
    outcome = gang.place(Draft(book.columns, LEVELS), book.interned.gang(roles, groups, near))
    return outcome if isinstance(outcome, list) else None


def room(nodes: Sequence[Node]) -> dict[str, dict[str, int]]:
    return {each.name: dict(each.allocatable) for each in nodes}


def cpus(nodes: Sequence[Node]) -> int:
    return sum(dict(each.allocatable).get("cpu", 0) for each in nodes)


@given(labelled(), close, st.integers(1, 8))
def test_one_role_of_a_required_level_is_placed_exactly_if_a_domain_holds_it(nodes, level, pods) -> None:
    outcome = placed(nodes, (role("w", pods, cpu=1),), TopologyRequest(level=level))
    held = [domain for domain in domains(nodes, level) if cpus(domain) >= pods]
    assert (outcome is not None) is bool(held)
    if outcome is not None:
        used = {each.node for each in outcome}
        tightest = min(map(cpus, held))
        assert any(used <= {each.name for each in domain} and cpus(domain) == tightest for domain in held)


@given(labelled(), close, st.integers(1, 8))
def test_a_preferred_level_never_keeps_a_gang_from_starting(nodes, level, pods) -> None:
    outcome = placed(nodes, (role("w", pods, cpu=1),), TopologyRequest(level=level, required=False))
    assert (outcome is not None) is (cpus(nodes) >= pods)


@given(labelled(), close, st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
def test_two_roles_are_placed_exactly_if_a_domain_holds_both(nodes, level, many, few, wide) -> None:
    roles = (role("many", many, cpu=1), role("few", few, cpu=wide))
    outcome = placed(nodes, roles, TopologyRequest(level=level))
    assert (outcome is not None) is any(
        brute.gang_fits(domain, room(domain), roles) for domain in domains(nodes, level)
    )


@given(labelled(), st.sampled_from(["rack", "host"]), st.integers(2, 3), st.integers(1, 9))
def test_slices_are_whole_but_the_last_and_as_many_as_the_domains_hold(nodes, level, size, pods) -> None:
    near = TopologyRequest(level="block", slices=(SliceLayer(size, level),))
    outcome = placed(nodes, (role("w", pods, cpu=1),), near)
    assert (outcome is not None) is any(hold(block, near.slices, pods) for block in domains(nodes, "block"))
    homes = {each.name: dict(each.labels) for each in nodes}
    for first in range(0, pods if outcome else 0, size):
        assert outcome is not None
        names = [each.node for each in sorted(outcome) if first <= each.ordinal < first + size]
        inside = [tuple(map(homes[name].get, ("block", "rack", level))) for name in names]
        assert len(names) == 1 or (len(set(inside)) == 1 and None not in inside[0])


@given(labelled(), st.sampled_from([(2, 2), (4, 2), (6, 2), (6, 3)]), st.booleans(), st.booleans(), st.integers(1, 13))
def test_slices_of_slices_are_placed_exactly_if_they_can_be(nodes, sizes, one_block, wishing, pods) -> None:
    """Groups of pods share a rack, and smaller groups of them share a host. Pods with preferences may wait in vain."""
    layers = (SliceLayer(sizes[0], "rack"), SliceLayer(sizes[1], "host"))
    wishes = (NodePreference(100, (Requirement("metadata.name", Operator.IN, ("n0",), field=True),)),)
    shape = Shape(requests=amounts({"cpu": 1}), preferences=wishes if wishing else ())
    near = TopologyRequest(level="block" if one_block else "", slices=layers)
    outcome = placed(nodes, (Role(name="w", count=pods, minimum=pods, shape=shape),), near)
    fits = any(hold(part, layers, pods) for part in (domains(nodes, "block") if one_block else [nodes]))
    assert (outcome is not None) is fits or (wishing and fits)
    homes = {each.name: dict(each.labels) for each in nodes}
    for size, level in layers:
        keys = LEVELS[0].levels[: LEVELS[0].levels.index(level) + 1]
        for first in range(0, pods if outcome else 0, size):
            assert outcome is not None
            names = [each.node for each in outcome if first <= each.ordinal < first + size]
            inside = [tuple(map(homes[name].get, keys)) for name in names]
            assert len(names) == 1 or (len(set(inside)) == 1 and None not in inside[0])


def hold(nodes: Sequence[Node], layers: Sequence[SliceLayer], pods: int) -> bool:
    """Whether the nodes hold the pods in slices, the last of which may be short, by trying every domain for that."""
    if not layers:
        return cpus(nodes) >= pods
    parts, (slices, short) = list(domains(nodes, layers[0].level)), divmod(pods, layers[0].pods)
    whole = [most(part, layers, 0) for part in parts]
    if not short:
        return sum(whole) >= slices
    if short == 1 and cpus(nodes) > sum(map(cpus, parts)) and sum(whole) >= slices:
        return True  # a pod alone may also be where there is no such domain
    return any(
        (beside := most(part, layers, short)) >= 0 and sum(whole) - whole[at] + beside >= slices
        for at, part in enumerate(parts)
    )


def most(domain: Sequence[Node], layers: Sequence[SliceLayer], short: int) -> int:
    """How many slices of the first layer the domain holds beside a short one; -1: not even that."""
    sizes = range(short, cpus(domain) + 1, layers[0].pods)
    return max((at for at, pods in enumerate(sizes) if hold(domain, layers[1:], pods)), default=-1)


@given(labelled(), st.integers(1, 8))
def test_balanced_is_as_even_as_the_racks_allow(nodes, pods) -> None:
    outcome = placed(nodes, (role("w", pods, cpu=1),), TopologyRequest(level="block", balanced=True))
    if outcome is None:
        return
    rack_of = {each.name: dict(each.labels).get("rack", "") for each in nodes}
    block = dict(next(each for each in nodes if each.name == outcome[0].node).labels)["block"]
    inside = [each for each in nodes if dict(each.labels).get("block") == block]
    labelled_ = [each for each in inside if rack_of[each.name]]
    if cpus(labelled_) < pods:
        return  # some had to go to nodes in no rack
    counts = Counter(rack_of[each.node] for each in outcome)
    caps = Counter({rack: cpus([each for each in labelled_ if rack_of[each.name] == rack]) for rack in "12"})
    assert all(counts[one] <= counts[other] + 1 or counts[other] == caps[other] for one in "12" for other in "12")


@given(labelled(), st.integers(1, 3), st.integers(0, 3))
def test_so_many_replicas_as_needed_each_in_its_rack(nodes, pods, needed) -> None:
    groups = [Group(name="all", minimum=needed)]
    groups += [Group(name=name, parent="all", closeness=TopologyRequest(level="rack")) for name in "abc"]
    roles = tuple(Role(name=name, count=pods, minimum=pods, shape=role("w", cpu=1).shape, group=name) for name in "abc")
    outcome = placed(nodes, roles, None, *groups)
    most = sum(cpus(rack) // pods for rack in domains(nodes, "rack"))
    assert (outcome is not None) is (most >= needed)
    counts = Counter(each.role for each in outcome or ())
    assert set(counts.values()) <= {pods}
    assert outcome is None or len(counts) == min(3, most)


@given(labelled(), close, st.integers(1, 9), st.booleans())
def test_without_a_place_the_draft_is_as_before(nodes, level, pods, balanced) -> None:
    book = cluster(*nodes)
    draft = Draft(book.columns, LEVELS)
    before = {name: column.copy() for name, column in draft.free.items()}
    roles = (role("w", pods, cpu=1), role("v", 1, cpu=2))
    asked = book.interned.gang(roles, (), TopologyRequest(level=level, balanced=balanced))
    if isinstance(gang.place(draft, asked), gang.PlacementShortfall):
        assert all((draft.free[name] == column).all() for name, column in before.items())
    else:
        assert all((column >= 0).all() for column in draft.free.values())


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=6), st.integers(0, 20))
def test_water_filling_gives_all_and_evenly(pairs, need) -> None:
    caps, have = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
    need = min(need, int(caps.sum()))
    given_ = topology.levelled(caps, have, need)
    assert given_.sum() == need
    assert (given_ >= 0).all()
    assert (given_ <= caps).all()
    total = have + given_
    for one in range(len(caps)):
        if given_[one]:  # no node that could take more has fewer pods than another node, by more than one
            assert all(total[other] >= total[one] - 1 for other in range(len(caps)) if given_[other] < caps[other])


def test_domains_are_read_anew_when_a_node_changes() -> None:
    book = cluster(node("a", labels={"rack": "1"}, cpu=1), node("b", labels={"rack": "2"}, cpu=1))
    facts = book.columns.attributes
    assert [topology.domains(facts, ("rack",)).name(code) for code in (1, 2)] == ["1", "2"]
    book.update_node(node("b", labels={"rack": "1"}, cpu=1))
    assert len(topology.domains(facts, ("rack",))) == 2  # one, and none


@pytest.mark.parametrize(("level", "name"), [("rack", "x/1"), ("block", "x")])
def test_a_domain_is_named_so_that_it_is_told_apart(level: str, name: str) -> None:
    racks = [node(f"n{block}", labels={"block": block, "rack": "1"}, cpu=1) for block in "xy"]
    facts = cluster(*racks).columns.attributes
    keys = topology.hierarchy(LEVELS, level)
    assert topology.domains(facts, keys[: keys.index(level) + 1]).name(1) == name


@pytest.mark.parametrize(
    "near", [TopologyRequest(level="block", balanced=True), TopologyRequest(slices=(SliceLayer(2, "rack"),))]
)
def test_pods_that_want_more_than_room_are_parted_the_same_way(near: TopologyRequest) -> None:
    """They prefer one node, which counts inside of a rack only."""
    nodes = [node(f"{rack}{at}", labels={"block": "x", "rack": rack}, cpu=2) for rack in "12" for at in (0, 1)]
    liked = NodePreference(100, (Requirement("metadata.name", Operator.IN, ("11",), field=True),))
    shape = Shape(requests=amounts({"cpu": 1}), preferences=(liked,))
    outcome = placed(nodes, (Role(name="w", count=6, minimum=6, shape=shape),), near)
    assert outcome is not None
    assert sorted(Counter(each.node[0] for each in outcome).values()) == ([3, 3] if near.balanced else [2, 4])
    assert [each.node for each in outcome if each.node[0] == "1"][:2] == ["11", "11"]


def test_domains_of_a_lower_rank_come_first_and_unranked_ones_last() -> None:
    nodes = [node(f"n{block}", labels={"block": block}, cpu=cpu) for block, cpu in (("x", 2), ("y", 3), ("z", 9))]
    alone = (role("main", 2, cpu=1),)

    def block(*ranks: tuple[str, int]) -> str:
        found = placed(nodes, alone, TopologyRequest(level="block", ranks=ranks))
        assert found is not None
        return str({each.node for each in found})

    assert block() == "{'nx'}", "the tightest"
    assert block(("z", 0), ("x", 1)) == "{'nz'}"
    assert block(("z", 5), ("x", 5), ("y", 7)) == "{'nx'}"
    assert block(("y", 3)) == "{'ny'}"
    five = placed(nodes, (role("main", 5, cpu=1),), TopologyRequest(level="block", ranks=(("x", 0), ("y", 1))))
    assert {each.node for each in five or ()} == {"nz"}, "the others are too small"
