"""Jobs on the real embedded API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.client.kind import JOBS, PODS
from phalanx.embedded.controllers.job import controller
from phalanx.embedded.controllers.job.decide import JobStep, decide
from phalanx.embedded.controllers.job.view import JobObservation
from tests.embedded.apiserver.process import ServerProcess
from tests.embedded.controllers.cluster import FAST, Cluster, scenario

pytestmark = pytest.mark.slow  # real processes


def test_a_job_runs_to_completion(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.job(parallelism=2, completions=3)
        for pod in await here.pods(2):
            await here.end(pod)
        [last] = [pod for pod in await here.pods(3) if pod["status"]["phase"] == "Pending"]
        await here.end(last)
        status = await here.ended()
        assert (status["last"], status["succeeded"]) == ("Complete CompletionsReached", 3)

    scenario(api_server, play)


def test_suspend_and_resume(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.job(parallelism=3, completions=3, suspend=True)
        status = await here.status("j", ready=0)
        assert "startTime" not in status
        await here.set(JOBS, "j", spec={"suspend": False})
        await here.pods(3)
        assert "startTime" in await here.status("j", active=3)
        await here.set(JOBS, "j", spec={"suspend": True})
        await here.pods(0)
        status = await here.status("j", active=None, terminating=0)
        assert "startTime" not in status
        assert "failed" not in status

    scenario(api_server, play)


def test_a_job_that_is_resumed_at_once_is_written_once(api_server: ServerProcess) -> None:
    """Its scheduler's write finds the version that it was decided on, and nothing says that it was suspended."""

    async def play(here: Cluster) -> None:
        made = await here.job(suspend=True)
        version = made["metadata"]["resourceVersion"]
        await here.set(JOBS, "j", metadata={"resourceVersion": version}, spec={"suspend": False})
        await here.pods(1)
        status = await here.status("j", active=1)
        assert "conditions" not in status
        assert here.asked("PUT", "/jobs/j/status") == 1

    scenario(api_server, play, replace(FAST, job=replace(FAST.job, batch_s=1.0, settle_s=3600.0)))


def test_a_job_that_is_over_at_once_has_one_status(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.job()
        await here.end((await here.pods(1))[0], "Succeeded")
        status = await here.ended()
        assert (status["last"], status["succeeded"], "active" in status) == ("Complete CompletionsReached", 1, False)
        assert here.asked("PUT", "/jobs/j/status") == 1
        assert here.asked("POST", "/events") == 0

    scenario(api_server, play, replace(FAST, job=replace(FAST.job, batch_s=1.0)))


def test_pods_of_a_finished_job_are_not_held(api_server: ServerProcess) -> None:
    """Their finalizers cost no write of their own."""

    async def play(here: Cluster) -> None:
        await here.job(parallelism=2, completions=2)
        pods = await here.pods(2)
        for pod in pods:
            await here.end(pod)
        first, second = [pod["metadata"]["name"] for pod in pods]
        await here.ended()
        changed = here.asked("PATCH", "/pods/")
        await here.connection.delete(PODS, first, here.namespace)
        assert await here.get(PODS, first) is None
        await here.connection.delete(JOBS, "j", here.namespace, {"propagationPolicy": "Background"})
        await here.gone(PODS, second)
        assert here.asked("PATCH", "/pods/") == changed

    scenario(api_server, play)


def test_failures_are_counted_up_to_the_limit(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.job(backoffLimit=1)
        await here.end((await here.pods(1))[0], "Failed")
        [second] = [pod for pod in await here.pods(2) if pod["status"]["phase"] == "Pending"]
        await here.end(second, "Failed")
        status = await here.ended()
        assert (status["last"], status["failed"]) == ("Failed BackoffLimitExceeded", 2)

    scenario(api_server, play)


def test_an_index_hands_its_failures_on_and_fails_alone(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.job(completionMode="Indexed", parallelism=2, completions=2, backoffLimitPerIndex=1)
        zero, one = await here.pods(2)
        await here.end(one)
        await here.end(zero, "Failed")
        [again] = [pod for pod in await here.pods(3) if pod["status"]["phase"] == "Pending"]
        assert again["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
        await here.end(again, "Failed")
        status = await here.ended()
        assert (status["last"], status["failedIndexes"], status["completedIndexes"]) == (
            "Failed FailedIndexes",
            "0",
            "1",
        )

    scenario(api_server, play)


def test_a_lost_pod_is_replaced_in_its_index(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.job(completionMode="Indexed", parallelism=2, completions=2)
        zero = (await here.pods(2))[0]
        await here.connection.delete(PODS, zero["metadata"]["name"], here.namespace)
        names = await here.until(
            lambda: here.list(PODS),
            lambda pods: len(pods) == 2 and zero["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods},
        )
        assert [pod["spec"]["hostname"] for pod in names] == ["j-0", "j-1"]
        await here.status("j", active=2, failed=1, terminating=0)

    scenario(api_server, play)


def test_a_job_with_a_time_to_live_goes_with_its_pods(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        await here.job(ttlSecondsAfterFinished=0)
        await here.end((await here.pods(1))[0])
        await here.gone(JOBS, "j")
        assert await here.pods(0) == []

    scenario(api_server, play)


def test_pods_of_a_job_with_its_own_selector_are_adopted(api_server: ServerProcess) -> None:
    async def play(here: Cluster) -> None:
        containers = [{"name": "c", "image": "i"}]
        await here.make(PODS, "stray", metadata={"labels": {"app": "x"}}, spec={"containers": containers})
        template = {"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Never", "containers": containers}}
        selector = {"matchLabels": {"app": "x"}}
        spec = {"parallelism": 2, "completions": 2, "manualSelector": True, "selector": selector, "template": template}
        await here.make(JOBS, "j", spec=spec)
        await here.status("j", active=2)
        stray = next(pod for pod in await here.pods(2) if pod["metadata"]["name"] == "stray")
        assert stray["metadata"]["ownerReferences"][0]["name"] == "j"
        assert stray["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]

    scenario(api_server, play)


@pytest.mark.slow
def test_a_job_of_ten_pods_is_told_and_written_briefly(api_server: ServerProcess) -> None:
    """Within the time for which changes are gathered, which here is long enough for a busy machine."""
    gathering = replace(FAST, job=replace(FAST.job, batch_s=2.0))

    async def play(here: Cluster) -> None:
        await here.job(parallelism=10, completions=10)
        await here.status("j", active=10)
        assert here.asked("POST", "/pods") == 10
        assert here.asked("PUT", "/jobs/j/status") < 10
        assert here.asked("POST", "/events") == 0  # the status says it

    scenario(api_server, play, gathering)


def test_a_defect_of_the_controller_stands_on_the_job_until_it_is_over(
    api_server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = True

    def decide_or_fail(view: JobObservation, *rest: Any) -> JobStep:
        if broken and view.job["metadata"]["name"] == "bad":
            raise KeyError("template")
        return decide(view, *rest)

    monkeypatch.setattr(controller, "decide", decide_or_fail)

    async def play(here: Cluster) -> None:
        nonlocal broken

        def condition(job: Any) -> Any:
            found = (job or {}).get("status", {}).get("conditions") or []
            return next((one for one in found if one["type"] == "ReconcileError"), {})

        await here.job("bad")
        await here.job("good")
        job = await here.until(lambda: here.get(JOBS, "bad"), lambda one: condition(one).get("status") == "True")
        assert "KeyError: 'template'" in condition(job)["message"]
        assert len(await here.pods(1)) == 1  # the other Job's pod
        broken = False
        await here.until(lambda: here.get(JOBS, "bad"), lambda one: condition(one).get("status") == "False")
        for pod in await here.pods(2):
            await here.end(pod)
        assert (await here.ended("bad"))["last"] == "Complete CompletionsReached"

    scenario(api_server, play)
