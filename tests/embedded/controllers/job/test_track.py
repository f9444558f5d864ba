"""The status after a look, and that each pod is counted once wherever a crash comes."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.job.track import settle
from tests.embedded.controllers.objects import NOW_S, conditions, job, names, pod, settled, tracked_after

NOW = write_moment(NOW_S)
INDEXED = {"completionMode": "Indexed"}


def test_a_new_job_is_started() -> None:
    assert settled(job(), []) == {
        "startTime": NOW,
        "active": 3,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }


def test_ready_and_terminating_are_shown() -> None:
    spec = {"parallelism": 2, "completions": 2, "podReplacementPolicy": "Failed"}
    status = settled(job(**spec), [pod(ready=True), pod(deleting=True)])
    assert (status["active"], status["ready"], status["terminating"]) == (1, 1, 1)


def test_creations_that_failed_are_not_active() -> None:
    assert settled(job(), [], created=1)["active"] == 1


# --- suspension ---------------------------------------------------------------------------------------------------


def test_a_suspended_job_has_no_start() -> None:
    status = settled(job(suspend=True), [])
    assert conditions(status) == ["Suspended=True JobSuspended"]
    assert "startTime" not in status


def test_resuming_sets_the_start_anew() -> None:
    suspended = settled(job(suspend=True), [])
    tracked = tracked_after(job(status=suspended), [])
    assert conditions(tracked.status) == ["Suspended=False JobResumed"]
    assert tracked.status["startTime"] == NOW
    assert [note.reason for note in tracked.notes] == ["Resumed"]


def test_suspending_a_running_job_clears_its_start_and_counts_nobody() -> None:
    running = {"startTime": write_moment(NOW_S - 100), "active": 1, "ready": 1}
    status = settled(job(suspend=True, status=running), [pod(ready=True)], deleted_ready=1)
    assert "startTime" not in status
    assert "failed" not in status
    assert (status.get("active"), status["ready"], status["terminating"]) == (None, 0, 1)


# --- counting -----------------------------------------------------------------------------------------------------


def test_a_pod_is_listed_before_its_finalizer_goes_and_counted_after() -> None:
    done = pod("Succeeded", name="d")
    tracked = tracked_after(job(completions=5), [done])
    assert tracked.status["uncountedTerminatedPods"] == {"succeeded": ["uid-d"]}
    assert "succeeded" not in tracked.status
    assert names(tracked.release) == ["d"]
    status = settled(job(completions=5), [done])
    assert (status["succeeded"], status["uncountedTerminatedPods"]) == (1, {})


CUTS: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("before the list was written", {}, [pod("Succeeded", name="s"), pod("Failed", name="f")]),
    (
        "before the finalizers went",
        {"uncountedTerminatedPods": {"succeeded": ["uid-s"], "failed": ["uid-f"]}},
        [pod("Succeeded", name="s"), pod("Failed", name="f")],
    ),
    (
        "after one finalizer went",
        {"uncountedTerminatedPods": {"succeeded": ["uid-s"], "failed": ["uid-f"]}},
        [pod("Succeeded", name="s", tracked=False), pod("Failed", name="f")],
    ),
    ("after the pods were deleted", {"uncountedTerminatedPods": {"succeeded": ["uid-s"], "failed": ["uid-f"]}}, []),
    (
        "after all was written",
        {"succeeded": 1, "failed": 1, "uncountedTerminatedPods": {}},
        [pod("Succeeded", name="s", tracked=False), pod("Failed", name="f", tracked=False)],
    ),
]


@pytest.mark.parametrize(("status", "pods"), [cut[1:] for cut in CUTS], ids=[cut[0] for cut in CUTS])
def test_a_crash_at_any_point_counts_each_pod_once(status: dict[str, Any], pods: list[Any]) -> None:
    result = settled(job(completions=9, status=status), pods)
    assert (result["succeeded"], result["failed"], result["uncountedTerminatedPods"]) == (1, 1, {})


def test_a_finalizer_that_could_not_be_removed_keeps_its_pod_uncounted() -> None:
    tracked = tracked_after(job(completions=9), [pod("Failed", name="f")])
    status, _ = settle(tracked, {"uid-f"}, job()["spec"], NOW_S)
    assert status["uncountedTerminatedPods"] == {"failed": ["uid-f"]}
    assert "failed" not in status


def test_no_more_than_500_pods_are_listed_at_a_time() -> None:
    tracked = tracked_after(job(completions=900, parallelism=0), [pod("Succeeded") for _ in range(600)])
    assert len(tracked.status["uncountedTerminatedPods"]["succeeded"]) == len(tracked.release) == 500
    assert tracked.truncated


def test_an_ignored_failure_is_not_counted() -> None:
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}
    status = settled(job(podFailurePolicy={"rules": [rule]}), [pod("Failed", exit_code=1)])
    assert "failed" not in status


# --- indexes ------------------------------------------------------------------------------------------------------


def test_indexes_are_counted_by_index() -> None:
    twice = [pod("Succeeded", index=1), pod("Succeeded", index=1), pod("Succeeded", index=3)]
    status = settled(job(completions=5, status={"completedIndexes": "0"}, **INDEXED), twice)
    assert (status["completedIndexes"], status["succeeded"]) == ("0,1,3", 3)


def test_a_failed_pod_stays_until_its_index_runs_again() -> None:
    spec = {**INDEXED, "backoffLimitPerIndex": 2, "backoffLimit": 2**31 - 1}
    failed = pod("Failed", index=0, failures=0, name="f")
    assert names(tracked_after(job(**spec), [failed]).release) == []
    assert names(tracked_after(job(**spec), [failed, pod(index=0)]).release) == ["f"]


def test_failed_indexes_are_listed() -> None:
    spec = {**INDEXED, "backoffLimitPerIndex": 0, "backoffLimit": 2**31 - 1}
    status = settled(job(**spec), [pod("Failed", index=0, failures=0), pod(index=1)])
    assert (status["failedIndexes"], status["failed"]) == ("0", 1)


# --- the end ------------------------------------------------------------------------------------------------------


def test_completion() -> None:
    status = settled(job(), [pod("Succeeded") for _ in range(3)])
    assert conditions(status) == ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"]
    assert (status["completionTime"], status["succeeded"], status.get("active")) == (NOW, 3, None)


def test_a_failed_job_counts_the_pods_that_it_stopped_and_waits_for_them() -> None:
    pods = [pod("Failed", name="f"), pod("Running", name="r")]
    status = settled(job(backoffLimit=0, parallelism=2, completions=2), pods)
    assert conditions(status) == ["FailureTarget=True BackoffLimitExceeded"]
    assert (status["failed"], status["terminating"]) == (2, 1)
    gone = settled(job(backoffLimit=0, parallelism=2, completions=2, status=status), [])
    assert conditions(gone) == ["FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"]
    assert (gone["failed"], gone["terminating"]) == (2, 0)


def test_pods_stopped_after_success_are_no_failures() -> None:
    spec = {**INDEXED, "successPolicy": {"rules": [{"succeededCount": 1}]}}
    status = settled(job(**spec), [pod("Succeeded", index=0), pod("Running", index=1)])
    assert conditions(status) == ["SuccessCriteriaMet=True SuccessPolicy"]
    assert (status["succeeded"], status.get("failed")) == (1, None)


def test_the_end_waits_for_every_pod_to_be_on_its_way_out() -> None:
    status = settled(job(backoffLimit=0), [pod("Failed"), pod("Running"), pod("Running")], deleted=1)
    assert "conditions" not in status


def test_a_job_that_is_deleted_frees_its_pods() -> None:
    tracked = tracked_after(job(deleting=True), [pod("Running", name="r"), pod("Failed", name="f")])
    assert sorted(names(tracked.release)) == ["f", "r"]
