"""The writes to the API server and their order: a pending job costs no write, and writes that complete a gang precede
writes that begin one."""

from __future__ import annotations

import asyncio

from phalanx.kube.write.writer import Verdict, Write, Writer
from tests.kube.double import Object, job, node, pod
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_events import quick, report

WAITING = 20


def bound(stage: Stage, job: str) -> int:
    return sum("nodeName" in each["spec"] for each in stage.api.pods(job))


def test_a_job_costs_no_write_while_it_waits_whatever_else_happens() -> None:
    """Its reason is written once. Then the cluster lives on for hours: jobs come, start, end, nodes come and go."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 50)])
        stage.put(pod("others", "45", scheduler="default-scheduler", node="n1"))
        stage.put(*(job(f"waits-{number}", 40) for number in range(WAITING)))
        async with stage.scheduler():
            quick(stage)
            await settle(stage)
            await report(stage, WAITING)
            assert sorted(stage.api.writes) == sorted(f"patch jobs/waits-{number}" for number in range(WAITING))
            written = len(stage.api.writes)
            for hour in range(6):
                stage.now_s += 3600
                name = f"passes-{hour}"
                stage.put(job(name, 2))
                await stage.until(lambda name=name: bound(stage, name) == 2)
                for each in stage.api.pods(name):
                    stage.finish(each["metadata"]["name"])
                stage.put_node(node(f"small-{hour}", 1))
                await settle(stage)
                await report(stage, 0)
            since = stage.api.writes[written:]
            assert len(since) == 6 * 3
            assert [write for write in since if "waits-" in write] == []

    play(scene())


def test_a_gang_of_ten_costs_a_resume_and_ten_bindings() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 16)])
        async with stage.scheduler():
            stage.put(job("j", 10))
            await stage.until(lambda: len(stage.api.bound()) == 10)
            assert sorted(stage.api.writes) == sorted(
                [*(f"bind j-{number}" for number in range(1, 11)), "patch jobs/j"]
            )

    play(scene())


class Noted(Write):
    def __init__(self, key: str, sent: list[str], *, begins: bool = False) -> None:
        self.key, self.sent, self.begins = key, sent, begins

    async def send(self, api: object) -> Object:
        self.sent.append(self.key)
        return {}

    async def read(self, api: object) -> Object:
        return {}

    def judge(self, obj: Object) -> Verdict:
        return Verdict.ACHIEVED


def test_what_is_begun_is_finished_before_more_is_begun() -> None:
    async def scene() -> None:
        sent: list[str] = []
        writer = Writer(None, width=1)  # type: ignore[arg-type]  # these writes call nobody
        for name in ("a", "b"):
            writer.put(Noted(f"resume {name}", sent, begins=True), lambda *_: None)
        for name in ("a", "b"):
            writer.put(Noted(f"bind {name}", sent), lambda *_: None)
        assert (writer.unanswered, writer.unsent) == (4, 4)
        running = asyncio.ensure_future(writer.run())
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        assert sent == ["bind a", "bind b", "resume a", "resume b"]

    play(scene())
