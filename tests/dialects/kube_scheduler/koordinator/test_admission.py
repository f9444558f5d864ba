"""Admission policies in the API server refuse the same requests as Koordinator's webhooks, and its PriorityClasses
exist."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, Connection
from phalanx.client.kind import PODS, Kind
from phalanx.dialects.frame.dialect import Object
from phalanx.dialects.kube_scheduler.koordinator import kinds
from phalanx.dialects.kube_scheduler.koordinator.dialect import KOORDINATOR
from phalanx.kube.install.definitions import install_dialect
from tests.embedded.apiserver.process import ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess.started(tmp_path_factory.mktemp("koordinator")) as found:
        asyncio.run(_install(found))
        yield found


async def _install(server: ServerProcess) -> None:
    async with await Connection.open(server.kubeconfig) as api:
        await install_dialect(api, KOORDINATOR)


def send(server: ServerProcess, kind: Kind, obj: Object, *, method: str = "create") -> str:
    """`taken`, or the code of the refusal and what it says."""

    async def sent() -> str:
        async with await Connection.open(server.kubeconfig) as api:
            body = {"apiVersion": kind.api_version, "kind": kind.name, **obj}
            try:
                if method == "create":
                    await api.create(kind, body, "default")
                else:
                    await api.patch(kind, obj["metadata"]["name"], obj, "default")
            except ApiRefusal as error:
                return f"{error.code} {error}"
        return "taken"

    return asyncio.run(sent())


def quota(name: str, *, labels: Object | None = None, **spec: Any) -> Object:
    said = {f"quota.scheduling.koordinator.sh/{key}": text for key, text in (labels or {}).items()}
    return {"metadata": {"name": name, "labels": said}, "spec": spec}


def pod(name: str, qos: str, band: str = "", cpu: str = "1", scheduler: str = "koord-scheduler", **asks: str) -> Object:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu, **asks}, "limits": asks}}
    priority = {"priorityClassName": f"koord-{band}"} if band else {}
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    spec = {"containers": [container], "schedulerName": scheduler, **priority}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest.mark.parametrize(
    ("name", "spec", "said"),
    [
        ("good", {"min": {"cpu": 1}, "max": {"cpu": "2"}}, "taken"),
        ("empty", {}, "taken"),
        ("above", {"min": {"cpu": 3}, "max": {"cpu": "2500m"}}, "spec.min must not exceed spec.max"),
        ("unknown", {"min": {"memory": 1}, "max": {"cpu": 2}}, "every resource in spec.min must also be in spec.max"),
    ],
)
def test_quotas_that_contradict_themselves_are_refused(
    server: ServerProcess, name: str, spec: dict[str, Any], said: str
) -> None:
    assert said in send(server, kinds.ELASTIC_QUOTAS, quota(name, **spec))


def test_a_tree_does_not_change(server: ServerProcess) -> None:
    found = quota("tree", labels={"tree-id": "a"}, max={"cpu": 1})
    assert send(server, kinds.ELASTIC_QUOTAS, found) == "taken"
    other = quota("tree", labels={"tree-id": "b"}, max={"cpu": 1})
    assert "tree of a quota must not change" in send(server, kinds.ELASTIC_QUOTAS, other, method="patch")


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (pod("be", "BE", "batch"), "taken"),
        (pod("be-prod", "BE", "prod"), "qosClass BE requires"),
        (pod("be-none", "BE"), "qosClass BE requires"),
        (pod("lsr", "LSR", "prod"), "taken"),
        (pod("lsr-batch", "LSR", "batch"), "qosClass LSR requires"),
        (pod("lsr-part", "LSR", "prod", "1500m"), "whole number of cpus"),
        (pod("lse", "LSE", "mid", "2"), "taken"),
        (pod("odd", "FAST", "prod"), "qosClass must be one of"),
        (pod("none", ""), "taken"),
        (pod("batch", "BE", "batch", **{"kubernetes.io/batch-cpu": "1000"}), "taken"),
        (pod("batch-ls", "LS", "batch", **{"kubernetes.io/batch-cpu": "1000"}), "batch resources require"),
        (pod("batch-no", "", "batch", **{"kubernetes.io/batch-cpu": "1000"}), "batch resources require"),
        (pod("others", "FAST", scheduler="phalanx"), "taken"),
    ],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else "",
)
def test_classes_go_with_priorities_and_whole_cpus(server: ServerProcess, manifest: Object, said: str) -> None:
    assert said in send(server, PODS, manifest)


def test_a_class_does_not_change(server: ServerProcess) -> None:
    assert send(server, PODS, pod("kept", "LS")) == "taken"
    changed = {"metadata": {"name": "kept", "labels": {"koordinator.sh/qosClass": "LSE"}}}
    assert "qosClass must not change" in send(server, PODS, changed, method="patch")
