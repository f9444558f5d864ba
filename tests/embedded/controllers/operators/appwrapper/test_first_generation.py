"""MCAD's AppWrapper: its phases, its requests, and its quota trees."""

from __future__ import annotations

from typing import Any

from phalanx.dialects.frame.dialect import Object
from phalanx.embedded.controllers.operators.appwrapper.first_generation import step
from phalanx.embedded.controllers.operators.appwrapper.phases import Do, ObservedComponents, PhaseStep
from tests.dialects.job_kinds.appwrapper.wrappers import job, wrapper

NOW_S = 1_000_000.0
DEMAND: Object = {"totalcpu": 500, "totalmemory": 0, "totalgpu": 0}


def pods(**phases: int) -> list[Object]:
    return [
        {"metadata": {"name": "p"}, "status": {"phase": name}} for name, count in phases.items() for _ in range(count)
    ]


class Play:
    """An AppWrapper that is looked at again and again."""

    def __init__(self, *items: Object, **spec: Any) -> None:
        self.spec, self.status, self.now_s = wrapper(*items, **spec)["spec"], dict[str, Any](), NOW_S

    def look(self, seen: ObservedComponents, *, suspended: bool = False, later_s: float = 0.0) -> PhaseStep:
        self.now_s += later_s
        found = step(self.status, self.spec, DEMAND, suspended, seen, self.now_s)
        self.status = found.status
        return found

    def dispatched(self, seen: ObservedComponents) -> None:
        self.look(ObservedComponents(pods=[], expected=1), suspended=True)
        self.look(ObservedComponents(pods=[], expected=1, missing=["Job j"]))
        self.look(seen)

    @property
    def states(self) -> tuple[str, str]:
        return self.status["state"], self.status["queuejobstate"]

    @property
    def last(self) -> tuple[str, str]:
        said = self.status["conditions"][-1]
        return said["type"], said.get("reason", "")


RUNNING = ObservedComponents(pods=pods(Running=1), expected=1, components=[job()], there=True)


def test_it_waits_says_so_and_is_created_when_it_is_let_go() -> None:
    play = Play({"generictemplate": job()}, schedulingSpec={"minAvailable": 1}, priority=9)
    absent = ObservedComponents(pods=[], expected=1, missing=["Job j"], components=[None])
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
    play.look(
        ObservedComponents(pods=pods(Running=1, Succeeded=1), expected=2, components=[done, job("k")], there=True)
    )
    assert play.states == ("RunningHoldCompletion", "RunningHoldCompletion")
    play.look(ObservedComponents(pods=pods(Succeeded=2), expected=2, components=[done, job("k")], there=True))
    assert (play.states, play.last) == (("Completed", "Completed"), ("Completed", "PodsCompleted"))
    silent = Play({"generictemplate": job()})
    silent.dispatched(RUNNING)
    silent.look(ObservedComponents(pods=pods(Succeeded=1), expected=1, components=[done], there=True))
    assert silent.states[0] == "Running", "whose items name no condition is never complete"


def test_it_is_made_again_while_too_few_pods_run_each_time_later() -> None:
    requeuing = {"timeInSeconds": 10, "maxTimeInSeconds": 15, "maxNumRequeuings": 2}
    play = Play({"generictemplate": job()}, schedulingSpec={"minAvailable": 1, "requeuing": requeuing})
    stuck = ObservedComponents(pods=pods(Pending=1), expected=1, components=[job()], there=True)
    gone = ObservedComponents(pods=[], expected=1, missing=["Job j"], components=[None])
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
    assert play.look(ObservedComponents(pods=[], expected=1, missing=["Job j"])).do is Do.CREATE
    play.look(RUNNING, later_s=61.0)
    assert (play.states[0], play.last) == ("Failed", ("PreemptCandidate", "DispatchDeadlineExceeded"))
    assert play.look(RUNNING).do is Do.DELETE


def test_what_cannot_be_created_fails_it_and_what_has_no_pods_does_not_wait() -> None:
    play = Play({"generictemplate": job()})
    play.dispatched(ObservedComponents(pods=[], expected=1, missing=["Job j"], fault="forbidden", fatal=True))
    assert (play.states[0], play.last) == ("Failed", ("Failed", "CreateFailed"))
    free = Play({"generictemplate": {"kind": "Service"}})
    free.look(ObservedComponents(pods=[], expected=0, missing=["Service"]), suspended=True)
    assert free.look(ObservedComponents(pods=[], expected=0, missing=["Service"]), suspended=True).do is Do.CREATE
