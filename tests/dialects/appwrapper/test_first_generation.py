"""MCAD's AppWrapper: its phases, its requests, and its quota trees."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.appwrapper import kinds, quota_trees
from phalanx.dialects.appwrapper.generic_items import demand, read
from phalanx.dialects.appwrapper.job_form import APP_WRAPPER
from phalanx.dialects.frame.dialect import Claim, Object, Said
from phalanx.embedded.controllers.operators.appwrapper.first_generation import step
from phalanx.embedded.controllers.operators.appwrapper.phases import Do, PhaseStep, Seen
from phalanx.model.queue import Quota

NOW_S = 1_000_000.0
DEMAND: Object = {"totalcpu": 500, "totalmemory": 0, "totalgpu": 0}
POD = {
    "restartPolicy": "Never",
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}],
}


def job(name: str = "j") -> Object:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": POD}}}


def wrapper(*items: Object, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    meta = {"name": "aw", "namespace": "space", "uid": "u", "labels": labels or {}}
    return {"metadata": meta, "spec": {"suspend": True, "resources": {"GenericItems": list(items)}, **spec}}


def pods(**phases: int) -> list[Object]:
    return [
        {"metadata": {"name": "p"}, "status": {"phase": name}} for name, count in phases.items() for _ in range(count)
    ]


class Play:
    """An AppWrapper that is looked at again and again."""

    def __init__(self, *items: Object, **spec: Any) -> None:
        self.spec, self.status, self.now_s = wrapper(*items, **spec)["spec"], dict[str, Any](), NOW_S

    def look(self, seen: Seen, *, suspended: bool = False, later_s: float = 0.0) -> PhaseStep:
        self.now_s += later_s
        found = step(self.status, self.spec, DEMAND, suspended, seen, self.now_s)
        self.status = found.status
        return found

    def dispatched(self, seen: Seen) -> None:
        self.look(Seen(pods=[], expected=1), suspended=True)
        self.look(Seen(pods=[], expected=1, missing=["Job j"]))
        self.look(seen)

    @property
    def states(self) -> tuple[str, str]:
        return self.status["state"], self.status["queuejobstate"]

    @property
    def last(self) -> tuple[str, str]:
        said = self.status["conditions"][-1]
        return said["type"], said.get("reason", "")


RUNNING = Seen(pods=pods(Running=1), expected=1, components=[job()], there=True)


def test_it_waits_says_so_and_is_created_when_it_is_let_go() -> None:
    play = Play({"generictemplate": job()}, schedulingSpec={"minAvailable": 1}, priority=9)
    absent = Seen(pods=[], expected=1, missing=["Job j"], components=[None])
    play.look(absent, suspended=True)
    assert play.states == ("Pending", "Queueing")
    assert (play.status["systempriority"], play.status["template"], play.status["totalcpu"]) == (9, 1, 500)
    play.look(absent, suspended=True, later_s=2.0)
    assert play.last == ("Backoff", "AppWrapperNotRunnable.")
    assert "Insufficient" in play.status["conditions"][-1]["message"], "InstaScale looks for this word"
    assert play.look(absent).do is Do.CREATE
    assert (play.states, play.status["canrun"]) == (("Running", "Dispatched"), True)
    play.look(RUNNING)
    assert (play.last, play.status["running"]) == (("Running", "PodsRunning"), 1)


def test_it_is_complete_when_all_items_that_name_conditions_have_one() -> None:
    item = {"generictemplate": job(), "completionstatus": "Complete"}
    play = Play(item, {"generictemplate": job("k")})
    play.dispatched(RUNNING)
    done: Object = {
        **job(),
        "status": {"conditions": [{"type": "SuccessCriteriaMet"}, {"type": "Complete", "status": "False"}]},
    }
    play.look(Seen(pods=pods(Running=1, Succeeded=1), expected=2, components=[done, job("k")], there=True))
    assert play.states == ("RunningHoldCompletion", "RunningHoldCompletion")
    play.look(Seen(pods=pods(Succeeded=2), expected=2, components=[done, job("k")], there=True))
    assert (play.states, play.last) == (("Completed", "Completed"), ("Completed", "PodsCompleted"))
    silent = Play({"generictemplate": job()})
    silent.dispatched(RUNNING)
    silent.look(Seen(pods=pods(Succeeded=1), expected=1, components=[done], there=True))
    assert silent.states[0] == "Running", "whose items name no condition is never complete"


def test_it_is_made_again_while_too_few_pods_run_each_time_later() -> None:
    requeuing = {"timeInSeconds": 10, "maxTimeInSeconds": 15, "maxNumRequeuings": 2}
    play = Play({"generictemplate": job()}, schedulingSpec={"minAvailable": 1, "requeuing": requeuing})
    stuck = Seen(pods=pods(Pending=1), expected=1, components=[job()], there=True)
    gone = Seen(pods=[], expected=1, missing=["Job j"], components=[None])
    play.dispatched(stuck)
    assert play.look(stuck, later_s=9.0).do is Do.NOTHING
    for time_s in (15, 15):
        play.look(stuck, later_s=16.0)
        assert (play.status["state"], play.last) == ("Pending", ("PreemptCandidate", "MinPodsNotRunning"))
        assert play.status["requeueingTimeInSeconds"] == time_s
        assert play.look(stuck).do is Do.DELETE
        assert play.look(gone).do is Do.CREATE
    play.look(stuck, later_s=16.0)
    assert (play.status["state"], play.status["numberOfRequeueings"]) == ("Deleted", 2)
    assert play.look(stuck).do is Do.DELETE


def test_its_time_ends_it_and_giving_way_makes_it_wait() -> None:
    play = Play({"generictemplate": job()}, schedulingSpec={"dispatchDuration": {"limit": 60}})
    play.dispatched(RUNNING)
    play.look(RUNNING, suspended=True)
    assert play.last == ("Preempted", "PreemptionTriggered")
    assert play.look(RUNNING, suspended=True).do is Do.DELETE
    assert play.look(Seen(pods=[], expected=1, missing=["Job j"])).do is Do.CREATE
    play.look(RUNNING, later_s=61.0)
    assert (play.states[0], play.last) == ("Failed", ("PreemptCandidate", "DispatchDeadlineExceeded"))
    assert play.look(RUNNING).do is Do.DELETE


def test_what_cannot_be_created_fails_it_and_what_has_no_pods_does_not_wait() -> None:
    play = Play({"generictemplate": job()})
    play.dispatched(Seen(pods=[], expected=1, missing=["Job j"], fault="forbidden", fatal=True))
    assert (play.states[0], play.last) == ("Failed", ("Failed", "CreateFailed"))
    free = Play({"generictemplate": {"kind": "Service"}})
    free.look(Seen(pods=[], expected=0, missing=["Service"]), suspended=True)
    assert free.look(Seen(pods=[], expected=0, missing=["Service"]), suspended=True).do is Do.CREATE


def test_its_pods_are_found_where_mcad_finds_them_and_labelled_as_mcad_labels_them() -> None:
    custom = {
        "apiVersion": "x/v1",
        "kind": "Odd",
        "metadata": {"name": "o"},
        "spec": {"replicas": 3, "template": {"spec": POD}},
    }
    aw = wrapper({"generictemplate": job()}, {"generictemplate": custom}, schedulingSpec={"nodeSelector": {"a": "b"}})
    aw["spec"]["resources"]["GenericItems"].append({"generictemplate": {"kind": "Service"}})
    first, second, service = read(aw)["spec"]["components"]
    want = {"appwrapper.mcad.ibm.com": "aw", "resourceName": "j"}
    assert first["template"]["metadata"]["labels"] == want
    assert first["template"]["spec"]["template"]["metadata"]["labels"] == want
    assert second["template"]["spec"]["template"]["spec"]["nodeSelector"] == {"a": "b"}
    assert [(APP_WRAPPER.view(aw, role)["spec"]["parallelism"]) for role in APP_WRAPPER.roles(aw)] == [1, 3]
    assert service["template"]["metadata"]["labels"]["resourceName"] == "", (
        "it has no pods, and is wrapped all the same"
    )
    assert demand(aw["spec"]) == {"totalcpu": 2000, "totalmemory": 0, "totalgpu": 0}
    asked = {"replicas": 2, "requests": {"cpu": 1, "nvidia.com/gpu": 0}, "limits": {"cpu": 2, "nvidia.com/gpu": 4}}
    said = wrapper({"generictemplate": job(), "custompodresources": [asked]})["spec"]
    assert demand(said) == {"totalcpu": 2000, "totalmemory": 0, "totalgpu": 8}


def test_its_priority_is_that_of_its_pods_to_the_queue() -> None:
    view = APP_WRAPPER.view(wrapper({"generictemplate": job()}, priority=-5), "0-0")
    assert view["spec"]["template"]["spec"]["priority"] == -5


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ({"state": "Completed"}, "Complete"),
        ({"state": "Failed"}, "Failed"),
        ({"state": "Running", "Succeeded": 1}, "Complete"),
        ({"state": "Running", "Succeeded": 1, "running": 1}, ""),
        ({"state": "Pending"}, ""),
    ],
)
def test_its_room_is_free_when_its_pods_are_done(status: Object, ended: str) -> None:
    view = APP_WRAPPER.view({**wrapper({"generictemplate": job()}), "status": status}, "0-0")
    assert [one["type"] for one in view["status"]["conditions"]] == ([ended] if ended else [])


def subtree(tree: str, parent: str, **nodes: Object) -> Object:
    children = [{"name": name, "quotas": quotas} for name, quotas in nodes.items()]
    spec = {"children": children, **({"parent": parent} if parent else {})}
    return {"metadata": {"labels": {"tree": tree}}, "spec": spec}


def test_trees_of_quotas_are_queues_and_labels_say_which() -> None:
    soft, hard = {"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}, "hardLimit": True}
    objects = {
        kinds.QUOTA_SUBTREES: {
            "kube-system/root": subtree("team", "", root={"requests": {"cpu": "4"}}),
            "kube-system/below": subtree("team", "root", gold=soft, bronze=hard, default={"requests": {"cpu": 0}}),
        },
        kinds.IBM_QUOTA_SUBTREES: {"kube-system/other": subtree("use", "", prod=soft)},
    }
    defined = quota_trees.define(objects)
    queues = {queue.name: queue for queue in defined.queues}
    assert queues["quotasubtree/team/gold"].parent == "quotasubtree/team/root"
    assert queues["quotasubtree/team/gold"].quotas == (Quota(guaranteed=(("cpu", 1000),)),)
    assert queues["quotasubtree/team/bronze"].quotas[0].limit == (("cpu", 2000),)
    assert queues["quotasubtree/team/root"].quotas[0].limit == (("cpu", 4000),), "a root has nobody to borrow from"

    def of(**labels: str) -> Claim | None:
        view = APP_WRAPPER.view(wrapper({"generictemplate": job()}, labels=labels), "0-0")
        queue = view["metadata"]["labels"]["phalanx.dev/queue"]
        return quota_trees.claim(defined, Said(gang="g", namespace="space", queue=queue, options={}))

    assert of(team="gold") == Claim(queue="quotasubtree/team/gold")
    assert of(use="prod", app="x") == Claim(queue="quotasubtree/use/prod")
    assert of() == Claim(queue="quotasubtree/team/default")
    assert quota_trees.claim(defined, Said(gang="g", namespace="s", queue="clusterqueue/x", options={})) is None
    nobody = Said(gang="g", namespace="s", queue=kinds.labels_queue({"team": "gold"}), options={})
    assert quota_trees.claim(quota_trees.define({}), nobody) == Claim(queue=""), "without trees: the default queue"
