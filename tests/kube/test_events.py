"""Points 11 and 18 of the protocol: reasons cost few writes, and only pods that more nodes would help are
`Unschedulable`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from phalanx.client.kind import EVENTS, JOBS, PODS, Kind
from phalanx.kube.install.definitions import QUEUES
from phalanx.kube.write.events import EventReporter, ReportRate
from phalanx.model.policy import Policy
from phalanx.model.reason import Reason, ReasonCode
from phalanx.providers.provision import Provisioning
from phalanx.scaling.waiting import admitted_together
from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle


async def report(stage: Stage, until: int | Callable[[], bool]) -> None:
    """Let the reporter work until it has made `until` writes, or until the condition holds."""
    stage.now_s += 2
    reached = until if callable(until) else lambda: len(stage.api.writes) >= until
    running = asyncio.ensure_future(stage.world.effects.reporter.run())
    for _ in range(2_000):
        if reached():
            break
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    running.cancel()


def quick(stage: Stage) -> None:
    budget = ReportRate(settle_s=0.001, writes_per_s=10_000.0)
    asks = stage.provisioning is None
    stage.world.effects.reporter = EventReporter(stage._client, lambda: stage.now_s, budget, asks_autoscalers=asks)  # type: ignore[arg-type]  # a double


def condition(found: Object) -> Object:
    (only,) = found["status"]["conditions"]
    return only


def test_a_job_that_waits_is_told_why_once() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(job("j", 4))
        async with stage.scheduler():
            quick(stage)
            await settle(stage)
            await report(stage, 1)
            assert stage.api.job("j")["metadata"]["annotations"]["phalanx.dev/reason"].startswith("N")
            await settle(stage)
            stage.now_s += 300
            await settle(stage)
            assert stage.api.writes == ["patch jobs/j"]

    play(scene())


def test_a_reason_that_goes_away_within_seconds_is_written_only_if_it_stays() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(job("j", 4))
        async with stage.scheduler():
            await settle(stage)
            quick(stage)
            reporter, gang = stage.world.effects.reporter, stage.world.gangs["default/j"]
            reporter.waits(gang, Reason(code=ReasonCode.BACKOFF, text="it is being looked at", brief=True))
            await report(stage, 0)
            assert stage.api.writes == []
            stage.now_s += 11
            await report(stage, 1)
            assert stage.api.job("j")["metadata"]["annotations"]["phalanx.dev/reason"].startswith("Backoff")

    play(scene())


def test_the_reason_goes_with_the_resume() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(job("j", 4))
        async with stage.scheduler():
            quick(stage)
            await settle(stage)
            await report(stage, 1)
            stage.change("j", {}, {"phalanx.dev/reason-numbers": '{"enough_s": 1.0}'})
            stage.put_node(node("n2", 4))
            await stage.until(lambda: len(stage.api.bound()) == 4)
            assert not {"phalanx.dev/reason", "phalanx.dev/reason-numbers"} & {
                *stage.api.job("j")["metadata"]["annotations"]
            }

    play(scene())


def test_the_expected_release_is_written_as_a_number_while_the_reason_has_one() -> None:
    """Slurm's commands read it, so that they do not depend on the sentence."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("before", 4, time_limit="1h"))
        async with stage.scheduler():
            quick(stage)
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.put(job("j", 4))
            await settle(stage)
            so_far = len(stage.api.writes)
            await report(stage, so_far + 1)
            notes = stage.api.job("j")["metadata"]["annotations"]
            end_s = (
                json.loads(stage.api.job("before")["metadata"]["annotations"]["phalanx.dev/admitted"])["at_s"] + 3600
            )
            assert notes["phalanx.dev/reason"].startswith("NoRoom")
            assert json.loads(notes["phalanx.dev/reason-numbers"]) == {"enough_s": pytest.approx(end_s, abs=60)}
            stage.change("j", {}, {"phalanx.dev/hold": "true"})
            await settle(stage)
            await report(stage, so_far + 2)
            notes = stage.api.job("j")["metadata"]["annotations"]
            assert notes["phalanx.dev/reason"].startswith("Held")
            assert "phalanx.dev/reason-numbers" not in notes

    play(scene())


def test_a_pod_that_more_nodes_would_help_is_unschedulable() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(pod("p", "1"), pod("theirs", "2", scheduler="default-scheduler", node="n1"))
        async with stage.scheduler():
            quick(stage)
            await settle(stage)
            await report(stage, 1)
            found = condition(stage.api.objects[PODS]["default/p"])
            assert (found["type"], found["status"], found["reason"]) == ("PodScheduled", "False", "Unschedulable")
            assert found["message"].startswith("NoRoom: ")

    play(scene())


def test_a_held_pod_is_not() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(pod("p", "1", hold="true"))
        async with stage.scheduler():
            quick(stage)
            await settle(stage)
            await report(stage, 1)
            assert condition(stage.api.objects[PODS]["default/p"])["reason"] == "PhalanxQueued"

    play(scene())


def test_an_object_is_written_three_times_in_a_row_and_then_once_a_minute_with_the_newest() -> None:
    """The code changes six times within a minute: three writes at first, and one a minute later, with what is true
    then."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(job("j", 4))
        async with stage.scheduler():
            quick(stage)
            await settle(stage)
            await report(stage, 1)
            for held in (True, False, True, False, True):
                stage.change("j", {}, {"phalanx.dev/hold": str(held).lower()})
                await settle(stage)
                await report(stage, 3)
                said = stage.api.job("j")["metadata"]["annotations"]["phalanx.dev/reason"]
                if len(stage.api.writes) < 3:
                    assert said.startswith("Held" if held else "N")
            assert stage.api.writes == ["patch jobs/j"] * 3
            assert said.startswith("N")
            stage.now_s += 61
            await report(stage, 4)
            assert stage.api.writes == ["patch jobs/j"] * 4
            assert stage.api.job("j")["metadata"]["annotations"]["phalanx.dev/reason"].startswith("Held")

    play(scene())


def test_of_who_was_cancelled_nothing_is_kept() -> None:
    """A thousand jobs that were told why they wait, and went without ever starting, leave nothing behind."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)])
        async with stage.scheduler():
            quick(stage)
            for number in range(3):
                stage.put(job(f"large-{number}", 4))
            await settle(stage)
            await report(stage, 3)
            for number in range(3):
                stage.api.drop(JOBS, f"default/large-{number}")
            await stage.until(lambda: not stage.world.gangs)
            kept = stage.world.effects.reporter
            assert (kept._written, kept._newest) == ({}, {})

    play(scene())


def test_a_reason_that_quotes_what_somebody_wrote_is_no_longer_than_an_event() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        wide = pod("p")
        wide["metadata"]["annotations"]["phalanx.dev/queue"] = "q" * 100_000
        stage.put(wide, job("j", 1, queue="q" * 100_000))
        async with stage.scheduler():
            quick(stage)
            await settle(stage)
            await report(stage, 2)
            said = stage.api.job("j")["metadata"]["annotations"]["phalanx.dev/reason"]
            told = condition(stage.api.objects[PODS]["default/p"])["message"]
            assert [(text.partition(":")[0], len(text)) for text in (said, told)] == [("QueueUnknown", 1024)] * 2

    play(scene())


def test_an_autoscaler_sees_all_pods_of_a_gang_at_once() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(*(pod(f"p{number}", "1", job="g", min_available="8") for number in range(8)))
        async with stage.scheduler():
            slow = ReportRate(settle_s=0.001, writes_per_s=0.01)  # the pause after one write is longer than the test
            stage.world.effects.reporter = EventReporter(stage._client, lambda: stage.now_s, slow)  # type: ignore[arg-type]  # a double
            await settle(stage)
            await report(stage, 8)
            assert {condition(each)["reason"] for each in stage.api.pods()} == {"Unschedulable"}

    play(scene())


def reasons(stage: Stage, gang: str) -> set[str]:
    """Return the reasons of the conditions of the gang's pods."""
    pods = (each for each in stage.api.pods() if each["metadata"]["name"].startswith(gang))
    return {one["reason"] for each in pods for one in each["status"].get("conditions", ())}


def gang_of(name: str, pods: int, cpu: str, **said: str) -> list[Object]:
    size = {"job": name, "min_available": str(pods), "queue": "team", **said}
    return [pod(f"{name}-{number}", cpu, **size) for number in range(pods)]


def test_of_two_gangs_that_share_a_quota_one_asks_autoscalers() -> None:
    """Three pods and two pods of 8 cpu, in a queue with 24: each gang fits into the quota, but not both."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        limits = [{"limit": {"cpu": "24"}}]
        stage.api.put(QUEUES, {"metadata": {"name": "team"}, "spec": {"quotas": limits}})
        stage.put(*gang_of("one", 3, "8", priority="5"), *gang_of("two", 2, "8"))
        async with stage.scheduler():
            quick(stage)
            reporter, policy = stage.world.effects.reporter, Policy()
            reporter.admitted = lambda jobs: admitted_together(stage.cluster, policy, stage.now_s, jobs)
            await settle(stage)
            await report(stage, 5)
            assert (reasons(stage, "one"), reasons(stage, "two")) == ({"Unschedulable"}, {"PhalanxQueued"})
            for number in range(3):
                stage.api.drop(PODS, f"default/one-{number}")
            await stage.until(lambda: set(stage.world.gangs) == {"default/two"})
            stage.now_s += 120
            await report(stage, lambda: reasons(stage, "two") == {"Unschedulable"})
            assert reasons(stage, "two") == {"Unschedulable"}, "the quota has room for it now"
            written = len(stage.api.writes)
        async with stage.scheduler():  # what the pods say already is not written again
            quick(stage)
            await settle(stage)
            await report(stage, written + 1)
            assert len(stage.api.writes) == written

    play(scene())


def test_where_phalanx_requests_nodes_itself_no_autoscaler_is_asked() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(pod("p", "3"))
        stage.provisioning = Provisioning([], lambda: stage.now_s)
        async with stage.scheduler():
            quick(stage)
            await settle(stage)
            await report(stage, 1)
            assert condition(stage.api.objects[PODS]["default/p"])["reason"] == "PhalanxQueued"

    play(scene())


def test_events_wait_for_bindings_and_not_for_ever() -> None:
    class Written:
        def __init__(self) -> None:
            self.reasons: list[str] = []
            self.news = asyncio.Event()

        async def create(self, kind: Kind, body: Object, namespace: str) -> None:
            assert kind is EVENTS
            self.reasons.append(body["reason"])
            self.news.set()

    async def scene(*, late: bool) -> list[str]:
        api, waiting, asked, now_s = Written(), [True], asyncio.Event(), [100.0]

        def is_busy() -> bool:
            asked.set()
            return waiting[0]

        budget = ReportRate(settle_s=0.0, writes_per_s=10_000.0, late_s=10.0)
        reporter = EventReporter(api, lambda: now_s[0], budget, is_busy=is_busy)  # type: ignore[arg-type]  # a double
        reporter.object_event(PODS, {"namespace": "default", "name": "p", "uid": "u"}, "Scheduled", "Bound")
        running = asyncio.ensure_future(reporter.run())
        await asked.wait()
        before = list(api.reasons)
        if late:
            now_s[0] += 10.0
        else:
            waiting[0] = False
        await asyncio.wait_for(api.news.wait(), 60)
        running.cancel()
        return before

    assert asyncio.run(scene(late=False)) == []
    assert asyncio.run(scene(late=True)) == []
