"""Nodes, namespaces, priority classes, runtime classes and leases."""

from __future__ import annotations

import pytest

from tests.embedded.apiserver.registry.kinds.writes import (
    Object,
    create,
    refusal,
    resource,
    status_refusal,
    stored,
    update,
)


def test_a_namespace_is_active_labelled_and_held() -> None:
    obj = create("namespaces", {"metadata": {"name": "team"}})
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert obj["spec"]["finalizers"] == ["kubernetes"]
    assert obj["status"] == {"phase": "Active"}


@pytest.mark.slow
def test_only_finalize_changes_the_finalizers_of_a_namespace() -> None:
    old = stored("namespaces", {"metadata": {"name": "team"}})
    assert update("namespaces", old, {"spec": {"finalizers": []}})["spec"] == {"finalizers": ["kubernetes"]}


def test_the_phase_of_a_namespace_follows_its_deletion() -> None:
    old = stored("namespaces", {"metadata": {"name": "team"}})
    assert status_refusal("namespaces", old, {"status": {"phase": "Terminating"}}) == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    ]


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 0}, []),
        ({"leaseDurationSeconds": 0}, ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]),
        (
            {"leaseTransitions": -1},
            ["spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            {"preferredHolder": "b"},
            ['spec.preferredHolder: Invalid value: "b": may only be specified if `strategy` is defined'],
        ),
    ],
)
def test_leases(spec: Object, lines: list[str]) -> None:
    assert refusal("leases", {"metadata": {"name": "l"}, "spec": spec}) == lines


def test_a_lease_is_created_by_put_and_replaced_only_by_its_reader() -> None:
    strategy = resource("leases").strategy
    assert strategy.allow_create_on_update
    assert not strategy.allow_unconditional_update
