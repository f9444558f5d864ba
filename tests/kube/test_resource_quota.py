"""Point 1 of the protocol: ResourceQuota headroom is checked before resume. A gang that its namespace's quotas would
refuse halfway waits, with numbers, and takes nothing; it is looked at again when quota or usage changes."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import PODS, RESOURCE_QUOTAS
from phalanx.kube.capacity.resource_quota import ResourceQuotas, pod_quota_usage
from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle


def quota(status: Object | None = None, spec: Object | None = None, **hard: str) -> Object:
    """`hard` with `_` for `.`: limits_memory="1Gi"."""
    limits = {name.replace("_", "."): text for name, text in hard.items()}
    meta = {"name": "team", "namespace": "default"}
    return {"metadata": meta, "spec": {"hard": limits, **(spec or {})}, "status": status or {}}


def test_pods_of_others_use_it_up_too() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        stage.api.put(RESOURCE_QUOTAS, quota(pods="4"))
        stage.put(pod("theirs", scheduler="default-scheduler", node="n1"), job("j", 4))
        async with stage.scheduler():
            await settle(stage)
            assert "pods asked 4, used 1 of 4" in stage.reason("j")
            stage.api.drop(PODS, "default/theirs")
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())


def test_what_the_quota_itself_says_is_used_counts() -> None:
    """A real API server decides by status.used, which its controller corrects late after a deletion."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        stage.api.put(RESOURCE_QUOTAS, quota({"hard": {"pods": "4"}, "used": {"pods": "2"}}, pods="4"))
        stage.put(job("j", 4))
        async with stage.scheduler():
            await settle(stage)
            assert "pods asked 4, used 2 of 4" in stage.reason("j")
            stage.api.put(RESOURCE_QUOTAS, quota({"hard": {"pods": "4"}, "used": {"pods": "0"}}, pods="4"))
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())


def test_containers_must_say_what_the_quota_limits() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        stage.api.put(RESOURCE_QUOTAS, quota(limits_memory="64Gi"))
        stage.put(job("j", 1))
        async with stage.scheduler():
            await settle(stage)
            assert "whose containers do not set limits.memory: add it to the template" in stage.reason("j")
            assert stage.api.bound() == {}

    play(scene())


SCOPES = [
    ({"scopes": ["BestEffort"]}, False),
    ({"scopes": ["NotBestEffort"]}, True),
    ({"scopes": ["Terminating"]}, False),
    ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}, False),
    ({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}}, True),
]


@pytest.mark.parametrize(("spec", "counts"), SCOPES)
def test_a_scope_leaves_other_pods_out(spec: Object, counts: bool) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        stage.api.put(RESOURCE_QUOTAS, quota(spec=spec, pods="1"))
        stage.put(job("j", 2))
        async with stage.scheduler():
            await settle(stage)
            assert (len(stage.api.bound()) == 0) is counts

    play(scene())


def test_a_footprint_names_what_quotas_name() -> None:
    resources = {"requests": {"cpu": "500m", "nvidia.com/gpu": "2"}, "limits": {"memory": "1Gi", "nvidia.com/gpu": "2"}}
    takes: dict[str, Any] = dict(pod_quota_usage({"containers": [{"name": "c", "resources": resources}]}).takes)
    assert takes == {
        "pods": 1,
        "count/pods": 1,
        "cpu": 500,
        "requests.cpu": 500,
        "memory": 2**30,
        "requests.memory": 2**30,
        "limits.memory": 2**30,
        "requests.nvidia.com/gpu": 2,
        "limits.nvidia.com/gpu": 2,
    }


def test_a_quota_looks_at_the_pods_of_its_own_namespace_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred namespaces with quotas and pods cost a look at each pod, and not a hundred."""
    looked: list[str] = []
    see_pod = ResourceQuotas.see_pod

    def counted(self: ResourceQuotas, obj: Object) -> None:
        looked.append(obj["metadata"]["uid"])
        see_pod(self, obj)

    monkeypatch.setattr(ResourceQuotas, "see_pod", counted)

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        for number in range(100):
            obj = pod(f"p-{number}", scheduler="default-scheduler", node="n1")
            meta = {**obj["metadata"], "namespace": f"team-{number}"}
            stage.api.put(PODS, {**obj, "metadata": meta})
            name = {"name": "q", "namespace": f"team-{number}"}
            stage.api.put(RESOURCE_QUOTAS, {**quota(pods="3"), "metadata": name})
        async with stage.scheduler():
            await stage.turn()
            assert len(looked) == 100
            for name, namespace in (("more", "team-7"), ("late", "elsewhere")):
                meta = {"name": name, "namespace": namespace}
                stage.api.put(RESOURCE_QUOTAS, {**quota(pods="9"), "metadata": meta})
            await settle(stage)
            assert len(looked) == 100

    play(scene())
