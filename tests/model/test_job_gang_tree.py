"""A gang's description as a tree: what is refused, in words, and with work that is bounded."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from phalanx.model.job import MAX_DEPTH, Group, Role, gang_error, gang_tree
from phalanx.model.node import SliceLayer, TopologyRequest
from phalanx.state.classes import InternTable
from tests.core.builders import role


def in_group(name: str, group: str, count: int = 1) -> Role:
    return Role(name=name, count=count, minimum=count, shape=role("w", cpu=1).shape, group=group)


@pytest.mark.parametrize(
    ("roles", "groups", "complaint"),
    [
        ((in_group("w", "x"),), (), "role 'w' is in the group 'x', which the job does not declare"),
        ((), (Group(name="x", parent="y"),), "group 'x' is in the group 'y', which the job does not declare"),
        ((), (Group(name="x"), Group(name="x")), "two groups are named 'x'"),
        ((), (Group(name=""),), "a group has no name"),
        ((), (Group(name="x", parent="x"),), "the group 'x' contains itself (x in x)"),
        ((in_group("w", "x"),), (Group(name="x", minimum=-1),), "the group 'x' has 1 members and a minimum of -1"),
        ((role("w", 2, 3, cpu=1),), (), "role 'w' has 2 pods and a minimum of 3"),
        ((role("w", 150_001, cpu=1),), (), "the job has 150001 pods; at most 150000 are allowed"),
    ],
)
def test_what_is_no_gang_is_told_in_words(roles, groups, complaint) -> None:
    assert gang_error(roles, groups, None) == complaint


@pytest.mark.parametrize(
    ("layers", "complaint"),
    [
        (((2, ""),), "the job: slices of 2 pods at level '' need both, pods and level"),
        (((0, "host"),), "the job: slices of 0 pods at level 'host' need both, pods and level"),
        (((6, "rack"), (4, "host")), "the job: slices of 6 pods (rack) do not consist of whole slices of 4 (host)"),
        (((2, "rack"), (4, "host")), "the job: slices of 2 pods (rack) do not consist of whole slices of 4 (host)"),
        (((2, "host"),) * 17, "the job: 17 layers of slices; at most 16 are allowed"),
        (((2, "host"),), ""),
        (((12, "block"), (4, "rack"), (4, "host")), ""),
    ],
)
def test_slices_have_pods_and_a_level_and_consist_of_those_inside(
    layers: tuple[tuple[int, str], ...], complaint: str
) -> None:
    near = TopologyRequest(slices=tuple(SliceLayer(*layer) for layer in layers))
    assert gang_error((role("w", 4, cpu=1),), (), near) == complaint


def test_groups_deeper_than_any_sense_are_refused() -> None:
    chain = tuple(Group(name=f"g{at}", parent=f"g{at - 1}" if at else "") for at in range(MAX_DEPTH + 1))
    assert "is nested more than 16 groups deep" in gang_error((), chain, None)
    assert not gang_error((), chain[:-1], None)


class Unread(tuple[Any, ...]):
    """Nobody looks into it."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise AssertionError("it is looked at one by one")

    def __getitem__(self, at: Any) -> NoReturn:
        raise AssertionError("it is looked at")


def test_a_million_roles_or_groups_are_refused_before_they_are_looked_at() -> None:
    roles, groups = Unread([role("w", cpu=1)] * 1_000_000), Unread([Group(name="g", parent="g")] * 1_000_000)
    assert gang_error(roles, (), None) == "the job has 1000000 roles; at most 1000 are allowed"
    assert gang_error((), groups, None) == "the job has 1000000 groups; at most 1000 are allowed"


def test_a_wrong_gang_has_no_tree_and_a_right_one_knows_what_it_cannot_do_without() -> None:
    tables = InternTable()
    assert tables.gang((in_group("w", "x"),)).error
    groups = (Group(name="all", minimum=1), Group(name="a", parent="all"), Group(name="b", parent="all"))
    roles = (in_group("driver", ""), in_group("a", "a", 2), in_group("b", "b", 2))
    gang = tables.gang(roles, groups)
    assert list(gang.required_roles) == [0]
    assert [gang.enough(pods) for pods in ([1, 2, 0], [1, 0, 2], [1, 1, 1], [0, 2, 2])] == [True, True, False, False]
    assert gang_tree(roles, groups, None).placed([1, 2, 2])


def test_members_that_are_not_needed_go_whole_the_last_first() -> None:
    """Three replicas of a head and two workers each, of which one is enough."""
    groups = (Group(name="all", minimum=1), *(Group(name=name, parent="all") for name in "abc"))
    roles = [role for name in "abc" for role in (in_group(f"head-{name}", name), in_group(f"work-{name}", name, 2))]
    serve = gang_tree(roles, groups, None)
    assert list(serve.spare([1, 2, 1, 2, 1, 2])) == [2, 3, 4, 5]
    assert list(serve.spare([1, 1, 1, 2, 1, 2])) == [0, 1, 4, 5]  # one that is not whole is of no use
    assert list(serve.spare([1, 1, 0, 0, 1, 1])) == []  # less than it needs is left
    assert list(serve.incomplete_members([1, 2, 1, 2, 0, 2])) == [(4, 5)]
    assert list(serve.incomplete_members([1, 2, 1, 2, 1, 2])) == []


def test_what_is_needed_is_not_spare() -> None:
    roles = [in_group("a", "x"), in_group("b", "x")]
    pair = gang_tree(roles, (Group(name="x"),), None)
    assert list(pair.spare([1, 1])) == list(pair.spare([1, 0])) == list(pair.incomplete_members([1, 0])) == []
