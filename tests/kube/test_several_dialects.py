"""Queues of several schedulers in one tree: docs/dialects/several.md."""

from __future__ import annotations

from phalanx.client.kind import NAMESPACES
from phalanx.dialects.kueue import kinds as kueue
from phalanx.dialects.volcano import kinds as volcano
from phalanx.kube.install.definitions import QUEUES
from tests.dialects.kueue.written import cluster_queue, local_queue, named
from tests.dialects.kueue.written import group as resources
from tests.kube.double import node
from tests.kube.stage import Stage
from tests.kube.test_bind_barrier import play, settle
from tests.kube.test_kueue import job
from tests.kube.test_volcano import group, member, reason

ON = frozenset({kueue.NAME, volcano.NAME})


def test_a_volcano_queue_below_a_cohort_borrows_and_gives_back() -> None:
    """A Queue of Phalanx joins them: its parent is the Cohort, and it is the parent of Volcano's Queue."""

    async def scene() -> None:
        stage = Stage(nodes=[node("n1", 4)], dialects=ON)
        stage.api.put(NAMESPACES, named("default"))
        stage.api.put(kueue.RESOURCE_FLAVORS, named("f", spec={}))
        stage.api.put(kueue.COHORTS, named("all", spec={}))
        reclaim = {"reclaimWithinCohort": "Any"}
        research = cluster_queue("research", resources(f={"cpu": 3}), cohortName="all", preemption=reclaim)
        stage.api.put(kueue.CLUSTER_QUEUES, research)
        stage.api.put(kueue.LOCAL_QUEUES, local_queue("l", "research"))
        stage.api.put(QUEUES, named("team", spec={"parent": "cohort/all"}))
        stage.api.put(volcano.QUEUES, named("training", spec={"parent": "team"}))
        for name in ("a", "b", "c", "d"):
            group(stage, name, queue="training")
            stage.put(member(name, name))
        async with stage.scheduler():
            await stage.until(lambda: len(stage.api.bound()) == 3)
            await settle(stage)
            assert reason(stage, "d").startswith(
                "QueueLimit: 1 cpu on resourceflavor/f asked, but queue 'cohort/all'"
            )  # node n1 has room, the cohort has not
            stage.put(job("theirs", 2))
            await stage.until(lambda: len([name for name in stage.api.bound() if name.startswith("theirs")]) == 2)
            await stage.until(lambda: len(set(stage.api.bound()) & {"a", "b", "c", "d"}) == 1)

    play(scene())
