"""Disruption budgets, and whether a pod may be evicted."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.registry.kinds.policy.disruption import allow, evicted
from tests.embedded.apiserver.registry.kinds.writes import Object, create, pod, refusal, status_refusal, stored

NOW = "2026-01-01T00:00:00Z"


def budget(**spec: Any) -> Object:
    return {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}} | spec}


def running(ready: bool = True) -> Object:
    obj = create("pods", pod(nodeName="n") | {"metadata": {"name": "p", "labels": {"app": "x"}}})
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return obj | {"status": {"phase": "Running", "conditions": conditions}}


def kept(allowed: int, *, healthy: int = 1, **spec: Any) -> Object:
    obj = stored("poddisruptionbudgets", budget(minAvailable=1, **spec))
    counts = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 1, "expectedPods": healthy}
    return obj | {"status": counts | {"observedGeneration": 1}}


def test_a_new_budget_counts_nothing_yet() -> None:
    assert create("poddisruptionbudgets", budget(minAvailable=1))["status"] == {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    }


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (
            {"minAvailable": 1, "maxUnavailable": 1},
            'spec: Invalid value: {"MinAvailable":1,"Selector":{"matchLabels":{"app":"x"}},"MaxUnavailable":1,'
            '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set',
        ),
        ({"minAvailable": "120%"}, 'spec.minAvailable: Invalid value: "120%": must not be greater than 100%'),
        ({"maxUnavailable": -1}, "spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"),
    ],
)
def test_wrong_budgets_are_refused(spec: Object, line: str) -> None:
    assert refusal("poddisruptionbudgets", budget(**spec)) == [line]


def test_counts_are_not_negative() -> None:
    assert status_refusal("poddisruptionbudgets", kept(1), {"status": {"currentHealthy": -1}}) == [
        "status.currentHealthy: Invalid value: -1: must be greater than or equal to 0"
    ]


def test_an_eviction_takes_one_disruption() -> None:
    before = kept(2)
    after = allow(running(), [before], NOW)
    assert after is not None
    assert after["status"]["disruptionsAllowed"] == 1
    assert after["status"]["disruptedPods"] == {"p": NOW}
    assert before["status"]["disruptionsAllowed"] == 2


def test_the_last_disruption_says_that_there_are_no_more() -> None:
    after = allow(running(), [kept(1)], NOW)
    assert after is not None
    (said,) = after["status"]["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("DisruptionAllowed", "False", "InsufficientPods")


def test_an_evicted_pod_says_so_once() -> None:
    told = evicted(running(), NOW)
    assert told is not None
    ready, said = told["status"]["conditions"]
    assert ready["type"] == "Ready"
    assert (said["type"], said["status"], said["reason"]) == ("DisruptionTarget", "True", "EvictionByEvictionAPI")
    assert (said["message"], said["lastTransitionTime"]) == ("Eviction API: evicting", NOW)
    assert evicted(told, "2026-01-01T00:00:01Z") is None


def test_an_eviction_has_the_last_word_on_why_a_pod_goes() -> None:
    before = running()
    before["status"]["conditions"] = [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "lastTransitionTime": NOW}
    ]
    told = evicted(before, "2026-01-01T00:00:01Z")
    assert told is not None
    (said,) = told["status"]["conditions"]
    assert (said["reason"], said["lastTransitionTime"]) == ("EvictionByEvictionAPI", NOW)


def test_an_exhausted_budget_refuses() -> None:
    with pytest.raises(StatusError) as caught:
        allow(running(), [kept(0)], NOW)
    assert (caught.value.code, caught.value.reason) == (429, "TooManyRequests")
    assert caught.value.status()["details"]["causes"] == [
        {"reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pods and has 1 currently"}
    ]


def test_a_budget_that_nobody_has_counted_yet_asks_to_come_again() -> None:
    fresh = stored("poddisruptionbudgets", budget(minAvailable=1))
    with pytest.raises(StatusError) as caught:
        allow(running(), [fresh], NOW)
    assert caught.value.retry_after_s == 10


@pytest.mark.parametrize(
    "case",
    [
        pytest.param((running() | {"status": {"phase": "Pending"}}, kept(0)), id="not yet running"),
        pytest.param((running() | {"status": {"phase": "Succeeded"}}, kept(0)), id="finished"),
        pytest.param((running(ready=False), kept(0)), id="not ready while enough others are healthy"),
        pytest.param(
            (running(ready=False), kept(0, healthy=0, unhealthyPodEvictionPolicy="AlwaysAllow")), id="not ready, always"
        ),
        pytest.param((running(), kept(0, selector={"matchLabels": {"app": "y"}})), id="another's budget"),
    ],
)
def test_some_pods_are_in_no_budgets_care(case: tuple[Object, Object]) -> None:
    assert allow(case[0], [case[1]], NOW) is None


def test_an_unready_pod_counts_when_too_few_are_healthy() -> None:
    with pytest.raises(StatusError):
        allow(running(ready=False), [kept(0, healthy=0)], NOW)


def test_two_budgets_for_one_pod_are_an_error() -> None:
    with pytest.raises(StatusError) as caught:
        allow(running(), [kept(1), kept(1)], NOW)
    assert caught.value.code == 500
