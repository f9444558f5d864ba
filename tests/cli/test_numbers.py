"""The numbers that the user of a job may see about it."""

from __future__ import annotations

from dataclasses import replace

from phalanx.cli.cluster.numbers.answering import answer, job_numbers, source_of
from phalanx.cli.cluster.numbers.fetching import standing_of
from phalanx.loop import step
from phalanx.model.event import NodeSeen, QueueSeen, Submitted
from phalanx.model.job import Job
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, Quota
from phalanx.report.queue_status import queue_statuses
from phalanx.state.cluster import Cluster
from tests.core.builders import job, node, role


class Nothing:
    def apply(self, *_: object) -> None:
        """Nobody carries the plan out."""


def of(name: str, user: str, pods: int, submitted_s: float, queue: str = "lab") -> Job:
    return replace(job(name, role("main", pods, cpu=1000), queue=queue), user=user, submitted_s=submitted_s)


def cluster() -> Cluster:
    """Four cpus, all of them eve's; two jobs of bob wait behind one of eve."""
    found = Cluster()
    events = [
        NodeSeen(node("n1", cpu=4000)),
        QueueSeen(Queue(name="lab", quotas=(Quota(guaranteed=(("cpu", 2000),), limit=(("cpu", 8000),)),))),
        QueueSeen(Queue(name="idle", quotas=(Quota(guaranteed=(("cpu", 1000),)),))),
        Submitted(of("eve/runs", "eve", 4, 1.0)),
    ]
    step(found, events, Policy(), 10.0, Nothing())
    late = [of("eve/next", "eve", 3, 2.0), of("bob/one", "bob", 2, 3.0), of("bob/two", "bob", 1, 4.0)]
    step(found, [Submitted(one) for one in late], Policy(), 20.0, Nothing())
    return found


def test_position_and_demand_ahead_are_those_of_the_queues_order() -> None:
    numbers = {one.job: one for one in job_numbers(cluster(), ["bob/two", "bob/one", "eve/runs", "bob/gone"])}
    assert set(numbers) == {"bob/two", "bob/one", "eve/runs"}
    two, runs = numbers["bob/two"], numbers["eve/runs"]
    assert (two.position, two.waiting, two.ahead.jobs, two.ahead.pods) == (3, 3, 2, 5)
    assert two.ahead.amounts["cpu"] == 5000
    assert (two.own_running.jobs, two.own_waiting.jobs) == (0, 2)
    assert (runs.position, runs.own_running.amounts["cpu"]) == (0, 4000)


def test_an_answer_names_no_other_job_and_no_user() -> None:
    state = cluster()
    source = source_of(state, list(queue_statuses(state)), state.reason)
    everything = answer(source, ("v1", "namespaces", "bob", "jobs", "-", "reason"))
    assert [one["metadata"]["name"] for one in everything["items"]] == ["one", "two"]
    assert everything["items"][0]["reason"]["code"] == "NoRoom"
    assert "eve" not in str(everything)
    assert answer(source, ("v1", "namespaces", "bob", "jobs", "runs", "reason"))["code"] == 404
    assert answer(source, ("v2", "queues", "-", "summary"))["code"] == 404


def test_a_summary_says_what_is_used_guaranteed_and_lendable() -> None:
    state = cluster()
    source = source_of(state, list(queue_statuses(state)), state.reason)
    lab = answer(source, ("v1", "queues", "lab", "summary"))
    cpu = next(one for one in lab["usage"] if one["resource"] == "cpu")
    assert cpu == {
        "flavor": "",
        "resource": "cpu",
        "used": "4",
        "guaranteed": "2",
        "limit": "8",
        "borrowed": "2",
        "lendable": "0",
    }
    [idle, _] = answer(source, ("v1", "queues", "-", "summary"))["items"]
    assert idle["usage"][0]["lendable"] == "1"
    back = standing_of(lab)
    status = next(one for one in source.standings if one.queue == "lab")
    assert (back.running, back.pending, back.usage[0].used) == (status.running, status.pending, 4000)
