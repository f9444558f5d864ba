"""Addresses and node ports of services."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.admission import service_addresses
from phalanx.embedded.apiserver.admission.service_addresses import allocate

Object = dict[str, Any]


def service(name: str = "s", *ports: Object, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"ports": list(ports), **spec}}


def placed(one: Object, *others: Object, before: Object | None = None) -> Object:
    allocate(one, before or {}, others)
    return one["spec"]


def refusal(one: Object, *others: Object) -> str:
    with pytest.raises(StatusError) as raised:
        allocate(one, {}, others)
    assert raised.value.code == 422
    return raised.value.message


def test_the_first_free_address_is_taken() -> None:
    assert placed(service())["clusterIP"] == "10.96.0.10"
    taken = service("other", clusterIP="10.96.0.10")
    found = placed(service(), taken)
    assert (found["clusterIP"], found["clusterIPs"]) == ("10.96.0.11", ["10.96.0.11"])


def test_a_service_keeps_its_address_and_is_not_its_own_rival() -> None:
    kept = service(clusterIP="10.96.0.10")
    assert placed(service(clusterIP="10.96.0.10"), kept, before=kept["spec"])["clusterIP"] == "10.96.0.10"
    elsewhere = service(clusterIP="10.96.0.10")
    elsewhere["metadata"]["namespace"] = "another"
    assert placed(service(), elsewhere)["clusterIP"] == "10.96.0.11"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.96.0.20", "failed to allocate IP 10.96.0.20: provided IP is already allocated"),
        ("10.96.0.1", "failed to allocate IP 10.96.0.1: provided IP is already allocated"),  # of the API itself
        ("10.97.0.1", "the provided network does not match the current range"),
    ],
)
def test_an_address_that_cannot_be_had(address: str, why: str) -> None:
    taken = service("other", clusterIP="10.96.0.20")
    assert why in refusal(service(clusterIP=address, clusterIPs=[address]), taken)


def test_services_without_an_address() -> None:
    assert placed(service(clusterIP="None", clusterIPs=["None"]))["clusterIP"] == "None"
    assert "clusterIP" not in placed(service(type="ExternalName", externalName="example.com"))


def test_node_ports_are_those_that_nobody_has_or_states() -> None:
    other = service("other", {"port": 80, "nodePort": 30000}, type="NodePort")
    found = placed(service("s", {"port": 1}, {"port": 2, "nodePort": 30001}, {"port": 3}, type="NodePort"), other)
    assert [port["nodePort"] for port in found["ports"]] == [30002, 30001, 30003]


def test_a_load_balancer_has_node_ports_unless_it_declines_them() -> None:
    assert placed(service("s", {"port": 80}, type="LoadBalancer"))["ports"][0]["nodePort"] == 30000
    spec = placed(service("s", {"port": 80}, type="LoadBalancer", allocateLoadBalancerNodePorts=False))
    assert "nodePort" not in spec["ports"][0]
    assert "nodePort" not in placed(service("s", {"port": 80}, type="ClusterIP"))["ports"][0]


def test_the_same_port_by_two_protocols_has_one_node_port() -> None:
    """As the DNS service of a cluster: 53 by TCP and by UDP."""
    both = ({"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"})
    found = placed(service("dns", *(dict(port) for port in both), type="NodePort"))
    assert [port["nodePort"] for port in found["ports"]] == [30000, 30000]
    stated = placed(service("dns", *({**port, "nodePort": 30053} for port in both), type="NodePort"))
    assert [port["nodePort"] for port in stated["ports"]] == [30053, 30053]
    late = placed(service("dns", both[0], {**both[1], "nodePort": 30053}, type="NodePort"))
    assert [port["nodePort"] for port in late["ports"]] == [30053, 30053]


def test_node_ports_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    other = service("other", {"port": 80, "nodePort": 30000}, type="NodePort")
    taken = refusal(service("s", {"port": 1, "nodePort": 30000}, type="NodePort"), other)
    assert "spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated" in taken
    outside = refusal(service("s", {"port": 1, "nodePort": 80}, type="NodePort"))
    assert "provided port is not in the valid range. The range of valid ports is 30000-32767" in outside
    monkeypatch.setattr(service_addresses, "NODE_PORTS", range(30000, 30001))
    assert "range is full" in refusal(service("s", {"port": 1}, type="NodePort"), other)
