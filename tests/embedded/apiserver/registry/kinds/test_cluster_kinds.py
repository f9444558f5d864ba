"""Nodes, namespaces, priority classes, runtime classes and leases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import (
    Object,
    create,
    refusal,
    resource,
    status,
    status_refusal,
    stored,
    update,
    update_refusal,
)


def node(**fields: Any) -> Object:
    return {"metadata": {"name": "n"}, **fields}


def test_a_new_node_is_not_ready() -> None:
    assert create("nodes", node())["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    ]


def test_allocatable_defaults_from_capacity() -> None:
    new = status("nodes", stored("nodes", node()), {"status": {"capacity": {"cpu": "4"}}})
    assert new["status"]["allocatable"] == {"cpu": "4"}


def test_status_and_spec_of_a_node_are_written_apart() -> None:
    old = stored("nodes", node())
    assert update("nodes", old, {"status": {"phase": "Terminated"}})["status"] == old["status"]
    assert status("nodes", old, {"spec": {"unschedulable": True}})["spec"] == old["spec"]


def test_wrong_taints_are_told_twice_on_an_update() -> None:
    """The real server validates a node anew and as an update, and both look at the taints."""
    twice = [{"key": "b", "effect": "NoSchedule"}] * 2
    line = (
        'metadata.taints[1]: Duplicate value: {"Key":"b","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
        "taints must be unique by key and effect pair"
    )
    assert update_refusal("nodes", stored("nodes", node()), {"spec": {"taints": twice}}) == [line, line]


def test_negative_resources_are_refused() -> None:
    assert status_refusal("nodes", stored("nodes", node()), {"status": {"allocatable": {"cpu": "-3"}}}) == [
        'status.allocatable.cpu: Invalid value: "-3": must be greater than or equal to 0'
    ]


def test_a_node_keeps_its_provider_and_its_addresses() -> None:
    old = stored("nodes", node(spec={"providerID": "a://1", "podCIDR": "10.0.0.0/24"}))
    assert old["spec"]["podCIDRs"] == ["10.0.0.0/24"]
    assert update_refusal("nodes", old, {"spec": {"providerID": "a://2"}}) == [
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'
    ]
    assert refusal("nodes", node(spec={"podCIDR": "x"})) == [
        'spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'
    ]


# --- namespaces ------------------------------------------------------------------------------------------------------


def test_a_namespace_is_active_labelled_and_held() -> None:
    obj = create("namespaces", {"metadata": {"name": "team"}})
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert obj["spec"]["finalizers"] == ["kubernetes"]
    assert obj["status"] == {"phase": "Active"}


def test_only_finalize_changes_the_finalizers_of_a_namespace() -> None:
    old = stored("namespaces", {"metadata": {"name": "team"}})
    assert update("namespaces", old, {"spec": {"finalizers": []}})["spec"] == {"finalizers": ["kubernetes"]}


def test_the_phase_of_a_namespace_follows_its_deletion() -> None:
    old = stored("namespaces", {"metadata": {"name": "team"}})
    assert status_refusal("namespaces", old, {"status": {"phase": "Terminating"}}) == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    ]


# --- priorities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "lines"),
    [
        ("high", 1_000_000_000, []),
        (
            "high",
            1_000_000_001,
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        ("system-node-critical", 2_000_001_000, []),
        (
            "system-mine",
            5,
            [
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use "
                "only. error: system-mine is not a known system priority class"
            ],
        ),
    ],
)
def test_users_priorities_end_where_the_systems_begin(name: str, value: int, lines: list[str]) -> None:
    assert refusal("priorityclasses", {"metadata": {"name": name}, "value": value}) == lines


def test_a_priority_is_what_it_was() -> None:
    old = stored("priorityclasses", {"metadata": {"name": "p"}, "value": 5})
    assert (old["preemptionPolicy"], old["metadata"]["generation"]) == ("PreemptLowerPriority", 1)
    assert update_refusal("priorityclasses", old, {"value": 7, "preemptionPolicy": "Never"}) == [
        "value: Forbidden: may not be changed in an update.",
        'preemptionPolicy: Invalid value: "Never": field is immutable',
    ]


def test_a_runtime_class_keeps_its_handler() -> None:
    old = stored("runtimeclasses", {"metadata": {"name": "r"}, "handler": "runc"})
    assert update_refusal("runtimeclasses", old, {"handler": "kata"}) == [
        'handler: Invalid value: "kata": field is immutable'
    ]


# --- leases ----------------------------------------------------------------------------------------------------------


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
