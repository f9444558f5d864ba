"""After a conflict the object is read, and decided again. A user's change of a Job that is about to start is not
overwritten."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from phalanx.client.kind import JOBS
from phalanx.model.plan import Preempt
from phalanx.model.reason import Reason, ReasonCode
from tests.kube.double import Object, job, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_writer_failures import pass_time


def once(stage: Stage, write: str, happen: Callable[[], object]) -> None:
    """Right before that write arrives for the first time."""
    left = [write]

    def fault(what: str) -> str | None:
        if what in left:
            left.clear()
            happen()
        return None

    stage.fault = fault


def edit(stage: Stage, name: str, change: Callable[[Object], None]) -> None:
    obj = stage.api.objects[JOBS][f"default/{name}"]
    copied = {
        **obj,
        "metadata": {**obj["metadata"], "labels": dict(obj["metadata"]["labels"])},
        "spec": {**obj["spec"]},
    }
    change(copied)
    stage.api.put(JOBS, copied)


def test_more_pods_asked_for_right_before_the_start() -> None:
    """They do not all fit, so none is started."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2))
        more = {"parallelism": 8, "completions": 8}
        once(stage, "patch jobs/j", lambda: edit(stage, "j", lambda obj: obj["spec"].update(more)))
        async with stage.scheduler():
            await pass_time(stage, 30, 1.0)
            assert stage.api.bound() == {}
            assert stage.api.job("j")["spec"] == {**stage.api.job("j")["spec"], **more, "suspend": True}
            stage.put_node(node("n2", 8))
            await stage.until(lambda: len(stage.api.bound()) == 8)
            await settle(stage)
            assert stage.phase("j") == "running"

    play(scene())


def test_who_leaves_the_queue_right_before_the_start_is_not_started() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        stage.put(job("j", 2))
        once(stage, "patch jobs/j", lambda: edit(stage, "j", lambda obj: obj["metadata"]["labels"].clear()))
        async with stage.scheduler():
            await pass_time(stage, 30, 1.0)
            assert stage.api.job("j")["spec"]["suspend"] is True
            assert stage.api.pods("j") == []
            assert stage.api.writes == []

    play(scene())


def test_another_template_right_before_the_start_is_planned_anew() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2), node("n2", 8)])
        stage.put(job("j", 2))
        template = job("j", 2, "4")["spec"]["template"]
        once(stage, "patch jobs/j", lambda: edit(stage, "j", lambda obj: obj["spec"].update(template=template)))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert set(stage.api.bound().values()) == {"n2"}

    play(scene())


def test_a_status_that_was_written_meanwhile_costs_no_time() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 8)])
        stage.put(job("j", 2))
        once(stage, "patch jobs/j", lambda: edit(stage, "j", lambda obj: obj.update(status={"active": 0})))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            assert stage.cluster.jobs["default/j"].attempt == 1

    play(scene())


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_a_job_that_has_just_ended_is_not_suspended(end: str) -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            await settle(stage)
            conditions = [{"type": end, "status": "True"}]
            once(
                stage,
                "patch jobs/j",
                lambda: edit(stage, "j", lambda obj: obj.update(status={"conditions": conditions})),
            )
            why = Reason(code=ReasonCode.PREEMPTED, text="for default/other")
            stage.decide(Preempt("default/j", stage.cluster.jobs["default/j"].attempt, "default/other", why))
            await pass_time(stage, 30, 1.0)
            assert stage.api.job("j")["spec"]["suspend"] is False
            for one in stage.api.pods("j"):
                stage.finish(one["metadata"]["name"])
            await stage.until(lambda: not stage.cluster.jobs)

    play(scene())
