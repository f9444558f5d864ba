"""A Job's status must not contradict itself or its past (KEP-4368)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.apiserver.registry.kinds.writes import Object, job, status, status_refusal, stored

START, END = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def true(*types: str) -> list[Object]:
    return [{"type": one, "status": "True"} for one in types]


def finished(**status_fields: Any) -> Object:
    done = {"startTime": START, "completionTime": END, "succeeded": 1}
    return done | {"conditions": true("SuccessCriteriaMet", "Complete")} | status_fields


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (
            {"conditions": true("Complete")},
            [
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: "
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "status.startTime: Required value: startTime is required for finished job",
            ],
        ),
        (
            {"active": -1, "failed": -1},
            [
                "status.active: Invalid value: -1: must be greater than or equal to 0",
                "status.failed: Invalid value: -1: must be greater than or equal to 0",
                "status.failed: Invalid value: -1: cannot decrease the failed counter",
            ],
        ),
        (
            {"startTime": START, "conditions": true("Failed")},
            [
                "status.conditions: Invalid value: "
                "cannot set Failed=True condition without the FailureTarget=true condition"
            ],
        ),
        (
            {"ready": 2, "active": 1},
            ["status.ready: Invalid value: 2: cannot set more ready pods than active"],
        ),
        (
            finished(active=1),
            ["status.active: Invalid value: 1: active>0 is invalid for finished job"],
        ),
        (
            finished(completionTime="2025-12-31T00:00:00Z"),
            [
                'status.completionTime: Invalid value: "2025-12-31T00:00:00Z": '
                "completionTime cannot be set before startTime"
            ],
        ),
        (
            {"completionTime": END},
            [
                f'status.completionTime: Invalid value: "{END}": '
                "cannot set completionTime when there is no Complete=True condition"
            ],
        ),
        (
            {"completedIndexes": "0"},
            [
                'status.completedIndexes: Invalid value: "0": '
                "cannot set non-empty completedIndexes when non-indexed completion mode"
            ],
        ),
        (
            {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a"]}},
            ['status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"'],
        ),
    ],
)
def test_contradictions_are_refused(change: Object, lines: list[str]) -> None:
    assert status_refusal("jobs", stored("jobs", job()), {"status": change}) == lines


def test_a_finished_job_stays_finished() -> None:
    old = status("jobs", stored("jobs", job()), {"status": finished()})
    assert status_refusal("jobs", old, {"status": {"completionTime": None, "conditions": []}}) == [
        "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
        "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
    ]


def test_counters_and_times_of_a_running_job_only_go_on() -> None:
    old = status("jobs", stored("jobs", job()), {"status": {"startTime": START, "succeeded": 1, "failed": 1}})
    assert status_refusal("jobs", old, {"status": {"failed": 0, "succeeded": 0, "startTime": END}}) == [
        "status.failed: Invalid value: 0: cannot decrease the failed counter",
        "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
        "status.startTime: Required value: startTime cannot be removed for unsuspended job",
    ]


def test_a_suspended_job_may_forget_its_start() -> None:
    old = status("jobs", stored("jobs", job(suspend=True)), {"status": {"startTime": START}})
    assert status_refusal("jobs", old, {"status": {"startTime": None}}) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("0,2-4", ""),
        ("4,2", "non-increasing order, previous: 4, current: 2"),
        ("9", 'too large index: "9"'),
        ("a", 'cannot convert string to integer for index: "a"'),
        ("3-1", "non-increasing order, previous: 3, current: 1"),
    ],
)
def test_indexes_are_a_list_in_order(text: str, error: str) -> None:
    old = stored("jobs", job(completionMode="Indexed", completions=5, parallelism=5))
    expected = [f'status.completedIndexes: Invalid value: "{text}": error parsing completedIndexes: {error}']
    assert status_refusal("jobs", old, {"status": {"completedIndexes": text}}) == (expected if error else [])


def test_no_index_both_succeeds_and_fails() -> None:
    old = stored("jobs", job(completionMode="Indexed", completions=5, backoffLimitPerIndex=1))
    assert status_refusal("jobs", old, {"status": {"completedIndexes": "0-2", "failedIndexes": "2,3"}}) == [
        'status.failedIndexes: Invalid value: "2,3": failedIndexes and completedIndexes overlap at index: 2'
    ]
