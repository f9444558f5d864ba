"""podFailurePolicy, which decides about failed pods, and successPolicy, by which some successes are enough."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.controllers.job.view import Indexes, has_failed, judge, success_message
from tests.embedded.controllers.objects import pod


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": list(rules)}}


def on_exit(action: str, operator: str, *values: int, container: str | None = None) -> dict[str, Any]:
    asked: dict[str, Any] = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": asked | ({"containerName": container} if container else {})}


def test_an_exit_code_can_fail_the_job_and_the_message_says_why() -> None:
    verdict = judge(pod("Failed", exit_code=42, name="p"), policy(on_exit("FailJob", "In", 42, container="c")))
    assert verdict.message == "Container c for pod ns/p failed with exit code 42 matching FailJob rule at index 0"
    assert verdict.counts


@pytest.mark.parametrize(
    ("rule", "code", "counts"),
    [
        (on_exit("Ignore", "In", 1, 2), 2, False),
        (on_exit("Ignore", "In", 1, 2), 3, True),
        (on_exit("Ignore", "NotIn", 1, 2), 3, False),
        (on_exit("Ignore", "NotIn", 1, 2), 1, True),
        (on_exit("Ignore", "In", 1, container="other"), 1, True),
    ],
)
def test_exit_codes_are_matched_by_operator_and_container(rule: dict[str, Any], code: int, counts: bool) -> None:
    assert judge(pod("Failed", exit_code=code), policy(rule)).counts is counts


def test_the_first_matching_rule_decides() -> None:
    rules = policy(on_exit("Count", "In", 7), on_exit("FailJob", "In", 7))
    assert judge(pod("Failed", exit_code=7), rules).message is None


def test_a_condition_of_the_pod_can_match() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    evicted = pod("Failed", conditions=[{"type": "DisruptionTarget", "status": "True"}])
    assert not judge(evicted, policy(rule)).counts
    fatal = judge(evicted, policy(rule | {"action": "FailJob"}))
    assert str(fatal.message).endswith("has condition DisruptionTarget matching FailJob rule at index 0")


def test_a_rule_can_fail_the_index() -> None:
    assert judge(pod("Failed", exit_code=5), policy(on_exit("FailIndex", "In", 5))).fails_index


@pytest.mark.parametrize(
    ("spec", "failed"),
    [({}, True), ({"podReplacementPolicy": "TerminatingOrFailed"}, True), ({"podReplacementPolicy": "Failed"}, False)],
)
def test_a_deleted_pod_has_failed_at_once_unless_only_failed_ones_are_replaced(spec: Any, failed: bool) -> None:
    assert has_failed(pod("Running", deleting=True), spec) is failed
    assert has_failed(pod("Failed", deleting=True), spec)
    assert not has_failed(pod("Succeeded", deleting=True), spec)


@pytest.mark.parametrize(
    ("rule", "done", "met"),
    [
        ({"succeededIndexes": "0"}, {0}, True),
        ({"succeededIndexes": "0-2"}, {0, 2}, False),
        ({"succeededIndexes": "0-2", "succeededCount": 2}, {0, 2}, True),
        ({"succeededCount": 2}, {3, 4}, True),
        ({"succeededCount": 3}, {3, 4}, False),
    ],
)
def test_success_policy(rule: dict[str, Any], done: set[int], met: bool) -> None:
    done -= {4} if rule.get("succeededIndexes") else set()
    found = success_message({"completions": 5, "successPolicy": {"rules": [rule]}}, Indexes.of(done))
    assert found == ("Matched rules at index 0" if met else None)


def test_the_message_names_the_rule_that_matched() -> None:
    spec = {"completions": 5, "successPolicy": {"rules": [{"succeededIndexes": "4"}, {"succeededCount": 1}]}}
    assert success_message(spec, Indexes.of({2})) == "Matched rules at index 1"
