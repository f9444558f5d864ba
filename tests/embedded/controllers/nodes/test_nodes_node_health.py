"""The taints that a node's conditions ask for, and the conditions of a lost node."""

from __future__ import annotations

from typing import Any, cast

import pytest

from phalanx.client.connection import Object
from phalanx.client.informer import Informer
from phalanx.client.kind import LEASES, NODES
from phalanx.embedded.controllers.nodes import LEASE_NAMESPACE, NodeHealth, taints_of, unknown_conditions
from phalanx.embedded.controllers.runtime.calls import Calls


def node(taints: list[tuple[str, str]] = [], unschedulable: bool = False, **conditions: str) -> Object:  # noqa: B006 -- never changed
    spec: dict[str, Any] = {"taints": [{"key": key, "effect": effect} for key, effect in taints]}
    found = [{"type": kind, "status": status, "lastHeartbeatTime": "t"} for kind, status in conditions.items()]
    meta = {"name": "n", "creationTimestamp": "born"}
    return {"metadata": meta, "spec": spec | {"unschedulable": unschedulable}, "status": {"conditions": found}}


def shown(the_node: Object) -> set[str]:
    return {f"{one['key'].removeprefix('node.kubernetes.io/')}:{one['effect']}" for one in taints_of(the_node)}


NEW = [("node.kubernetes.io/not-ready", "NoSchedule")]


@pytest.mark.parametrize(
    ("the_node", "taints"),
    [
        (node(NEW), {"not-ready:NoSchedule"}),
        (node(NEW, Ready="True"), set()),
        (node(NEW, Ready="False"), {"not-ready:NoSchedule", "not-ready:NoExecute"}),
        (node(NEW, Ready="Unknown"), {"unreachable:NoSchedule", "unreachable:NoExecute"}),
        (node(Ready="True", MemoryPressure="True"), {"memory-pressure:NoSchedule"}),
        (node(Ready="True", unschedulable=True), {"unschedulable:NoSchedule"}),
        (node([("gpu", "NoExecute")], Ready="True"), {"gpu:NoExecute"}),
    ],
)
def test_taints_follow_the_conditions_and_leave_others_alone(the_node: Object, taints: set[str]) -> None:
    assert shown(the_node) == taints


def test_a_taint_keeps_the_time_at_which_it_came() -> None:
    the_node = node(Ready="Unknown")
    dated = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "then"}
    the_node["spec"]["taints"] = [dated]
    assert dated in taints_of(the_node)


def test_a_lost_node_is_unknown_in_every_respect() -> None:
    entries = {one["type"]: one for one in unknown_conditions(node(Ready="True", DiskPressure="Unknown"), "now")}
    assert set(entries) == {"Ready", "MemoryPressure", "PIDPressure"}
    assert entries["Ready"]["reason"] == "NodeStatusUnknown"
    assert (entries["Ready"]["lastHeartbeatTime"], entries["Ready"]["lastTransitionTime"]) == ("t", "now")
    assert entries["PIDPressure"]["reason"] == "NodeStatusNeverUpdated"


def test_a_node_made_anew_is_not_lost_by_the_lease_that_another_left_behind() -> None:
    now_s, nobody = [1000.0], cast(Any, None)
    caches = {kind: Informer(nobody, kind) for kind in (NODES, LEASES)}
    health = NodeHealth(Calls(nobody, caches.__getitem__), nobody, clock=lambda: now_s[0])
    health.start()
    meta = {"name": "n", "namespace": LEASE_NAMESPACE, "uid": "l", "resourceVersion": "1"}
    first, second = ({**node(Ready="True"), "kind": "Node"} for _ in range(2))
    first["metadata"] |= {"uid": "1", "resourceVersion": "2"}
    second["metadata"] |= {"uid": "2", "resourceVersion": "4"}
    caches[LEASES].observe({"kind": "Lease", "metadata": meta, "spec": {"renewTime": "then"}})
    caches[NODES].observe(first)
    now_s[0] += 50.0
    assert not health.is_lost("n")
    now_s[0] += 1.0
    assert health.is_lost("n")
    caches[NODES].forget(first)
    caches[NODES].observe(second)
    assert not health.is_lost("n")
