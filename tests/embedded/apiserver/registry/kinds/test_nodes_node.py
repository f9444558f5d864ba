"""Nodes: default values, and the fields that an update may change."""

from __future__ import annotations

from typing import Any

from tests.embedded.apiserver.registry.kinds.writes import (
    Object,
    create,
    refusal,
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
