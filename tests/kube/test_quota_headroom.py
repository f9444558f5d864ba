"""Gangs and the ResourceQuotas of their namespaces: a gang waits if a quota leaves too little, and starts after a
release."""

from __future__ import annotations

from phalanx.client.kind import EVENTS, RESOURCE_QUOTAS
from tests.kube.double import Object, job, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle


def quota(status: Object | None = None, spec: Object | None = None, **hard: str) -> Object:
    """Return a quota with the limits `hard`, with `_` for `.`: limits_memory="1Gi"."""
    limits = {name.replace("_", "."): text for name, text in hard.items()}
    meta = {"name": "team", "namespace": "default"}
    return {"metadata": meta, "spec": {"hard": limits, **(spec or {})}, "status": status or {}}


def enforced(stage: Stage, pods: int) -> None:
    """Enforce the quota as the API server does: pod number `pods` + 1 of the namespace is refused."""
    stage.controller.refuse = lambda job, k: "exceeded quota: team" if len(_alive(stage)) >= pods else ""


def _alive(stage: Stage) -> list[Object]:
    return [one for one in stage.api.pods() if one["status"]["phase"] not in {"Succeeded", "Failed"}]


def test_a_gang_that_its_quota_would_refuse_is_not_resumed() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        stage.api.put(RESOURCE_QUOTAS, quota(pods="3"))
        stage.put(job("big", 4), job("small", 3))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            await settle(stage)
            assert stage.reason("big") == (
                "NamespaceQuota: the quota team of namespace default leaves too little: pods asked 4, used 0 of 3; "
                "its hard limit is lower than this: request less, or have the quota raised"
            )
            assert "patch jobs/big" not in stage.api.writes

    play(scene())


def test_two_gangs_do_not_share_one_headroom() -> None:
    """Each of the two gangs fits the quota, and the nodes have capacity for both. The second gang waits until the pods
    of the first have ended. Otherwise both gangs would be created in part."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        enforced(stage, 4)
        stage.api.put(RESOURCE_QUOTAS, quota(pods="4"))
        stage.put(job("a", 3), job("b", 3))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            await settle(stage)
            assert stage.reason("b").startswith("NamespaceQuota: the quota team of namespace default leaves too little")
            assert "pods asked 3, used 3 of 4" in stage.reason("b")
            for name in list(stage.api.bound()):
                stage.finish(name)
            await stage.until(lambda: len(stage.api.bound()) == 6)
            assert not [event for event in stage.api.objects[EVENTS].values() if event["reason"] == "FailedCreate"]

    play(scene())


def test_a_raised_quota_lets_it_go() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        stage.api.put(RESOURCE_QUOTAS, quota(requests_cpu="2"))
        stage.put(job("j", 4))
        async with stage.scheduler():
            await settle(stage)
            assert "requests.cpu asked 4, used 0 of 2" in stage.reason("j")
            stage.api.put(RESOURCE_QUOTAS, quota(requests_cpu="4"))
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())


def test_a_deleted_quota_lets_it_go() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        stage.api.put(RESOURCE_QUOTAS, quota(pods="1"))
        stage.put(job("j", 2))
        async with stage.scheduler():
            await settle(stage)
            stage.api.drop(RESOURCE_QUOTAS, "default/team")
            await stage.until(lambda: len(stage.api.bound()) == 2)

    play(scene())


def test_pods_that_exist_are_not_asked_for_again() -> None:
    """Point 12: a Job that was resumed without a start record is a pod-first gang. Its pods exist, and use up the
    quota."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        stage.api.put(RESOURCE_QUOTAS, quota(pods="2"))
        resumed = job("j", 2)
        resumed["spec"]["suspend"] = False
        stage.put(resumed)
        while len(stage.api.pods()) < 2:
            stage.controller.turn()
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)

    play(scene())


def test_a_restart_counts_what_was_promised() -> None:
    """A gang was resumed before the restart and has no pods yet. The quota for its pods is not given to another
    gang."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        enforced(stage, 4)
        stage.api.put(RESOURCE_QUOTAS, quota(pods="4"))
        stage.put(job("a", 3))
        async with stage.scheduler():
            while "patch jobs/a" not in stage.api.writes:
                await stage.turn(controller=False)
        stage.put(job("b", 3))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            assert "patch jobs/b" not in stage.api.writes

    play(scene())
