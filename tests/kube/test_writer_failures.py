"""Writes that always fail: a webhook that is down, a server that breaks on one object. They take no turn from others,
hold no node for ever, and people are told what the server says."""

from __future__ import annotations

import asyncio

from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.write.writer import Verdict, Write, Writer
from phalanx.model.plan import Preempt
from phalanx.model.reason import Reason, ReasonCode
from tests.kube.double import Controller, Object, job, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_restart import important

DOWN = 'broken: failed calling webhook "quota.example.com": connection refused'


class Failing(Write):
    """A write to a server that breaks on it: `calls` counts what it costs. `unreadable`: the object, too."""

    def __init__(self, key: str, calls: list[str], *, fails: bool = True, unreadable: bool = False) -> None:
        self.key, self.calls, self.fails, self.unreadable = key, calls, fails, unreadable

    async def send(self, api: object) -> Object:
        self.calls.append(self.key)
        await asyncio.sleep(0.001)
        if self.fails:
            raise ApiUnknown("the API server answered 500: failed calling webhook")
        return {}

    async def read(self, api: object) -> Object:
        self.calls.append(self.key)
        if self.unreadable:
            raise ApiUnknown("no answer")
        return {}

    def judge(self, obj: Object) -> Verdict:
        return Verdict.AGAIN


def test_forty_writes_that_fail_take_no_turn_from_ten_healthy_ones() -> None:
    async def scene() -> None:
        calls: list[str] = []
        answers: dict[str, WriteOutcome] = {}
        writer = Writer(None)  # type: ignore[arg-type]  # these writes call nobody
        running = asyncio.ensure_future(writer.run())
        for number in range(40):
            writer.put(Failing(f"bad-{number}", calls), lambda *_: None)
        await asyncio.sleep(1.0)
        for number in range(10):
            name = f"good-{number}"
            write = Failing(name, calls, fails=False)
            writer.put(write, lambda answer, obj, text, name=name: answers.update({name: answer}))
        await asyncio.sleep(0.1)
        assert list(answers.values()) == [WriteOutcome.DONE] * 10
        running.cancel()

    play(scene())


def test_one_that_fails_costs_less_each_time_and_counts_as_refused_with_the_servers_words() -> None:
    async def scene() -> None:
        calls: list[str] = []
        ends: list[tuple[WriteOutcome, str]] = []
        writer = Writer(None)  # type: ignore[arg-type]  # these writes call nobody
        running = asyncio.ensure_future(writer.run())
        writer.put(Failing("bad", calls), lambda answer, obj, text: ends.append((answer, text)))
        await asyncio.sleep(60.0)
        assert ends == [(WriteOutcome.REFUSED, "the API server answered 500: failed calling webhook")]
        assert len(calls) == 16, "each time it is sent and read"
        assert writer.idle
        running.cancel()

    play(scene())


def test_what_cannot_be_read_is_neither_refused_nor_sent_again() -> None:
    async def scene() -> None:
        calls: list[str] = []
        ends: list[WriteOutcome] = []
        write = Failing("bad", calls, unreadable=True)
        writer = Writer(None, width=1)  # type: ignore[arg-type]  # these writes call nobody
        running = asyncio.ensure_future(writer.run())
        writer.put(write, lambda answer, obj, text: ends.append(answer))
        await asyncio.sleep(600.0)
        assert ends == []
        assert writer.unanswered == 1
        assert len(calls) < 150, "every 5 s in the end"
        write.fails = write.unreadable = False
        await asyncio.sleep(11.0)
        assert ends == [WriteOutcome.DONE]
        running.cancel()

    play(scene())


async def pass_time(stage: Stage, seconds: float, step_s: float = 5.0) -> None:
    """Everybody's time passes, that of rests included."""
    for _ in range(int(seconds / step_s)):
        stage.now_s += step_s
        await asyncio.sleep(step_s)
        await stage.turn()


def test_a_job_that_cannot_be_resumed_gives_its_node_back_and_says_what_the_server_says() -> None:
    """Nothing else fits beside it. When the webhook is there again, it starts."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.fault = lambda write: DOWN if write == "patch jobs/bad" else None
        stage.put(job("bad", 4))
        async with stage.scheduler():
            await settle(stage)
            stage.put(job("good", 4))
            await pass_time(stage, 90)
            assert len(stage.api.bound()) == 4
            assert {one["metadata"]["labels"]["job"] for one in stage.api.pods()} == {"good"}
            tried = len(stage.api.broken)
            for one in stage.api.pods("good"):
                stage.finish(one["metadata"]["name"])
            await pass_time(stage, 3600, 30.0)
            assert "failed calling webhook" in stage.reason("bad")
            assert len(stage.api.broken) - tried < 10 * 8, "rarely: every ten minutes in the end"
            stage.fault = lambda write: None
            await pass_time(stage, 630)
            assert len([name for name in stage.api.bound() if name.startswith("bad")]) == 4

    play(scene())


def test_a_job_that_cannot_be_suspended_holds_no_node_that_nothing_of_it_is_on() -> None:
    """Pod 3 of 4 is refused, so its start is taken back; the Job cannot be suspended. Its room goes to another."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.controller = Controller(stage.api, lambda name, k: "no" if (name, k) == ("bad", 3) else "")
        stage.put(job("bad", 4))
        async with stage.scheduler():
            await settle(stage)
            assert len(stage.api.pods("bad")) == 3
            stage.fault = lambda write: DOWN if write == "patch jobs/bad" else None
            stage.put(job("good", 4))
            await pass_time(stage, 240)
            assert {one.rpartition("-")[0] for one in stage.api.bound()} == {"good"}
            assert stage.phase("bad") == "queued"
            stage.fault = lambda write: None
            stage.controller = Controller(stage.api)
            stage.controller.made = 100
            for one in stage.api.pods("good"):
                stage.finish(one["metadata"]["name"])
            await pass_time(stage, 900)
            assert len([name for name in stage.api.bound() if name.startswith("bad")]) == 4

    play(scene())


def test_a_running_job_that_cannot_be_suspended_keeps_what_its_pods_use() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("bad", 4))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            await settle(stage)
            stage.fault = lambda write: DOWN if write == "patch jobs/bad" else None
            stage.decide(_preempt(stage))
            stage.put(important(job("good", 4)))
            await pass_time(stage, 600)
            assert {one.rpartition("-")[0] for one in stage.api.bound()} == {"bad"}
            stage.fault = lambda write: None
            await pass_time(stage, 320)
            assert {one.rpartition("-")[0] for one in stage.api.bound()} == {"good"}

    play(scene())


def _preempt(stage: Stage) -> Preempt:

    why = Reason(code=ReasonCode.PREEMPTED, text="for default/good")
    return Preempt("default/bad", stage.cluster.jobs["default/bad"].attempt, "default/good", why)


def test_a_webhooks_not_now_delays_a_start_and_does_not_end_it() -> None:
    """429 about one object (a Status, not a server that is too busy): the same start goes on when it passes."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1")])
        stage.put(job("a", 2))
        refused: list[str] = []

        def fault(write: str) -> str | None:
            if write == "patch jobs/a" and len(refused) < 3:
                refused.append(write)
                return "busy: the quota service is reloading"
            return None

        stage.fault = fault
        async with stage.scheduler():
            for _ in range(60):
                await stage.turn()
                await asyncio.sleep(0.1)
            assert len(stage.api.bound()) == 2
            assert stage.cluster.jobs["default/a"].attempt == 1
            assert len(refused) == 3

    play(scene())


class Conflicting(Failing):
    """Another writer has just changed the object, a given number of times."""

    def __init__(self, key: str, calls: list[str], conflicts: int) -> None:
        super().__init__(key, calls, fails=False)
        self.conflicts = conflicts

    async def send(self, api: object) -> Object:
        self.calls.append("send")
        if self.conflicts:
            self.conflicts -= 1
            raise ApiRefusal(409, "Conflict", "the object has been modified")
        return {}


def test_after_a_conflict_a_write_does_not_rest_but_one_that_meets_many_does() -> None:
    """The Job controller notes on each new Job that it is suspended, just when it is to be resumed."""

    async def scene() -> None:
        calls: list[str] = []
        writer = Writer(None)  # type: ignore[arg-type]  # these writes call nobody
        running = asyncio.ensure_future(writer.run())
        rested: dict[int, int] = {}
        for conflicts in (1, 2, 3):
            writer.put(Conflicting("job", calls, conflicts), lambda *_: None)
            while not writer.idle:
                rested[conflicts] = max(writer.resting, rested.get(conflicts, 0))
                await asyncio.sleep(0.004)
        assert rested == {1: 0, 2: 0, 3: 1}
        begin_s, ended = asyncio.get_running_loop().time(), asyncio.Event()
        writer.put(Conflicting("job", calls, 4), lambda *_: ended.set())
        await ended.wait()
        assert asyncio.get_running_loop().time() - begin_s < 0.2, "the third rests 20 ms, the fourth 100 ms"
        running.cancel()

    play(scene())
