"""Find the jobs that wait for nodes and that their quotas admit together."""

from __future__ import annotations

from dataclasses import replace

from phalanx.loop import step
from phalanx.model.event import NodeSeen, Opened, QueueSeen, Started, Submitted
from phalanx.model.job import Slot
from phalanx.model.plan import Plan
from phalanx.model.pod import amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueueOrder, Quota
from phalanx.scaling.waiting import CLASSES, admitted_together
from phalanx.state.cluster import Cluster
from tests.core.builders import job, node, role

POLICY, NOW_S = Policy(), 1000.0


class Nothing:
    def apply(self, plan: Plan) -> None:
        pass


def waiting(*jobs: Submitted, limit: int = 24) -> Cluster:
    """Return a cluster without nodes in which the jobs wait."""
    cluster = Cluster()
    queue = Queue(name="default", quotas=(Quota(limit=amounts({"cpu": limit})),))
    step(cluster, [QueueSeen(queue), *jobs], POLICY, NOW_S, Nothing())
    return cluster


def gang(name: str, pods: int, priority: int = 0, nodes_after_s: float = 0.0) -> Submitted:
    found = job(name, role(count=pods, cpu=8), at=NOW_S - 30.0, priority=priority)
    return Submitted(replace(found, nodes_after_s=nodes_after_s))


def admitted(cluster: Cluster, *names: str) -> set[str]:
    return set(admitted_together(cluster, POLICY, NOW_S, names))


def test_a_quota_admits_the_job_of_higher_priority_alone() -> None:
    cluster = waiting(gang("low", 2), gang("high", 3, priority=1))
    assert admitted(cluster, "low", "high") == {"high"}


def test_jobs_that_fit_together_are_all_admitted() -> None:
    cluster = waiting(gang("a", 2), gang("b", 1))
    assert admitted(cluster, "a", "b") == {"a", "b"}


def test_a_smaller_job_behind_a_denied_one_is_admitted() -> None:
    cluster = waiting(gang("first", 2, priority=2), gang("large", 3, priority=1), gang("small", 1))
    assert admitted(cluster, "first", "large", "small") == {"first", "small"}


def test_jobs_that_are_not_asked_about_take_no_quota() -> None:
    cluster = waiting(gang("suspended", 3, priority=1), gang("bare", 2))
    assert admitted(cluster, "bare") == {"bare"}


def test_a_job_is_left_out_as_long_as_it_delays_its_nodes() -> None:
    cluster = waiting(gang("later", 1, nodes_after_s=60.0))
    assert admitted(cluster, "later") == set()
    assert admitted_together(cluster, POLICY, NOW_S + 40.0, ["later"]) == {"later"}


def test_unknown_jobs_are_ignored() -> None:
    assert admitted(waiting(), "gone") == set()


def test_classes_without_quota_hide_no_other_job() -> None:
    large = [gang(f"large-{number}", 4 + number, priority=1) for number in range(CLASSES)]
    cluster = waiting(*large, gang("small", 1))
    assert "small" in admitted(cluster, "small", *(each.job.id for each in large))


def test_pods_above_a_minimum_are_admitted_too() -> None:
    elastic = job("elastic", role(count=3, minimum=1, cpu=8), at=NOW_S - 30.0)
    cluster = Cluster()
    queue = Queue(name="default", quotas=(Quota(limit=amounts({"cpu": 24})),))
    step(cluster, [QueueSeen(queue), NodeSeen(node("n", cpu=8)), Submitted(elastic)], POLICY, NOW_S, Nothing())
    slots = Slot(0, 1), Slot(0, 2)
    step(cluster, [Started("elastic", 1), Opened("elastic", slots)], POLICY, NOW_S, Nothing())
    assert admitted(cluster, "elastic") == {"elastic"}


def test_of_a_strict_queue_the_first_job_alone_may_be_admitted() -> None:
    cluster = Cluster()
    strict = Queue(name="default", order=QueueOrder.FIFO, strict=True)
    later = gang("later", 1, nodes_after_s=60.0)
    step(cluster, [QueueSeen(strict), later, gang("second", 1)], POLICY, NOW_S, Nothing())
    assert admitted(cluster, "later", "second") == set()
