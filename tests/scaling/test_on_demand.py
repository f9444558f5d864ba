"""Groups on demand: a job has its quota while another program finds nodes for it, and starts where it fits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from phalanx.loop import step
from phalanx.model.event import (
    Event,
    Finished,
    FlavorSeen,
    NodeGroupGone,
    NodeGroupSeen,
    NodeSeen,
    NodesNoted,
    QueueSeen,
    Submitted,
)
from phalanx.model.node import Flavor, Node, NodeGroup, OnDemand
from phalanx.model.plan import Plan, ReleaseNodes, RequestNodes, Start
from phalanx.model.pod import amounts
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueuePreemption, Quota, WithinQueue
from phalanx.model.reason import Reason, ReasonCode
from phalanx.report.forecast import forecast
from phalanx.state.cluster import Cluster
from tests.core.builders import job, node, role
from tests.invariants import check_invariants

POLICY = Policy()
GROUP = NodeGroup(
    name="prov",
    template=Node(name="prov", allocatable=amounts({"cpu": 8})),
    max_nodes=0,
    delay_s=0.0,
    timeout_s=1e6,
    idle_s=0.0,
    on_demand=OnDemand("default"),
)
QUEUE = Queue(name="default", quotas=(Quota(limit=amounts({"cpu": 8})),))


@dataclass
class Scene:
    cluster: Cluster = field(default_factory=Cluster)
    now_s: float = 1000.0

    def apply(self, plan: Plan) -> None:
        pass

    def step(self, *events: Event, later_s: float = 2.0) -> Plan:
        self.now_s += later_s
        plan = step(self.cluster, list(events), POLICY, self.now_s, self)
        check_invariants(self.cluster)
        return plan

    def played(self, *events: Event) -> list[object]:
        """All actions until nothing is due."""
        plan = self.step(*events)
        found = list(plan.actions)
        while plan.wake_s is not None and plan.wake_s <= self.now_s + 15.0:
            plan = self.step()
            found += plan.actions
        return found

    def code(self, name: str) -> ReasonCode | None:
        reason = self.cluster.reason(name)
        return None if reason is None else reason.code


def requested(actions: list[object]) -> list[str]:
    return [each.job for each in actions if isinstance(each, RequestNodes)]


def started(actions: list[object]) -> list[str]:
    return [each.job for each in actions if isinstance(each, Start)]


def begun() -> Scene:
    scene = Scene()
    one, two = (Submitted(job(name, role(count=2, cpu=3), at=at)) for at, name in enumerate(["one", "two"]))
    assert requested(scene.played(QueueSeen(QUEUE), NodeGroupSeen(GROUP), one, two)) == ["one"]
    return scene


def test_a_job_has_its_quota_while_nodes_are_found_for_it() -> None:
    scene = begun()
    assert (scene.code("one"), scene.code("two")) == (ReasonCode.WAITING_FOR_NODES, ReasonCode.QUEUE_LIMIT)
    reason = scene.cluster.reason("one")
    assert reason is not None
    assert reason.text.startswith("waits for nodes for 2 pods from prov, requested at ")
    assert reason.numbers["pods"] == [2]
    scene.played(NodesNoted("one", "Accepted"))
    assert (scene.cluster.reason("one") or reason).text.endswith(": Accepted")


def test_a_job_starts_on_nodes_that_come_and_its_request_ends() -> None:
    scene = begun()
    assert started(scene.played(NodeSeen(node("n1", cpu=3)))) == [], "half a gang has nodes"
    actions = scene.played(NodeSeen(node("n2", cpu=3)))
    assert started(actions) == ["one"]
    assert [each.group for each in actions if isinstance(each, ReleaseNodes)] == ["prov"]
    assert not scene.cluster.columns.groups.coming
    assert scene.code("two") is ReasonCode.QUEUE_LIMIT


def test_a_start_is_expected_only_once_the_nodes_are_promised() -> None:
    scene = begun()
    assert forecast(scene.cluster, POLICY, scene.now_s, ["one"]) == {}
    scene.played(NodesNoted("one", "Provisioned", granted=True))
    assert list(forecast(scene.cluster, POLICY, scene.now_s, ["one"])) == ["one"]


def test_a_job_that_is_held_gives_its_quota_to_the_next() -> None:
    scene = begun()
    held = replace(job("one", role(count=2, cpu=3)), blocked=Reason(code=ReasonCode.HELD, text="by a user"))
    actions = scene.played(Submitted(held))
    assert requested(actions) == ["two"]
    assert scene.code("two") is ReasonCode.WAITING_FOR_NODES


@pytest.mark.parametrize(
    "wants",
    [OnDemand("other"), OnDemand("default", resources=("nvidia.com/gpu",)), OnDemand("default", flavors=("f",))],
)
def test_a_group_is_for_its_queue_flavors_and_resources(wants: OnDemand) -> None:
    scene = Scene()
    group = NodeGroup(name="prov", template=GROUP.template, max_nodes=0, on_demand=wants)
    one = Submitted(job("one", role(cpu=3)))
    assert requested(scene.played(QueueSeen(QUEUE), NodeGroupSeen(group), one)) == []


def test_when_the_group_goes_its_jobs_wait_as_others_do() -> None:
    scene = begun()
    scene.played(NodeGroupGone("prov"))
    assert scene.code("one") is ReasonCode.NO_NODE_MATCHES
    assert not scene.cluster.columns.groups.coming


def test_once_nodes_are_granted_the_first_are_kept_for_the_job() -> None:
    scene = begun()
    small = Submitted(job("small", role(cpu=1)))
    other = replace(QUEUE, name="other")
    scene.played(NodesNoted("one", "Provisioned", granted=True), NodeSeen(node("n1", cpu=3)))
    assert {*scene.cluster.jobs["one"].nominated.values()} == {"n1", "prov/one"}
    assert started(scene.played(QueueSeen(other), replace(small, job=replace(small.job, queue="other")))) == []
    assert started(scene.played(NodeSeen(node("n2", cpu=3)))) == ["one"]
    assert started(scene.played(NodeSeen(node("n3", cpu=3)))) == ["small"]


def test_without_a_grant_other_jobs_may_use_free_nodes() -> None:
    scene = begun()
    scene.played(QueueSeen(replace(QUEUE, name="other")), NodeSeen(node("n1", cpu=3)))
    small = job("small", role(cpu=1), queue="other")
    assert started(scene.played(Submitted(small))) == ["small"]


def test_a_node_that_is_kept_and_lost_is_kept_no_more() -> None:
    scene = begun()
    lost = node("n1", cpu=3)
    scene.played(NodesNoted("one", "Provisioned", granted=True), NodeSeen(lost))
    scene.played(NodeSeen(replace(lost, ready=False)))
    assert {*scene.cluster.jobs["one"].nominated.values()} == {"prov/one"}
    assert started(scene.played(NodeSeen(node("n2", cpu=6)))) == ["one"]


@pytest.mark.parametrize("within", [WithinQueue.LOWER, WithinQueue.NEVER])
def test_a_job_of_higher_priority_takes_the_quota_if_its_queue_may_preempt(within: WithinQueue) -> None:
    scene = begun()
    queue = replace(QUEUE, preemption=QueuePreemption(within=within))
    high = Submitted(job("high", role(count=2, cpu=4), at=2.0, priority=9))
    actions = scene.played(QueueSeen(queue), high)
    if within is WithinQueue.NEVER:
        assert requested(actions) == []
        assert scene.code("one") is ReasonCode.WAITING_FOR_NODES
        return
    assert requested(actions) == ["high"]
    assert (scene.code("high"), scene.code("one")) == (ReasonCode.WAITING_FOR_NODES, ReasonCode.QUEUE_LIMIT)


def test_a_job_of_higher_priority_that_needs_more_than_all_quota_takes_none() -> None:
    scene = begun()
    queue = replace(QUEUE, preemption=QueuePreemption(within=WithinQueue.LOWER))
    assert requested(scene.played(QueueSeen(queue), Submitted(job("huge", role(cpu=9), at=2.0, priority=9)))) == []
    assert scene.code("one") is ReasonCode.WAITING_FOR_NODES


def test_nodes_are_requested_for_a_job_when_it_has_waited_long_enough() -> None:
    scene = Scene()
    patient = replace(job("patient", role(cpu=3), at=1000.0), nodes_after_s=60.0)
    events = QueueSeen(QUEUE), NodeGroupSeen(GROUP), Submitted(patient), Submitted(job("other", role(cpu=3)))
    assert requested(scene.played(*events)) == ["other"]
    plan = scene.step()
    assert plan.wake_s == 1060.0
    scene.now_s = 1059.0
    assert requested(list(scene.step().actions)) == ["patient"]


@pytest.mark.parametrize("flavor", ["", "f"])
@pytest.mark.parametrize("asks", [{"cpu": 1}, {"cpu": 1, "gpu": 1}, {"cpu": 4}])
def test_nodes_are_requested_for_a_job_that_waited_for_the_quota_of_an_ended_job(
    asks: dict[str, int], flavor: str
) -> None:
    """The present nodes are too few for the job, or of another kind, or too small."""
    scene, seen = Scene(), [FlavorSeen(Flavor(name="f")), NodeGroupSeen(GROUP)]
    limit = amounts({"cpu": 8, "gpu": 8})
    seen.append(QueueSeen(replace(QUEUE, quotas=(Quota(flavor=flavor, limit=limit),))))
    assert requested(scene.played(*seen, Submitted(job("one", role(count=2, cpu=3))))) == ["one"]
    scene.played(Submitted(job("large", role(count=8 // asks["cpu"], **asks), at=3.0)))
    assert scene.code("large") is ReasonCode.QUEUE_LIMIT
    assert started(scene.played(*(NodeSeen(node(f"n{at}", cpu=3)) for at in range(2)))) == ["one"]
    assert requested(scene.played(Finished("one"))) == ["large"]
