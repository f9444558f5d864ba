"""`clusters/sending/job_reconciler.py`: exactly one cluster runs a job, from its first write to its last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from phalanx.client.kind import JOBS
from phalanx.clusters import dispatch
from phalanx.clusters.copies.content import waits_elsewhere
from phalanx.clusters.question import PRICE
from phalanx.clusters.workers import fleet
from phalanx.dialects.kueue import kinds
from phalanx.kube.read.labels import ADMITTED
from tests.clusters.several import ACTIVE, Manager
from tests.dialects.kueue.written import named
from tests.kube.double import Client, Object
from tests.kube.test_bind_barrier import play
from tests.kube.test_kueue import conditions, workload


class Once:
    """The fault happens at the write of that number, counted over all clusters; Events are not counted."""

    def __init__(self, number: int, mode: str) -> None:
        self.number, self.mode, self.seen = number, mode, 0

    def __call__(self, write: str) -> str | None:
        about = any(word in write for word in ("Job", "jobs/", "Pod", "pods/"))
        self.seen += about
        return self.mode if about and self.seen == self.number + 1 else None


async def through(here: Manager, done: Callable[[], bool], play_worker: Callable[[], None]) -> None:
    """Start the process again whenever it was killed, until all is done."""
    for _ in range(4):
        async with here.process():
            for _ in range(60):
                if done():
                    return
                play_worker()
                await here.turn()
                here.stage.now_s += 20  # a start that failed is tried again after a pause
                if here.killed:
                    break
    raise AssertionError(f"not done: {here.api.writes}, {[api.writes for api in here.apis.values()]}")


def test_a_job_is_sent_to_a_cluster_with_room_and_its_status_comes_back_in_three_writes() -> None:
    async def scene() -> None:
        here = Manager(w1=1, w2=4)
        here.submit("one")
        async with here.process():
            await here.until(lambda: bool(here.where("default/one")))
            assert here.where("default/one") == ["w2"], "w1 has no room"
            copied = here.apis["w2"].job("one")
            assert copied["spec"]["suspend"]
            assert "managedBy" not in copied["spec"]
            assert copied["metadata"]["labels"][kinds.QUEUE_LABEL] == "l"
            assert copied["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] == "multikueue"
            assert ADMITTED not in copied["metadata"]["annotations"]
            assert not here.api.pods()
            gang = here.stage.world.gangs["default/one"]
            assert waits_elsewhere(gang, here.api.objects), "people are told that it starts, and not that it runs"
            here.begin()
            await here.until(lambda: "startTime" in here.api.job("one")["status"])
            assert not waits_elsewhere(gang, here.api.objects)
            status = workload(here.stage, "one")["status"]
            assert status["clusterName"] == "w2"
            assert status["admissionChecks"][0]["message"] == 'The workload was admitted on "w2"'
            here.finish()
            await here.until(here.over)
            await here.until(lambda: conditions(here.stage, "one").get("Finished") == "True Succeeded")
            assert here.api.job("one")["status"]["succeeded"] == 2
            assert len(here.jobs_written()) == 3, here.jobs_written()
            assert here.where("default/one") == ["w2"], "its logs can be read"
            here.api.drop(JOBS, "default/one")
            await here.until(lambda: not here.where("default/one"))

    play(scene())


def faults(limit: int) -> list[tuple[int, str]]:
    return [(number, mode) for number in range(limit) for mode in ("kill", "kill after", "lost")]


@pytest.mark.parametrize(("number", "mode"), faults(4))
def test_killed_at_every_write_of_a_life(number: int, mode: str) -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.fault = Once(number, mode)
        here.submit("one")

        def work() -> None:
            here.begin()
            here.finish()

        await through(here, here.over, work)
        created = [write for api in here.apis.values() for write in api.writes if write == "create Job"]
        assert created == ["create Job"]
        assert here.most == 1
        assert here.api.job("one")["status"]["succeeded"] == 2

    play(scene())


@pytest.mark.slow
@pytest.mark.parametrize(("number", "mode"), faults(6))
def test_killed_at_every_write_on_the_way_to_another_cluster(number: int, mode: str) -> None:
    """A copy that does not start within 5 minutes is tried elsewhere; two copies never exist at a time."""

    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.fault = Once(number, mode)
        here.submit("one")
        first: list[str] = []

        def work() -> None:
            place = here.where("default/one")
            first.extend(place if not first else ())
            if place and place != first[:1]:
                here.begin()
                here.finish()
            elif place:
                here.stage.now_s += 310

        await through(here, here.over, work)
        assert here.most == 1
        assert here.where("default/one") != first[:1]

    play(scene())


def test_a_cluster_that_answers_slowly_holds_up_no_job_of_another() -> None:
    async def scene() -> None:
        here = Manager(100, w1=24, w2=100)
        here.tasks = dispatch.AT_ONCE
        here.api.put(kinds.MULTI_CLUSTERS, named("w2", status=ACTIVE) | priced("w2", "cpu=1"))
        for number in range(12):
            here.submit(f"slow{number}")

        async def hang(*about: object) -> None:
            await asyncio.Event().wait()

        async with here.process():
            here.workers["w1"].link.create = hang
            await here.until(lambda: here.dispatcher.calls.open["w1"] == fleet.AT_ONE)
            here.submit("other", 3)
            await here.until(lambda: here.where("default/other") == ["w2"])
            assert here.dispatcher.calls.open["w1"] <= fleet.AT_ONE
            here.workers["w1"].link = Client(here.apis["w1"])
            await here.until(lambda: len(here.apis["w1"].objects[JOBS]) == 12)

    def priced(name: str, price: str) -> Object:
        return {"metadata": {"name": name, "annotations": {PRICE: price}}}

    play(scene())
