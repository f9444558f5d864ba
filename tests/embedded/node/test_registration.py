"""The Node object, its conditions and its Lease."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal
from phalanx.embedded.node.machine.registration import (
    Registration,
    register,
    renew_lease,
    tell_pressure,
)


def registration(**more: Any) -> Registration:
    words: dict[str, Any] = {"name": "n", "labels": {"a": "1"}, "resources": {"cpu": "4"}, "info": {}}
    return Registration(**(words | more))


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status["conditions"]}


def test_a_pressure_is_a_condition_with_the_kubelets_words() -> None:
    status = registration(pressures={"DiskPressure"}).status({}, 0.0)
    assert conditions(status) == {
        "MemoryPressure": "False",
        "DiskPressure": "True",
        "PIDPressure": "False",
        "Ready": "True",
    }
    told = next(one for one in status["conditions"] if one["type"] == "DiskPressure")
    assert (told["reason"], told["message"]) == ("KubeletHasDiskPressure", "kubelet has disk pressure")


def test_a_condition_keeps_the_time_since_which_it_holds() -> None:
    old = registration().status({}, 0.0)
    new = registration(pressures={"DiskPressure"}).status(old, 60.0)
    since = {one["type"]: one["lastTransitionTime"] for one in new["conditions"]}
    assert since["Ready"] == "1970-01-01T00:00:00Z"
    assert since["DiskPressure"] == "1970-01-01T00:01:00Z"


def test_a_node_without_an_agent_has_no_address() -> None:
    assert {"addresses", "daemonEndpoints"}.isdisjoint(registration().status({}, 0.0))
    told = registration(address="10.0.0.1", port=10250).status({}, 0.0)
    assert told["addresses"][0] == {"type": "InternalIP", "address": "10.0.0.1"}
    assert told["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}


class Server:
    """An API server with one object, or none. It notes what is written."""

    def __init__(self, obj: Any = None) -> None:
        self.obj, self.writes = obj, list[tuple[str, Any]]()

    async def get(self, kind: Any, name: str) -> Any:
        if self.obj is None:
            raise ApiRefusal(404, "NotFound", "")
        return self.obj

    async def create(self, kind: Any, body: Any, namespace: str = "") -> Any:
        self.writes.append(("create", body))
        self.obj = body
        return body

    async def patch(self, kind: Any, name: str, body: Any, namespace: str = "", **how: str) -> Any:
        if self.obj is None:
            raise ApiRefusal(404, "NotFound", "")
        self.writes.append((how.get("subresource", "patch"), body))
        return {**self.obj, **body}


async def test_a_new_node_is_created_and_has_its_status() -> None:
    server: Any = Server()
    await register(server, registration())
    assert [what for what, _ in server.writes] == ["create", "status"]


async def test_labels_of_others_stay_and_ours_are_written_where_they_differ() -> None:
    server: Any = Server({"metadata": {"labels": {"a": "1", "theirs": "x"}}})
    await register(server, registration())
    assert [what for what, _ in server.writes] == ["status"]
    server = Server({"metadata": {"labels": {"a": "0", "theirs": "x"}}})
    await register(server, registration(annotations={"b": "2"}))
    assert server.writes[0] == ("patch", {"metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}}})


async def test_only_conditions_that_changed_are_told() -> None:
    old = {"metadata": {"name": "n"}, "status": registration().status({}, 0.0)}
    server: Any = Server(old)
    assert await tell_pressure(server, registration(), old) is old
    await tell_pressure(server, registration(pressures={"MemoryPressure"}), old)
    [(where, body)] = server.writes
    assert where == "status"
    assert [one["type"] for one in body["status"]["conditions"]] == ["MemoryPressure"]


async def test_a_lease_is_renewed_or_created_with_its_node_as_owner() -> None:
    server: Any = Server({"metadata": {}})
    await renew_lease(server, "n", "uid", 40)
    assert [what for what, _ in server.writes] == ["patch"]
    server = Server()
    await renew_lease(server, "n", "uid", 40)
    [(what, body)] = server.writes
    assert (what, body["metadata"]["namespace"]) == ("create", "kube-node-lease")
    assert body["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "uid"}]


async def test_other_refusals_are_raised() -> None:
    class Refusing(Server):
        async def patch(self, *_: Any, **__: Any) -> Any:
            raise ApiRefusal(403, "Forbidden", "no")

    server: Any = Refusing()
    with pytest.raises(ApiRefusal):
        await renew_lease(server, "n", "uid", 40)
