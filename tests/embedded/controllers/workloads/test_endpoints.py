"""What a service stands for: pure, and kept true on the real embedded API server."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.client.kind import ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES
from phalanx.embedded.controllers.workloads.endpoints import endpoints, slices
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import Cluster, scenario

SELECTED = {"app": "a"}


def service(**spec: Any) -> Object:
    ports = [{"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"}]
    meta = {"name": "s", "namespace": "n", "uid": "u", "labels": {"team": "x"}}
    return {"metadata": meta, "spec": {"selector": SELECTED, "clusterIP": "10.0.0.1", "ports": ports, **spec}}


def pod(number: int, *, ready: bool = True, phase: str = "Running", deleting: bool = False, **spec: Any) -> Object:
    containers = [{"name": "c", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]
    conditions = [{"type": "Ready", "status": str(ready)}]
    meta: Object = {"name": f"p{number:04}", "namespace": "n", "uid": f"u{number}", "labels": {**SELECTED, "x": "y"}}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": meta,
        "spec": {"containers": containers, "nodeName": "node", **spec},
        "status": {"phase": phase, "podIP": f"10.1.{number // 250}.{number % 250 + 1}", "conditions": conditions},
    }


def test_addresses_by_readiness() -> None:
    pods = [pod(1), pod(2, ready=False), pod(3, deleting=True), pod(4, phase="Succeeded")]
    found = endpoints(service(), pods)
    target = {"kind": "Pod", "namespace": "n", "name": "p0001", "uid": "u1"}
    assert found["subsets"] == [
        {
            "addresses": [{"ip": "10.1.0.2", "targetRef": target, "nodeName": "node"}],
            "notReadyAddresses": [
                {"ip": "10.1.0.3", "targetRef": {**target, "name": "p0002", "uid": "u2"}, "nodeName": "node"}
            ],
            "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}],
        }
    ]
    assert found["metadata"]["labels"] == {"team": "x", "endpoints.kubernetes.io/managed-by": "endpoint-controller"}


def test_slices_say_who_is_going() -> None:
    [found] = slices(service(), [pod(1), pod(2, ready=False), pod(3, deleting=True)])
    said = [tuple(one["conditions"].values()) for one in found["endpoints"]]
    assert said == [(True, True, False), (False, False, False), (False, True, True)]
    assert found["ports"] == [{"name": "web", "port": 8080, "protocol": "TCP"}]
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "s"


def test_what_is_published_early_is_ready() -> None:
    early = service(publishNotReadyAddresses=True)
    assert [one["conditions"]["ready"] for one in slices(early, [pod(1, ready=False)])[0]["endpoints"]] == [True]
    assert "notReadyAddresses" not in endpoints(early, [pod(1, ready=False)])["subsets"][0]


def test_a_headless_service_has_host_names_and_its_label() -> None:
    headless = service(clusterIP="None", ports=[])
    named = pod(1, hostname="train-0", subdomain="s")
    assert [one["hostname"] for one in slices(headless, [named])[0]["endpoints"]] == ["train-0"]
    assert "ports" not in slices(headless, [named])[0]
    assert endpoints(headless, [named])["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_many_pods_are_many_slices_and_endpoints_are_cut() -> None:
    pods = [pod(number) for number in range(1001)]
    assert [len(one["endpoints"]) for one in slices(service(), pods)] == [100] * 10 + [1]
    found = endpoints(service(), pods)
    assert len(found["subsets"][0]["addresses"]) == 1000
    assert found["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}


def test_a_service_without_pods_has_an_empty_slice() -> None:
    [found] = slices(service(), [])
    assert found["endpoints"] == []
    assert "subsets" not in endpoints(service(), [])


@pytest.mark.slow
def test_they_are_kept_true_and_go_with_their_service(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        template = {"containers": [{"name": "c", "image": "i"}]}
        await here.make(SERVICES, "s", spec={"selector": SELECTED, "ports": [{"port": 80}]})
        [empty] = await here.until(lambda: here.list(ENDPOINT_SLICES), lambda found: len(found) == 1)
        assert empty.get("endpoints") in (None, [])
        for number in range(3):
            await here.make(PODS, f"p{number}", metadata={"labels": SELECTED}, spec=template)
            status = {"phase": "Running", "podIP": f"10.0.0.{number + 1}", "podIPs": [{"ip": f"10.0.0.{number + 1}"}]}
            await here.connection.patch(PODS, f"p{number}", {"status": status}, here.namespace, subresource="status")
        await here.until(lambda: _addresses(here), lambda found: found == ["10.0.0.1", "10.0.0.2", "10.0.0.3"])
        subset = (await here.get(ENDPOINTS, "s") or {})["subsets"][0]
        assert [one["ip"] for one in subset["notReadyAddresses"]] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
        await here.connection.delete(PODS, "p1", here.namespace)
        await here.until(lambda: _addresses(here), lambda found: found == ["10.0.0.1", "10.0.0.3"])
        await here.connection.delete(ENDPOINTS, "s", here.namespace)
        await here.until(lambda: here.get(ENDPOINTS, "s"), lambda found: found is not None)
        await here.connection.delete(SERVICES, "s", here.namespace)
        await here.until(lambda: here.list(ENDPOINT_SLICES), lambda found: not found)
        await here.until(lambda: here.list(ENDPOINTS), lambda found: not found)

    scenario(api_server, play)


async def _addresses(here: Cluster) -> list[str]:
    found = await here.list(ENDPOINT_SLICES)
    return [at for one in found for endpoint in one.get("endpoints") or () for at in endpoint["addresses"]]
