"""Points 8, 9 and 12 of the protocol: what a started gang owns, who owns `suspend`, and when room is free."""

from __future__ import annotations

from phalanx.client.kind import JOBS, PODS
from phalanx.kube.gang.lifecycle.stages import Stage as Life
from tests.kube.double import job, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle


def test_finished_pods_make_room_and_the_finished_job_leaves() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("first", 4), job("second", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            assert stage.api.job("second")["spec"]["suspend"] is True
            stage.finish("first-1")
            stage.finish("first-2")
            await stage.until(lambda: len(stage.api.bound()) == 6)
            stage.finish("first-3")
            stage.finish("first-4")
            await stage.until(lambda: "default/first" not in stage.cluster.jobs)

    play(scene())


def test_the_next_completions_take_the_seats_of_those_that_are_done() -> None:
    """Parallelism 2, completions 6: two seats for the whole life, though another job waits for that room."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        rolling = job("r", 2)
        rolling["spec"]["completions"] = 6
        stage.put(rolling)
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.put(job("waits", 1))
            for done in range(1, 7):
                await stage.until(lambda done=done: f"r-{done}" in stage.api.bound())
                assert stage.api.job("waits")["spec"]["suspend"] is True or done > 5
                stage.finish(f"r-{done}")
            await stage.until(lambda: any(name.startswith("waits") for name in stage.api.bound()))

    play(scene())


def test_a_failed_pods_successor_takes_its_seat_ahead_of_the_queue() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 2)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.put(job("waits", 1))
            await settle(stage)
            stage.finish("j-1", "Failed")
            await stage.until(lambda: "j-3" in stage.api.bound())
            assert stage.api.job("waits")["spec"]["suspend"] is True

    play(scene())


def test_a_pod_rejected_by_its_kubelet_is_placed_anew() -> None:
    """Point 5: OutOfcpu fails the pod for good; its successor asks for a node again."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.finish("j-1", "Failed", "OutOfcpu")
            await stage.until(lambda: "j-3" in stage.api.bound())
            assert any(type(action).__name__ == "Place" for action in stage.actions)

    play(scene())


def test_less_parallelism_gives_seats_back() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 4))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.put(job("waits", 2))
            stage.change("j", {"parallelism": 2})
            for name in ("default/j-3", "default/j-4"):
                stage.api.drop(PODS, name)
            await stage.until(lambda: sum(n.startswith("waits") for n in stage.api.bound()) == 2)

    play(scene())


def test_more_parallelism_asks_for_the_difference() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.change("j", {"parallelism": 4, "completions": 4})
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())


def test_a_held_job_waits_and_says_so() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2, hold="true"))
        async with stage.scheduler():
            await settle(stage)
            assert stage.api.writes == []
            assert stage.reason("j").startswith("Held")

    play(scene())


def test_an_admitted_job_that_somebody_suspends_is_held_not_requeued() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.change("j", {"suspend": True})
            await stage.until(lambda: not stage.api.pods())
            await settle(stage)
            assert stage.phase("j") == "queued"
            assert "was suspended by another client" in stage.reason("j")
            assert stage.api.job("j")["spec"]["suspend"] is True

    play(scene())


def test_one_that_they_resume_again_is_started_again() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 2)
            stage.change("j", {"suspend": True})
            await stage.until(lambda: not stage.api.pods())
            await settle(stage)
            stage.change("j", {"suspend": False})
            await stage.until(lambda: len(stage.api.bound()) == 2)

    play(scene())


def test_a_job_resumed_without_us_waits_unbound_for_its_place() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("first", 4))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.put(job("j", 2))
            await settle(stage)
            stage.change("j", {"suspend": False})
            await settle(stage)
            assert len(stage.api.pods("j")) == 2
            assert len(stage.api.bound()) == 4
            for number in range(1, 5):
                stage.finish(f"first-{number}")
            await stage.until(lambda: len(stage.api.bound()) == 6)

    play(scene())


def test_a_job_that_another_controller_manages_is_left_alone() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        theirs = job("j", 2)
        theirs["spec"]["managedBy"] = "example.com/controller"
        stage.put(theirs)
        async with stage.scheduler():
            await settle(stage)
            assert stage.api.writes == []
            assert stage.cluster.jobs == {}

    play(scene())


def test_a_deleted_job_keeps_its_room_until_its_pods_are_gone() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.put(job("j", 4))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 4)
            stage.put(job("waits", 4))
            stage.controller.collects = False
            stage.api.drop(JOBS, "default/j")
            await settle(stage)
            assert stage.api.job("waits")["spec"]["suspend"] is True
            for name in list(stage.api.objects[PODS]):
                stage.api.drop(PODS, name)
            await stage.until(lambda: len(stage.api.bound()) == 4)

    play(scene())


def test_a_gang_that_is_deleted_before_it_starts_is_forgotten() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 1)])
        stage.put(job("j", 4))
        async with stage.scheduler():
            await settle(stage)
            stage.api.drop(JOBS, "default/j")
            await stage.until(lambda: not stage.cluster.jobs and not stage.world.gangs)

    play(scene())


def test_pod_by_pod_in_a_queue_that_says_so() -> None:
    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 3)], gang=False)
        stage.put(job("a", 2), job("b", 2))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            await settle(stage)
            assert {gang.state.stage for gang in stage.world.gangs.values()} == {Life.STARTING, Life.RUNNING}
            assert len(stage.api.bound()) == 3

    play(scene())
