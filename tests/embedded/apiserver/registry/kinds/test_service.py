"""Services: addresses, default values, and invalid Services and Endpoints."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from tests.embedded.apiserver.registry.kinds.writes import (
    Cluster,
    Object,
    create,
    named,
    refusal,
    stored,
    update,
    update_refusal,
)


def service(**spec: Any) -> Object:
    return named(spec={"ports": [{"port": 80}]} | spec)


def test_a_service_gets_addresses_and_defaults() -> None:
    spec = create("services", service())["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["clusterIP"].startswith("10.96.")
    assert (spec["type"], spec["sessionAffinity"]) == ("ClusterIP", "None")
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"], spec["internalTrafficPolicy"]) == (
        ["IPv4"],
        "SingleStack",
        "Cluster",
    )


def test_two_services_never_share_an_address() -> None:
    first = create("services", service() | {"metadata": {"name": "b"}})
    cluster = Cluster(objects={("", "services"): [first]})
    assert create("services", service(), cluster=cluster)["spec"]["clusterIP"] != first["spec"]["clusterIP"]


def test_nobody_has_the_address_at_which_pods_reach_the_api() -> None:
    with pytest.raises(StatusError, match=r"failed to allocate IP 10\.96\.0\.1: provided IP is already allocated"):
        create("services", service(clusterIP="10.96.0.1"))


def test_a_headless_service_keeps_none() -> None:
    spec = create("services", service(clusterIP="None", selector={"a": "b"}))["spec"]
    assert (spec["clusterIP"], spec["clusterIPs"]) == ("None", ["None"])


def test_an_address_stays_when_a_client_leaves_it_out_and_may_not_change() -> None:
    old = stored("services", service())
    kept = update("services", old, {"spec": {"clusterIP": None, "clusterIPs": None}})
    assert kept["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    assert update_refusal("services", old, {"spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}}) == [
        'spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]: may not change once set'
    ]


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"ports": []}, ["spec.ports: Required value"]),
        (
            {"ports": [{"port": 80}, {"port": 81}]},
            ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
        ),
        ({"ports": [{"port": 0}]}, ["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"]),
        ({"type": "ExternalName", "ports": []}, ["spec.externalName: Required value"]),
        (
            {"type": "Odd"},
            [
                'spec.type: Unsupported value: "Odd": supported values: '
                '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
            ],
        ),
    ],
)
def test_wrong_services_are_refused(spec: Object, lines: list[str]) -> None:
    found = refusal("services", service(**spec))
    assert [line for line in found if "targetPort" not in line] == lines


def test_endpoints_have_addresses_and_ports() -> None:
    assert refusal("endpoints", named(subsets=[{"ports": [{"port": 80}]}])) == [
        "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"
    ]
