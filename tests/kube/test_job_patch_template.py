"""The template of a Job that ran once changes again: another flavor, or a gate, by the rules of old servers and new."""

from __future__ import annotations

import pytest

from phalanx.client.kind import NODES
from phalanx.kube.install.definitions import FLAVORS, QUEUES
from phalanx.model.plan import Preempt
from phalanx.model.reason import Reason, ReasonCode
from tests.kube.double import Object, OtherScheduler, job, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

RELEASES = ["1.35", "1.36.0", "1.36"]
WHY = Reason(code=ReasonCode.PREEMPTED, text="for default/other")


def labelled(name: str, **labels: str) -> Object:
    return {**node(name), "metadata": {"name": name, "labels": labels}}


def flavored(stage: Stage) -> None:
    """Spot nodes first, then the others."""
    for name in ("spot", "steady"):
        stage.api.put(FLAVORS, {"metadata": {"name": name}, "spec": {"labels": {"kind": name}}})
    quotas = [{"flavor": name, "guaranteed": {"cpu": "4"}} for name in ("spot", "steady")]
    stage.api.put(QUEUES, {"metadata": {"name": "default"}, "spec": {"quotas": quotas}})


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_that_ran_gets_another_flavor(release: str) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[labelled("a", kind="spot"), labelled("b", kind="steady")])
        stage.api.release, stage.controller.says = release, True
        flavored(stage)
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await settle(stage)
            assert set(stage.api.bound().values()) == {"a"}
            stage.api.put(NODES, {**labelled("a", kind="spot"), "spec": {"unschedulable": True}})
            stage.caches.deliver(all=True)
            stage.decide(Preempt("default/j", stage.cluster.jobs["default/j"].attempt, "default/other", WHY))
            await stage.until(lambda: set(stage.api.bound().values()) == {"b"})
            template = stage.api.job("j")["spec"]["template"]["spec"]
            assert template["nodeSelector"] == {"kind": "steady"}

    play(scene())


@pytest.mark.parametrize("release", RELEASES)
def test_a_pinned_job_that_ran_without_us_gets_its_gate(release: str) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.api.release, stage.controller.says = release, True
        other = OtherScheduler(stage.api)
        stage.events = other.turn
        ran = job("j", 2, scheduler="default-scheduler")
        ran["status"] = {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}
        stage.put(ran)
        async with stage.scheduler():
            for _ in range(60):
                await stage.turn()
                other.turn()
                if len(stage.api.bound()) == 2:
                    break
            assert len(stage.api.bound()) == 2

    play(scene())


def test_who_needs_no_other_template_writes_no_status() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        ran = job("j", 2)
        ran["status"] = {"startTime": "2026-01-01T00:00:00Z"}
        stage.put(ran)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert stage.api.writes.count("patch jobs/j") == 1

    play(scene())
