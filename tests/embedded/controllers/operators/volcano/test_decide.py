"""Phases of a Volcano Job: what its pods, policies and commands make of it."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.connection import Object
from phalanx.embedded.controllers.operators.volcano.decide import Scene, VolcanoActions, decide
from phalanx.embedded.controllers.operators.volcano.job_spec import JobFault, happenings, read_job
from tests.embedded.controllers.operators.volcano.written import NOW_S, in_phase, job, pod, task

GOING = {"deletionTimestamp": "2025-06-15T15:06:39Z"}


def judged(owner: Object, *pods: Object, command: str = "", evicted: dict[str, float] | None = None) -> VolcanoActions:
    spec = read_job(owner)
    version = int((owner.get("status") or {}).get("version") or 0)
    happened = tuple(happenings(spec, version, pods, evicted or {}, None))
    return decide(Scene(owner=owner, job=spec, pods=pods, now_s=NOW_S, happened=happened, command=command))


def phase_of(found: VolcanoActions) -> str:
    return str(found.status["state"]["phase"])


def names(pods: Any) -> list[str]:
    return [one["metadata"]["name"] for one in pods]


def test_a_new_job_gets_all_its_pods_and_pends() -> None:
    found = judged(job(task("a", 2), task("b", 1)))
    assert [(one.name, index) for one, index in found.create] == [("a", 0), ("a", 1), ("b", 0)]
    assert found.run
    assert found.status == {
        "state": {"phase": "Pending", "lastTransitionTime": "2025-06-15T15:06:40Z"},
        "conditions": [{"status": "Pending", "lastTransitionTime": "2025-06-15T15:06:40Z"}],
        "minAvailable": 3,
        "pending": 3,
        "taskStatusCount": {"a": {"phase": {"Pending": 2}}, "b": {"phase": {"Pending": 1}}},
    }


def test_it_runs_when_its_minimum_does() -> None:
    waits = judged(job(task("a", 3), minAvailable=2), pod("a", 0, "Running"), pod("a", 1, "Pending"))
    assert phase_of(waits) == "Pending"
    runs = judged(job(task("a", 3), minAvailable=2), pod("a", 0, "Running"), pod("a", 1, "Failed"))
    assert phase_of(runs) == "Running"


ENDS: list[Any] = [
    ({}, ("Succeeded", "Succeeded"), "Completed"),
    ({}, ("Succeeded", "Failed"), "Failed"),
    ({"minAvailable": 1}, ("Succeeded", "Failed"), "Completed"),
    ({"minAvailable": 1}, ("Failed", "Failed"), "Failed"),
    ({"minSuccess": 1}, ("Succeeded", "Running"), "Completed"),
    ({"minAvailable": 1, "minSuccess": 2}, ("Succeeded", "Failed"), "Failed"),
    ({}, ("Succeeded", "Running"), "Running"),
    ({}, ("Pending", "Running"), "Pending"),
    ({"minAvailable": 1}, ("Pending", "Running"), "Running"),
]


@pytest.mark.parametrize(("spec", "phases", "expected"), ENDS)
def test_how_it_ends(spec: Object, phases: tuple[str, ...], expected: str) -> None:
    pods = [pod("a", at, phase) for at, phase in enumerate(phases)]
    found = judged(job(task("a", 2), status=in_phase("Running"), **spec), *pods)
    assert phase_of(found) == expected
    assert found.clear is (expected in ("Completed", "Failed"))
    if expected == "Completed" and "Running" in phases:
        assert names(found.kill) == ["j-a-1"]


def test_each_task_needs_its_minimum_of_successes() -> None:
    tasks = (task("a", 2, minAvailable=1), task("b", 1))
    pods = (pod("a", 0, "Succeeded"), pod("a", 1, "Succeeded"), pod("b", 0, "Failed"))
    assert phase_of(judged(job(*tasks, minAvailable=2, status=in_phase("Running")), *pods)) == "Failed"


def restarting(*, action: str = "RestartJob", **fields: Any) -> tuple[Object, Object]:
    policy = {"event": "PodFailed", "action": action}
    return job(task("a", 2), status=in_phase("Running", **fields), policies=[policy]), pod("a", 0, "Failed", code=3)


def test_a_restart_takes_all_pods_and_counts() -> None:
    owner, failed = restarting()
    found = judged(owner, failed, pod("a", 1, "Running"))
    assert (phase_of(found), found.status["retryCount"], found.status["version"]) == ("Restarting", 1, 1)
    assert names(found.kill) == ["j-a-0", "j-a-1"]
    assert found.clear
    again = job(task("a", 2), status=found.status)
    goes = judged(again, {**failed, "metadata": {**failed["metadata"], **GOING}})
    assert phase_of(goes) == "Restarting"
    assert phase_of(judged(again)) == "Pending"


def test_what_a_restart_did_not_come_to_is_done_by_the_next_look() -> None:
    status = in_phase("Restarting", version=1, retryCount=1)
    assert names(judged(job(task("a", 1), status=status), pod("a", 0, "Failed", version=0)).kill) == ["j-a-0"]


def test_the_last_restart_never_happens() -> None:
    owner, failed = restarting(retryCount=2)
    found = judged(owner, failed, pod("a", 1, "Running"))
    assert names(found.kill) == ["j-a-1"]  # what has ended is kept, to be looked at
    assert phase_of(judged(job(task("a", 2), status=found.status), failed)) == "Failed"


@pytest.mark.parametrize(
    ("action", "killed"), [("RestartPod", ["j-a-0"]), ("RestartTask", ["j-a-0", "j-a-1"]), ("AbortJob", ["j-a-1"])]
)
def test_an_action_takes_its_targets_alone(action: str, killed: list[str]) -> None:
    owner, failed = restarting(action=action)
    owner["spec"]["tasks"].append(task("b", 1))
    others = () if action == "AbortJob" else (pod("b", 0, "Running"),)
    found = judged(owner, failed, pod("a", 1, "Running"), *others)
    assert names(found.kill) == killed
    assert found.clear is (action == "AbortJob")
    assert found.status.get("version", 0) == (action == "AbortJob")


def test_an_exit_code_of_a_task_counts_before_the_policies_of_the_job() -> None:
    own = [{"exitCode": 3, "action": "CompleteJob"}]
    policies = [{"event": "*", "action": "AbortJob"}]
    owner = job(task("a", 2, policies=own), status=in_phase("Running"), policies=policies)
    assert phase_of(judged(owner, pod("a", 0, "Failed", code=3), pod("a", 1, "Running"))) == "Completing"
    assert phase_of(judged(owner, pod("a", 0, "Failed", code=4), pod("a", 1, "Running"))) == "Aborting"


def test_events_of_tasks_and_of_pods_that_others_took() -> None:
    done = job(task("a", 1, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]), task("b", 1))
    done["status"] = in_phase("Running")
    assert phase_of(judged(done, pod("a", 0, "Succeeded"), pod("b", 0, "Running"))) == "Completing"
    lost = job(task("a", 1), status=in_phase("Running"), policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    assert phase_of(judged(lost, evicted={"j-a-0": NOW_S - 1})) == "Restarting"
    worn = job(task("a", 1, maxRetry=2), status=in_phase("Running"))
    worn["spec"]["policies"] = [{"event": "TaskFailed", "action": "TerminateJob"}]
    assert phase_of(judged(worn, pod("a", 0, "Running", restarts=1))) == "Running"
    assert phase_of(judged(worn, pod("a", 0, "Running", restarts=2))) == "Terminating"


def test_a_policy_with_a_timeout_waits() -> None:
    policies = [{"event": "PodPending", "action": "TerminateJob", "timeout": "1m"}]
    owner = job(task("a", 1), policies=policies)
    found = judged(owner, pod("a", 0, "Pending"))
    assert (phase_of(found), found.look_s) == ("Pending", NOW_S + 50)
    assert ("ExecuteAction", "Execute action TerminateJob after 1m") in found.told
    owner["spec"]["policies"][0]["timeout"] = "10s"
    assert phase_of(judged(owner, pod("a", 0, "Pending"))) == "Terminating"
    del owner["spec"]["policies"][0]["timeout"]
    assert phase_of(judged(owner, pod("a", 0, "Pending"))) == "Pending"


def test_a_user_aborts_and_resumes() -> None:
    owner = job(task("a", 1), status=in_phase("Running"))
    aborting = judged(owner, pod("a", 0, "Running"), command="AbortJob")
    assert phase_of(aborting) == "Aborting"
    aborted = judged(job(task("a", 1), status=aborting.status))
    assert phase_of(aborted) == "Aborted"
    assert phase_of(judged(job(task("a", 1), status=aborted.status))) == "Aborted"
    resumed = judged(job(task("a", 1), status=aborted.status), command="ResumeJob")
    assert (phase_of(resumed), resumed.status["retryCount"]) == ("Restarting", 1)


def test_a_job_that_is_resumed_keeps_what_succeeded_and_replaces_what_failed() -> None:
    """In Volcano the failed pod stays, and the job that it aborted never runs again."""
    ended = (pod("a", 0, "Failed"), pod("a", 1, "Succeeded"))
    aborted = judged(job(task("a", 2), status=in_phase("Aborting")), *ended)
    resumed = judged(job(task("a", 2), status=aborted.status), *ended, command="ResumeJob")
    assert (phase_of(resumed), names(resumed.kill)) == ("Restarting", [])
    assert names(judged(job(task("a", 2), status=resumed.status), *ended).kill) == ["j-a-0"]


def test_a_task_waits_for_those_that_it_depends_on() -> None:
    tasks = (task("a", 1, dependsOn={"name": ["b"]}), task("b", 2, minAvailable=1))
    waits = judged(job(*tasks, minAvailable=1), pod("b", 0, "Pending"), pod("b", 1, "Pending"))
    assert waits.create == ()
    goes = judged(job(*tasks, minAvailable=1), pod("b", 0, "Running"), pod("b", 1, "Pending"))
    assert [(one.name, index) for one, index in goes.create] == [("a", 0)]


@pytest.mark.parametrize(("iteration", "made"), [({}, 0), ({"iteration": "all"}, 0), ({"iteration": "any"}, 1)])
def test_of_several_dependencies_all_are_awaited_or_any(iteration: Object, made: int) -> None:
    tasks = (task("a", 1, dependsOn={"name": ["b", "c"], **iteration}), task("b", 1), task("c", 1))
    found = judged(job(*tasks, minAvailable=1), pod("b", 0, "Succeeded"), pod("c", 0, "Pending"))
    assert len(found.create) == made


def test_fewer_replicas_take_the_highest_pods() -> None:
    pods = [pod("a", at, "Running") for at in range(3)]
    found = judged(job(task("a", 1), status=in_phase("Running")), *pods)
    assert names(found.kill) == ["j-a-1", "j-a-2"]


def test_defaults_are_the_webhooks() -> None:
    found = read_job(
        job({"template": {}, "replicas": 2}, {"template": {}, "replicas": 1, "minAvailable": 0}, maxRetry=0)
    )
    assert [one.name for one in found.tasks] == ["default0", "default1"]
    assert (found.minimum, found.most_retries, found.queue, found.scheduler) == (2, 3, "default", "volcano")
    with pytest.raises(JobFault, match="No task specified"):
        read_job(job())
    with pytest.raises(JobFault, match="at most 10000 are allowed"):
        read_job(job(task("a", 6_000), task("b", 4_001)))


# Each event, as its pods show it; each action, by the next phase and the pods that go. Two tasks: a of two pods, in one
# of which the event happens, and b of one that runs.
HAPPENINGS: dict[str, Any] = {
    "PodFailed": ({"event": "PodFailed"}, pod("a", 0, "Failed", code=3)),
    "exit code 3": ({"exitCode": 3}, pod("a", 0, "Failed", code=3)),
    "*": ({"event": "*"}, pod("a", 0, "Failed", code=3)),
    "PodEvicted": ({"event": "PodEvicted"}, None),
    "TaskFailed": ({"event": "TaskFailed"}, pod("a", 0, "Running", restarts=3)),
}
ACTIONS: list[Any] = [
    ("RestartJob", "Restarting", {"a-0", "a-1", "b-0"}, True),
    ("AbortJob", "Aborting", {"a-1", "b-0"}, True),
    ("TerminateJob", "Terminating", {"a-1", "b-0"}, True),
    ("CompleteJob", "Completing", {"a-1", "b-0"}, True),
    ("RestartTask", "Restarting", {"a-0", "a-1"}, False),
    ("RestartPod", "Restarting", {"a-0"}, False),
]


@pytest.mark.parametrize("level", ["job", "task"])
@pytest.mark.parametrize("event", HAPPENINGS)
@pytest.mark.parametrize(("action", "phase", "killed", "whole"), ACTIONS)
def test_every_event_with_every_action(
    level: str, event: str, action: str, phase: str, killed: set[str], whole: bool
) -> None:
    policy, happened = HAPPENINGS[event]
    said = {"policies": [{**policy, "action": action}]}
    owner = job(task("a", 2, **(said if level == "task" else {})), task("b", 1), status=in_phase("Running"))
    owner["spec"] |= said if level == "job" else {}
    others = (pod("a", 1, "Running"), pod("b", 0, "Running"))
    gone = {"j-a-0": NOW_S - 1} if happened is None else None
    found = judged(owner, *([happened] if happened is not None else []), *others, evicted=gone)
    still = {f"j-{name}" for name in killed if name != "a-0" or happened is not None}
    if event == "TaskFailed" and whole:
        still.add("j-a-0")  # it runs, and goes with the others
    if event == "TaskFailed" and action == "RestartPod":
        still = set()  # no pod is the event's
    assert phase_of(found) == phase
    assert set(names(found.kill)) == still
    assert found.status["retryCount"] == 1 if phase == "Restarting" else "retryCount" not in found.status
    assert found.status.get("version", 0) == int(whole)


def test_without_a_policy_an_event_changes_nothing_but_the_counts() -> None:
    owner = job(task("a", 2), status=in_phase("Running"))
    found = judged(owner, pod("a", 0, "Failed"), pod("a", 1, "Running"))
    assert (phase_of(found), found.kill, found.status["failed"]) == ("Running", (), 1)


def test_policies_of_a_task_count_before_those_of_the_job() -> None:
    own, of_job = [{"event": "PodFailed", "action": "RestartJob"}], [{"event": "PodFailed", "action": "AbortJob"}]
    owner = job(task("a", 2, policies=own), task("b", 1), status=in_phase("Running"), policies=of_job)
    assert phase_of(judged(owner, pod("a", 0, "Failed"), pod("b", 0, "Running"))) == "Restarting"
    assert phase_of(judged(owner, pod("a", 0, "Running"), pod("b", 0, "Failed"))) == "Aborting"
