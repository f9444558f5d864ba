"""No job waits in silence for a cluster: a slow one, one that deletes an earlier copy, one that does not answer."""

from __future__ import annotations

import pytest

from phalanx.client.kind import JOBS
from phalanx.clusters.workers import fleet
from tests.clusters.several import Manager
from tests.kube.test_bind_barrier import play


@pytest.mark.slow
def test_every_job_of_a_slow_cluster_is_sent_and_one_that_asked_first_is_sent_first() -> None:
    async def scene() -> None:
        here = Manager(200, w1=200)
        here.tasks = 4 * fleet.AT_ONE
        for number in range(40):
            here.submit(f"j{number}", 1)
        async with here.process():
            await here.until(lambda: len(here.apis["w1"].objects[JOBS]) == 40, 12)

    play(scene())


def test_a_copy_has_five_minutes_from_when_it_was_made_however_late_that_was() -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.submit("one")
        late = True
        here.fault = lambda write: "broken: slow" if late and "create Job" in write else None
        async with here.process():
            await here.until(lambda: any(api.broken for api in here.apis.values()))
            here.stage.now_s += 100
            await here.turn()
            late = False
            here.stage.now_s += 300
            await here.until(lambda: bool(here.where("default/one")))
            [first] = here.where("default/one")
            here.stage.now_s += 290
            for _ in range(5):
                await here.turn()
            assert here.where("default/one") == [first], "its five minutes are not over"
            here.begin()
            here.finish()
            await here.until(here.over)
            assert here.most == 1

    play(scene())


def test_a_copy_that_is_being_deleted_for_long_is_the_reason_for_which_its_job_waits() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        here.submit("one")
        async with here.process():
            await here.until(lambda: bool(here.where("default/one")))
            leave(here)
            for _ in range(40):
                await here.turn()
                here.stage.now_s += 10
                if "is being deleted since" in here.reason():
                    break
            assert (
                "another client is deleting its copy in cluster w1, which is being deleted since 2026-01-01"
                in here.reason()
            )
            assert "has the finalizers example.com/slow" in here.reason()
            assert here.api.job("one")["spec"]["suspend"], "it waits in the queue"
            for _ in range(60):
                await here.turn()
                here.stage.now_s += 30
                if "an earlier copy" in here.reason():
                    break
            assert "cluster w1 still has an earlier copy of it" in here.reason()
            here.apis["w1"].drop(JOBS, "default/one")
            for _ in range(60):
                await here.turn()
                here.stage.now_s += 30
                here.begin()
                here.finish()
                if here.over():
                    break
            assert here.over()
            assert here.most == 1

    play(scene())


def test_a_copy_that_has_ended_counts_also_while_it_is_being_deleted() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        here.submit("one")
        async with here.process():
            await here.until(lambda: bool(here.where("default/one")))
            here.begin()
            here.finish()
            leave(here)
            await here.until(here.over)
            assert here.api.job("one")["status"]["succeeded"] == 2

    play(scene())


def test_a_cluster_that_never_says_whether_it_takes_a_job_is_left_for_another() -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.fault = lambda write: "broken: a webhook is down" if write == "w1: create Job" else None
        here.submit("one")
        async with here.process():
            for _ in range(60):
                await here.turn()
                here.stage.now_s += 20
                if here.where("default/one"):
                    break
            assert here.where("default/one") == ["w2"]
            here.begin()
            await here.until(lambda: "startTime" in here.api.job("one")["status"])
            assert here.most == 1

    play(scene())


def test_a_status_that_the_manager_refuses_is_told_to_the_user() -> None:
    async def scene() -> None:
        here = Manager(w1=4)
        here.submit("one")
        async with here.process():
            await here.until(lambda: bool(here.where("default/one")))
            here.fault = lambda write: "no right to jobs/status" if write.endswith("jobs/one") else None
            here.begin()
            for _ in range(30):
                await here.turn()
                here.stage.now_s += 10
            assert "NotFollowed: the job's state in cluster w1 is not known: no right to jobs/status" in here.told
            assert not here.api.job("one")["spec"]["suspend"], "it runs, and goes on"
            here.fault = lambda write: None
            await here.until(lambda: "startTime" in here.api.job("one")["status"])

    play(scene())


def test_a_job_avoids_the_cluster_that_keeps_its_earlier_copy_and_not_the_next_one() -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.submit("one")
        async with here.process():
            await here.until(lambda: bool(here.where("default/one")))
            [first] = here.where("default/one")
            [second] = {"w1", "w2"} - {first}
            leave(here)
            for _ in range(60):
                await here.turn()
                here.stage.now_s += 20
                if f"cluster {first} still has an earlier copy" in here.reason():
                    break
            assert f"cluster {first} still has an earlier copy" in here.reason()
            assert list(here.stage.world.gangs["default/one"].history.left_out) == [first]
            here.apis[first].drop(JOBS, "default/one")
            for _ in range(15):
                await here.turn()
                here.stage.now_s += 20
                if here.where("default/one"):
                    break
            assert here.where("default/one") == [second], "nothing is in its way there any more"

    play(scene())


@pytest.mark.parametrize("fault", ["no right to delete", "broken: a webhook is down", "hangs"])
def test_a_copy_that_another_cluster_does_not_delete_hides_no_result(fault: str) -> None:
    async def scene() -> None:
        here = Manager(w1=4, w2=4)
        here.submit("one")
        async with here.process():
            await here.until(lambda: bool(here.where("default/one")))
            [first] = here.where("default/one")
            here.lose(first)
            here.stage.now_s += 910
            for _ in range(60):
                await here.turn()
                here.stage.now_s += 20
                if len(here.where("default/one")) == 2:
                    break
            here.find(first, lambda write: fault if "delete" in write else None)
            if fault == "hangs":
                here.dispatcher.calls.open[first] = fleet.AT_ONE
            here.told.clear()
            here.begin()
            await here.until(lambda: "startTime" in here.api.job("one")["status"])
            if fault != "hangs":
                for _ in range(15):
                    await here.turn()
                    here.stage.now_s += 10
                assert here.told[0].startswith(f"MayRunTwice: cluster {first} does not delete an earlier copy of this")
                assert fault.removeprefix("broken: ") in here.told[0]
            here.finish()
            await here.until(here.over)

    play(scene())


def leave(here: Manager, name: str = "one") -> None:
    """Somebody deletes the copy, which a finalizer keeps."""
    for api in here.apis.values():
        if (copied := api.objects[JOBS].get(f"default/{name}")) is not None:
            meta = {
                **copied["metadata"],
                "finalizers": ["example.com/slow"],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            }
            api.put(JOBS, {**copied, "metadata": meta})
