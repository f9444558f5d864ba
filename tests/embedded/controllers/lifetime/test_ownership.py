"""Decisions about dependents: keep, delete, or orphan."""

from __future__ import annotations

import pytest

from phalanx.client.kind import CONFIG_MAPS
from phalanx.embedded.controllers.lifetime.ownership import (
    FOREGROUND,
    ORPHAN,
    Delete,
    Keep,
    OwnedObject,
    OwnerGraph,
    OwnerState,
    Reference,
    Unlink,
    Verdict,
    judge,
)

SOLID, ABSENT, WAITING = OwnerState.SOLID, OwnerState.ABSENT, OwnerState.WAITING


def node(
    uid: str, *owners: str, deleting: bool = False, finalizers: tuple[str, ...] = (), blocks: bool = False
) -> OwnedObject:
    references = tuple(
        Reference(uid=one, api_version="v1", kind="ConfigMap", name=one, blocks=blocks) for one in owners
    )
    return OwnedObject(
        uid=uid,
        kind=CONFIG_MAPS,
        namespace="ns",
        name=uid,
        owners=references,
        deleting=deleting,
        finalizers=finalizers,
    )


@pytest.mark.parametrize(
    ("states", "verdict"),
    [
        ({}, Keep()),
        ({"a": SOLID}, Keep()),
        ({"a": ABSENT}, Delete(policy="Background")),
        ({"a": SOLID, "b": ABSENT}, Unlink(owners=("b",))),
        ({"a": SOLID, "b": WAITING}, Unlink(owners=("b",))),
        ({"a": ABSENT, "b": WAITING}, Delete(policy="Background")),
    ],
)
def test_an_object_lives_as_long_as_one_owner(states: dict[str, OwnerState], verdict: Verdict) -> None:
    assert judge(node("x", *states), lambda owner: states[owner.uid], has_dependents=False) == verdict


def test_what_an_owner_waits_for_makes_its_own_dependents_go_first() -> None:
    assert judge(node("x", "a"), lambda _: WAITING, has_dependents=True) == Delete(policy="Foreground")


@pytest.mark.parametrize(("finalizer", "policy"), [(ORPHAN, "Orphan"), (FOREGROUND, "Foreground")])
def test_a_policy_that_the_object_asks_for_is_kept(finalizer: str, policy: str) -> None:
    assert judge(node("x", "a", finalizers=(finalizer,)), lambda _: ABSENT, False) == Delete(policy=policy)


def test_what_is_being_deleted_is_left_alone() -> None:
    assert judge(node("x", "a", deleting=True), lambda _: ABSENT, False) == Keep()


def test_the_graph_knows_dependents_of_owners_it_never_saw() -> None:
    graph = OwnerGraph()
    graph.put(node("child", "never"))
    assert [one.uid for one in graph.dependents("never")] == ["child"]
    graph.put(node("child", "other"))
    assert graph.dependents("never") == []
    graph.drop("child")
    assert graph.dependents("other") == []


def test_only_dependents_that_block_hold_a_foreground_deletion() -> None:
    graph = OwnerGraph()
    graph.put(node("free", "owner"))
    graph.put(node("holds", "owner", blocks=True))
    assert [one.uid for one in graph.blockers("owner")] == ["holds"]
