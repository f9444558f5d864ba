"""A Job without a time limit gets its queue's as its own `activeDeadlineSeconds`, so that the limit also applies while
no scheduler runs."""

from __future__ import annotations

from phalanx.client.kind import PODS
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.read.labels import LIMITED
from phalanx.model.job import Phase
from phalanx.model.plan import Preempt
from phalanx.model.reason import Reason, ReasonCode
from tests import clockwork
from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage

WHY = Reason(code=ReasonCode.PREEMPTED, text="it gives way to default/b")


def limited(wall: str | None, name: str = "default", parent: str = "") -> Object:
    limits = {"limits": {"perJob": {"wall": wall}}} if wall is not None else {}
    return {"metadata": {"name": name}, "spec": {**limits, **({"parent": parent} if parent else {})}}


def active_s(stage: Stage, name: str) -> int | None:
    found: int | None = stage.api.job(name)["spec"].get("activeDeadlineSeconds")
    return found


def ends_s(stage: Stage, name: str) -> float | None:
    return stage.cluster.ends.of.get(f"default/{name}")


def runs(stage: Stage, name: str) -> bool:
    record = stage.cluster.jobs.get(f"default/{name}")
    return record is not None and record.phase is Phase.RUNNING


def test_a_job_is_stopped_when_its_queue_or_one_above_says_and_its_end_is_foreseen() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.api.put(QUEUES, limited("1h", "above"))
        stage.api.put(QUEUES, limited("2h", "below", "above"))
        stage.put(job("a", 1, queue="below"), job("b", 1, queue="below", time_limit="60"))
        async with stage.scheduler():
            await stage.until(lambda: runs(stage, "a") and runs(stage, "b"))
            assert (active_s(stage, "a"), active_s(stage, "b")) == (3600, 60)
            assert ends_s(stage, "a") == stage.now_s + 3600.0
        stage.now_s += 100.0
        async with stage.scheduler():
            await stage.turn()
            assert ends_s(stage, "a") == stage.now_s - 100.0 + 3600.0

    clockwork.run(scene())


def test_the_limit_of_the_queue_is_not_taken_for_its_own_when_it_waits_again() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.api.put(QUEUES, limited("1h"))
        stage.put(job("a", 1))
        async with stage.scheduler():
            await stage.until(lambda: runs(stage, "a"))
            assert stage.api.job("a")["metadata"]["annotations"][LIMITED] == "3600 of none"
            stage.api.put(QUEUES, limited("10m"))  # shorter than what it was given: no reason never to start it again
            stage.decide(Preempt("default/a", 1, "default/b", WHY))
            await stage.until(lambda: stage.cluster.jobs["default/a"].attempt == 2 and runs(stage, "a"))
            assert active_s(stage, "a") == 600
            stage.api.put(QUEUES, limited(None))
            for _ in range(5):
                await stage.turn()
            stage.decide(Preempt("default/a", 2, "default/b", WHY))
            await stage.until(lambda: stage.cluster.jobs["default/a"].attempt == 3 and runs(stage, "a"))
            assert active_s(stage, "a") is None
            assert LIMITED not in stage.api.job("a")["metadata"]["annotations"]

    clockwork.run(scene())


def test_bare_pods_get_the_limit_before_they_are_bound() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.api.put(QUEUES, limited("1h"))
        longer = pod("p2", job="t", min_available="3")
        longer["spec"]["activeDeadlineSeconds"] = 60
        stage.put(pod("p0", job="t", min_available="3"), pod("p1", job="t", min_available="3"), longer)
        async with stage.scheduler():
            await stage.until(lambda: runs(stage, "t"))
            given = {one["metadata"]["name"]: one["spec"]["activeDeadlineSeconds"] for one in stage.api.pods()}
            assert given == {"p0": 3600, "p1": 3600, "p2": 60}
            assert ends_s(stage, "t") == stage.now_s + 3600.0

    clockwork.run(scene())


def test_bare_pods_may_say_their_limit_in_the_word_for_jobs() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(pod("p", time_limit="90s"))
        async with stage.scheduler():
            await stage.until(lambda: runs(stage, "pod:p"))
            assert stage.api.objects[PODS]["default/p"]["spec"]["activeDeadlineSeconds"] == 90

    clockwork.run(scene())
