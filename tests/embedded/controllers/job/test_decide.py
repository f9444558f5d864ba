"""What one look at a Job decides: creations, deletions, the end and its reason."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.job.decide import Streak
from tests.embedded.controllers.objects import NOW_S, job, looked_at, names, pod

INDEXED = {"completionMode": "Indexed"}


def ending(the_job: Any, pods: Any) -> tuple[str, str] | None:
    found = looked_at(the_job, pods).ending
    return (found.kind, found.reason) if found else None


def test_a_job_that_failed_says_how_the_pod_ended_that_failed_first() -> None:
    late, first = (pod("Failed", name=name, ended_s=at, message=f"of {name}") for name, at in (("b", 20), ("a", 10)))
    found = looked_at(job(backoffLimit=0), [late, first]).ending
    assert found is not None
    assert found.message == "Job has reached the specified backoff limit; pod a: of a"
    silent = looked_at(job(backoffLimit=0), [pod("Failed")]).ending
    assert silent is not None
    assert silent.message == "Job has reached the specified backoff limit"


# --- how many pods ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "pods", "creates"),
    [
        ({}, [], 3),
        ({}, ["Running"], 2),
        ({"parallelism": 5}, [], 3),
        ({"completions": 9}, ["Running"] * 3, 0),
        ({"completions": 4}, ["Succeeded"] * 3, 1),
        ({"completions": 4}, ["Succeeded", "Running", "Running"], 1),
        ({"parallelism": 0}, [], 0),
        ({"suspend": True}, [], 0),
    ],
)
def test_as_many_as_parallelism_and_the_open_completions_allow(spec: Any, pods: list[str], creates: int) -> None:
    assert looked_at(job(**spec), [pod(phase) for phase in pods]).create == (None,) * creates


def test_a_work_queue_starts_none_after_its_first_success_and_stops_none() -> None:
    queue = job(completions=None)
    assert len(looked_at(queue, []).create) == 3
    after = looked_at(queue, [pod("Succeeded"), pod("Running")])
    assert (after.create, after.delete, after.ending) == ((), (), None)


def test_suspending_deletes_every_active_pod_without_counting_it() -> None:
    pods = [pod("Running"), pod("Pending"), pod("Succeeded")]
    step = looked_at(job(suspend=True), pods)
    assert set(names(step.delete)) == set(names(pods[:2]))
    assert step.uncounted


def test_a_terminating_pod_is_replaced_at_once_or_when_it_is_gone() -> None:
    going = [pod("Running", deleting=True, ended_s=0)]
    assert len(looked_at(job(podReplacementPolicy="Failed"), going).create) == 2
    old = pod("Running", deleting=True)
    old["metadata"]["deletionTimestamp"] = write_moment(NOW_S - 100)
    assert len(looked_at(job(podReplacementPolicy="TerminatingOrFailed"), [old]).create) == 3


def test_a_job_that_is_being_deleted_gets_no_pods() -> None:
    assert looked_at(job(deleting=True), []).create == ()


def test_a_large_job_is_made_in_portions() -> None:
    step = looked_at(job(parallelism=1200, completions=1200), [])
    assert (len(step.create), step.again_after_s) == (500, 0.0)


# --- which pods go ------------------------------------------------------------------------------------------------


def test_the_cheapest_pods_go_first() -> None:
    pods = [
        pod("Running", name="ready", ready=True),
        pod("Running", name="running"),
        pod("Pending", name="bound"),
        pod("Pending", name="unbound", node=""),
    ]
    order = [set(names(looked_at(job(parallelism=left, completions=9), pods).delete)) for left in (3, 2, 1, 0)]
    assert order == [{"unbound"}, {"unbound", "bound"}, {"unbound", "bound", "running"}, set(names(pods))]


def test_pods_with_a_second_use_of_an_index_or_a_wrong_one_go() -> None:
    pods = [
        pod("Running", index=0, name="kept", ready=True),
        pod("Pending", index=0, name="double"),
        pod("Running", index=7, name="beyond"),
        pod("Running", name="without"),
    ]
    assert set(names(looked_at(job(**INDEXED), pods).delete)) == {"double", "beyond", "without"}


# --- indexes ------------------------------------------------------------------------------------------------------


def test_the_lowest_free_indexes_are_used() -> None:
    pods = [pod("Running", index=1), pod("Succeeded", index=2)]
    step = looked_at(job(parallelism=3, completions=6, status={"completedIndexes": "0"}, **INDEXED), pods)
    assert step.create == (3, 4)


def test_a_failed_index_is_retried_up_to_its_own_limit() -> None:
    spec = {**INDEXED, "backoffLimitPerIndex": 1, "backoffLimit": 2**31 - 1}
    again = looked_at(
        job(**spec), [pod("Failed", index=0, failures=0), pod("Running", index=1), pod("Running", index=2)]
    )
    assert again.create == (0,)
    never = looked_at(
        job(**spec), [pod("Failed", index=0, failures=1), pod("Running", index=1), pod("Running", index=2)]
    )
    assert (never.create, never.ending) == ((), None)


def test_an_index_waits_while_the_others_start() -> None:
    spec = {**INDEXED, "backoffLimitPerIndex": 3, "backoffLimit": 2**31 - 1}
    step = looked_at(job(**spec), [pod("Failed", index=1, failures=1, ended_s=NOW_S - 5)])
    assert (step.create, step.again_after_s) == ((0, 2), 15)


# --- waiting ------------------------------------------------------------------------------------------------------


def test_after_failures_nothing_is_created_until_the_backoff_is_over() -> None:
    step = looked_at(job(), [pod("Failed", ended_s=NOW_S - 3)])
    assert (step.create, step.again_after_s) == ((), 7)
    later = looked_at(job(), [], Streak(failures=1, last_s=NOW_S - 11))
    assert len(later.create) == 3


def test_the_deadline_is_waited_for() -> None:
    running = job(activeDeadlineSeconds=100, status={"startTime": write_moment(NOW_S - 60)})
    assert looked_at(running, [pod()] * 3).again_after_s == 40


# --- the end ------------------------------------------------------------------------------------------------------

FAILED = [pod("Failed")]
FAIL_JOB = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
PER_INDEX = {**INDEXED, "backoffLimitPerIndex": 0, "backoffLimit": 2**31 - 1}


@pytest.mark.parametrize(
    ("spec", "pods", "reason"),
    [
        ({"backoffLimit": 0}, FAILED, "BackoffLimitExceeded"),
        ({"backoffLimit": 1}, FAILED, None),
        ({"backoffLimit": 1, "status": {"failed": 1}}, FAILED, "BackoffLimitExceeded"),
        (
            {"backoffLimit": 1, "restartPolicy": "OnFailure"},
            [pod(containerStatuses=[{"restartCount": 1}])],
            "BackoffLimitExceeded",
        ),
        ({"backoffLimit": 0, "restartPolicy": "OnFailure"}, [pod(containerStatuses=[{"restartCount": 0}])], None),
        ({"activeDeadlineSeconds": 60, "status": {"startTime": write_moment(NOW_S - 60)}}, [], "DeadlineExceeded"),
        ({"activeDeadlineSeconds": 60, "suspend": True, "status": {"startTime": write_moment(NOW_S - 90)}}, [], None),
        ({"podFailurePolicy": FAIL_JOB}, [pod("Failed", exit_code=42)], "PodFailurePolicy"),
        (PER_INDEX, [pod("Failed", index=0), pod(index=1)], None),
        (PER_INDEX, [pod("Failed", index=0), pod("Succeeded", index=1), pod("Succeeded", index=2)], "FailedIndexes"),
        ({**PER_INDEX, "maxFailedIndexes": 0}, [pod("Failed", index=0), pod(index=1)], "MaxFailedIndexesExceeded"),
    ],
)
def test_failure(spec: Any, pods: Any, reason: str | None) -> None:
    assert ending(job(**spec), pods) == (("FailureTarget", reason) if reason else None)


def test_an_end_deletes_what_runs_and_lets_it_be_counted() -> None:
    step = looked_at(job(backoffLimit=0), [pod("Failed"), pod("Running", name="left")])
    assert (names(step.delete), step.uncounted) == (["left"], False)


def test_an_end_that_was_begun_is_kept_whatever_happens() -> None:
    begun = {"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy", "message": "m"}
    assert ending(job(backoffLimit=0, status={"conditions": [begun]}), FAILED) == (
        "SuccessCriteriaMet",
        "SuccessPolicy",
    )


def test_enough_indexes_end_the_job_early() -> None:
    spec = {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "1"}]}}
    step = looked_at(job(**spec), [pod("Succeeded", index=1), pod(index=0, name="other")])
    assert step.ending is not None
    assert (step.ending.reason, names(step.delete)) == ("SuccessPolicy", ["other"])
