"""Workers are asked when they would start a job, and the job goes where it starts first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from phalanx.client.connection import ApiRefusal, ApiUnknown
from phalanx.client.kind import JOBS
from phalanx.clusters import choices as choices_
from phalanx.clusters.choices import Choices
from phalanx.clusters.workers.state import ConnectionState, Why
from phalanx.dialects.kueue import kinds
from phalanx.kube.gang.spec.elsewhere import ClusterChoice, Sought
from phalanx.kube.read.labels import CLUSTER_CHOICE, DATA
from tests.clusters.several import ACTIVE, Manager
from tests.clusters.sought import NOW_S, cluster, fields_of, sought
from tests.dialects.kueue.written import named
from tests.kube.double import Object
from tests.kube.test_bind_barrier import play


class Link:
    """A connection to a worker that answers questions about starts. `answer`: returns, raises or waits."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer, self.asked, self.news = answer, list[str](), asyncio.Event()

    async def request(self, method: str, path: str, params: dict[str, str]) -> Any:
        self.asked.append(params["job"])
        self.news.set()
        found = self.answer()
        return await found if asyncio.iscoroutine(found) else found


class Asked:
    """A worker with such a link."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.link, self.state, self.active = Link(answer), ConnectionState(Why.ACTIVE), True


def starts_in(seconds: float, code: str = "QueueQuota") -> Object:
    return {"kind": "JobStart", "startsIn": seconds, "reason": {"code": code, "message": "m"} if seconds else None}


def refused(code: int) -> Callable[[], Any]:
    def answer() -> Any:
        raise ApiRefusal(code, "x", "no")

    return answer


class Board:
    """Choices over workers `name -> answer`. `changed`: gangs that were marked."""

    def __init__(self, **answers: Callable[[], Any]) -> None:
        self.now_s, self.changed, self.news = NOW_S, list[str](), asyncio.Event()
        self.workers = {name: Asked(answer) for name, answer in answers.items()}
        known = {name: cluster(name) for name in answers}
        self.choices = Choices(self.workers, lambda: known, lambda: self.now_s, self.mark)

    async def __aenter__(self) -> Board:
        self.task = asyncio.ensure_future(self.choices.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def chosen(self) -> ClusterChoice:
        """The choice once the workers were asked."""
        while (found := self.choices.choose(sought())).blocked is choices_._ASKING:
            self.news.clear()
            await self.news.wait()
        return found

    def mark(self, gang: str) -> None:
        self.changed.append(gang)
        self.news.set()


async def test_workers_are_asked_before_a_job_is_sent_and_equal_jobs_ask_once() -> None:
    async with Board(w1=lambda: starts_in(3600.0), w2=lambda: starts_in(0.0)) as board:
        assert board.choices.choose(sought()).blocked is choices_._ASKING
        assert choices_._ASKING.brief, "it costs no write"
        found = await board.chosen()
        assert found.clusters == ("w2",)
        assert board.changed == ["default/one"] * 2
        other = Sought(**{**fields_of(sought()), "gang": "default/two"})
        assert board.choices.choose(other).clusters == ("w2",)
        assert [len(one.link.asked) for one in board.workers.values()] == [1, 1]


async def test_an_answer_is_asked_again_while_a_job_waits_and_marks_it_only_when_it_changes_the_order() -> None:
    said = [3600.0]
    async with Board(w1=lambda: starts_in(said[0]), w2=lambda: starts_in(0.0)) as board:
        await board.chosen()
        board.changed.clear()

        async def again() -> None:
            link = board.workers["w1"].link
            link.news.clear()
            board.now_s += choices_.AGAIN_S
            board.choices._news.set()
            await link.news.wait()
            await asyncio.sleep(0)  # its answer is taken

        said[0] = 3650.0
        await again()
        assert board.changed == []
        said[0] = 0.0
        await again()
        assert board.changed == ["default/one"]
        assert board.choices.choose(sought()).clusters is None
        board.choices.forget("default/one")
        assert not board.choices._equals


@pytest.mark.parametrize("code", [403, 404])
async def test_a_worker_without_such_answers_counts_as_free_and_is_not_asked_again(code: int) -> None:
    async with Board(w1=refused(code)) as board:
        found = await board.chosen()
        assert found.clusters is None
        assert found.facts == {"w1": "expected start not reported"}
        board.now_s += 100.0
        board.choices._news.set()
        await asyncio.sleep(0.005)
        assert len(board.workers["w1"].link.asked) == 1


async def test_a_worker_that_does_not_answer_holds_up_its_jobs_for_one_question_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choices_, "ASK_S", 0.02)
    async with Board(w1=lambda: asyncio.sleep(60.0)) as board:
        others = [
            Sought(**{**fields_of(sought()), "gang": f"default/j{number}", "priority": number}) for number in range(50)
        ]
        for one in others:
            board.choices.choose(one)
        await board.chosen()
        assert all(board.choices.choose(one).blocked is None for one in others)
        assert len(board.workers["w1"].link.asked) == 1


async def test_a_broken_answer_counts_as_none() -> None:
    async def broken() -> Any:
        raise ApiUnknown("the link was cut")

    async with Board(w1=broken) as board:
        assert (await board.chosen()).blocked is None


def test_the_cheaper_cluster_gets_the_job_and_the_job_says_why() -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4, w3=1)
        for name, price in (("w1", "cpu=2"), ("w2", "cpu=1"), ("w3", "cpu=0.1")):
            here.api.put(
                kinds.MULTI_CLUSTERS, named(name, status=ACTIVE) | {"metadata": cluster(name, price)["metadata"]}
            )
        here.submit("one")
        async with here.process():
            await here.until(lambda: bool(here.where("default/one")))
            assert here.where("default/one") == ["w2"]
            said = here.api.job("one")["metadata"]["annotations"][CLUSTER_CHOICE]
            assert said == (
                "w2: expected start not reported, price 2/h; w3: no room, expected start not reported, price 0.2/h; "
                "w1: after it in the order, expected start not reported, price 4/h"
            )
            assert CLUSTER_CHOICE not in here.apis["w2"].job("one")["metadata"]["annotations"]

    play(scene())


def test_a_job_waits_for_a_cluster_with_its_data_and_goes_when_the_label_is_set() -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.submit("one")
        one = here.api.job("one")
        here.api.put(JOBS, {**one, "metadata": {**one["metadata"], "annotations": {DATA: "coco"}}})
        async with here.process():
            await here.until(lambda: "w1: lacks the data coco" in here.reason())
            assert not here.where("default/one")
            here.api.put(kinds.MULTI_CLUSTERS, named("w2") | cluster("w2", "", "coco"))
            await here.until(lambda: here.where("default/one") == ["w2"])

    play(scene())
