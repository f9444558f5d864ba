"""Preempted pods that their controller replaces under the same names: their former nodes belong to the preemptor."""

from __future__ import annotations

import pytest

from phalanx.client.kind import JOBS
from phalanx.dialects.volcano.kinds import QUEUES as VOLCANO_QUEUES
from phalanx.kube.install.definitions import QUEUES
from tests.kube import double, test_kai, test_volcano
from tests.kube.double import Object, node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle

NODES, CPU = 2, 8
PREEMPTS = {"gang": True, "preemption": {"within": "lower"}}


class Maker:
    """Replace pods under the same names as soon as they are deleted, as Volcano's Job controller and others do.
    `ended`: pods that are not replaced."""

    def __init__(self, stage: Stage, pods: list[Object]) -> None:
        self.stage, self.pods = stage, pods
        self.ended: set[str] = set()
        stage.put(*pods)

    def turn(self) -> None:
        there = {one["metadata"]["name"] for one in self.stage.api.pods()}
        missing = [one for one in self.pods if one["metadata"]["name"] not in there | self.ended]
        self.stage.put(*missing)


def volcano() -> Stage:
    stage = Stage(nodes=[node(f"n{n}", CPU) for n in range(NODES)], dialects=test_volcano.ON)
    for name in ("vq", "vq2"):
        stage.api.put(VOLCANO_QUEUES, {"metadata": {"name": name}, "spec": {"deserved": {"cpu": NODES * CPU // 2}}})
    return stage


def member(name: str, group: str, cpu: str = "2") -> Object:
    return test_volcano.member(name, group, cpu)


def overfull(stage: Stage) -> list[str]:
    """Nodes on which more is bound than they have."""
    held: dict[str, int] = {}
    for one in stage.api.pods():
        if one["spec"].get("nodeName") and one["status"]["phase"] in {"Pending", "Running"}:
            asked = one["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            held[one["spec"]["nodeName"]] = held.get(one["spec"]["nodeName"], 0) + int(asked)
    return [name for name, cpu in held.items() if cpu > CPU]


def assert_settled(stage: Stage) -> None:
    """Nothing is promised or on its way, and no node is overfull."""
    assert not stage.cluster.nominated
    assert not stage.cluster.leaving
    assert overfull(stage) == []


def of(stage: Stage, prefix: str) -> list[str]:
    return sorted(name for name in stage.api.bound() if name.startswith(prefix))


def wide(stage: Stage) -> Maker:
    """A gang that takes all there is, and can do with two pods."""
    test_volcano.group(stage, "wide", minMember=2, queue="vq", minResources={"cpu": 4})
    return Maker(stage, [member(f"wide-{number}", "wide") for number in range(8)])


def claim(stage: Stage, kind: str) -> None:
    if kind == "a Job":
        stage.put(double.job("claimant", 3, "2", queue="vq2"))
        return
    test_volcano.group(stage, "claimant", minMember=3, queue="vq2")
    stage.put(*(member(f"claimant-{number}", "claimant") for number in range(3)))


async def turns(stage: Stage, maker: Maker, count: int) -> None:
    for _ in range(count):
        maker.turn()
        await stage.turn()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("claimant", ["a PodGroup", "a Job"])
def test_what_an_elastic_gang_gave_up_is_the_claimants(claimant: str, restarted: bool) -> None:
    """Its group declares the amounts of the whole gang, so its creator replaces lost pods, and capacity is released
    later."""

    async def scene() -> None:
        stage = volcano()
        maker = wide(stage)
        async with stage.scheduler():
            await stage.until(lambda: len(of(stage, "wide")) == 8)
            claim(stage, claimant)
            stage.controller.slow = restarted
            await turns(stage, maker, 10)
        async with stage.scheduler():
            stage.controller.slow = False
            await turns(stage, maker, 40)
            assert (len(of(stage, "claimant")), len(of(stage, "wide"))) == (3, 5)
            assert len(stage.cluster.jobs["default/podgroup:wide"].placements) == 5
            assert_settled(stage)
            for name in of(stage, "claimant"):
                stage.finish(name)
            await turns(stage, maker, 20)
            assert len(of(stage, "wide")) == 8

    play(scene())


@pytest.mark.parametrize("anew", [False, True])
def test_workers_that_give_way_are_not_counted_whether_they_are_made_anew_or_not(anew: bool) -> None:
    """KAI keeps the node of a failed worker, because its controller replaces it, and not the node of a preempted
    worker."""

    async def scene() -> None:
        stage = Stage(nodes=[node(f"n{n}", CPU) for n in range(NODES)], dialects=test_kai.ON)
        stage.controller.collects = False  # the workers' owner is not there
        for name in ("kq", "kq2"):
            test_kai.queue(stage, name, cpu={"quota": 8000, "limit": -1, "overQuotaWeight": 1})
        maker = Maker(stage, [test_kai.pod(f"wide-{n}", "2", owner="PyTorchJob/wide", queue="kq") for n in range(8)])
        async with stage.scheduler():
            await stage.until(lambda: len(of(stage, "wide")) == 8)
            maker.ended = set() if anew else {one["metadata"]["name"] for one in maker.pods}
            for number in range(6):
                test_kai.pod_group(stage, f"c{number}", minMember=4, queue="kq2")
                stage.put(*(test_kai.pod(f"c{number}-{n}", "2", group=f"c{number}") for n in range(4)))
            await turns(stage, maker, 40)
            assert (len(of(stage, "c")), len(of(stage, "wide"))) == (4, 4)
            placed = [each for job in stage.cluster.jobs.values() for each in job.placements]
            assert len(placed) == len(stage.api.bound())
            assert_settled(stage)

    play(scene())


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_that_gave_up_pods_grows_again_when_the_claimant_is_gone(restarted: bool) -> None:
    """The capacity of a terminating pod is free when the pod is deleted."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)])
        stage.api.put(QUEUES, {"metadata": {"name": "default"}, "spec": PREEMPTS})
        stage.put(double.job("wide", 4, min_available="2"))
        async with stage.scheduler():
            await stage.until(lambda: len(of(stage, "wide")) == 4)
            stage.controller.slow = True
            claimant = double.job("claimant", 2)
            claimant["spec"]["template"]["spec"]["priority"] = 10
            stage.put(claimant)
            await settle(stage)
            assert stage.api.job("wide")["spec"]["parallelism"] == 2
            stage.api.drop(JOBS, "default/claimant")
            if not restarted:
                await gone(stage)
        if restarted:
            async with stage.scheduler():
                await gone(stage)

    async def gone(stage: Stage) -> None:
        await settle(stage, 4)
        stage.controller.slow = False
        await stage.until(lambda: len(stage.cluster.jobs["default/wide"].placements) == 2)
        stage.now_s += stage.timeouts.regrow_s + 1.0
        await stage.until(lambda: len(of(stage, "wide")) == 4)

    play(scene())
