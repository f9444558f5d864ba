"""How many pods a PodDisruptionBudget lets go."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.disruption import Expected, expected, failed_status, status_of
from tests.embedded.controllers.objects import NOW_S, pod

NOW = write_moment(NOW_S)


def budget(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "b", "generation": 2}, "spec": spec, "status": status or {}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"minAvailable": 2}, Expected(pods=5, healthy=2)),
        ({"minAvailable": "50%"}, Expected(pods=7, healthy=4)),
        ({"maxUnavailable": 2}, Expected(pods=7, healthy=5)),
        ({"maxUnavailable": "30%"}, Expected(pods=7, healthy=4)),
        ({"maxUnavailable": 9}, Expected(pods=7, healthy=0)),
    ],
)
def test_percentages_are_of_what_controllers_want_and_rounded_up(spec: dict[str, Any], want: Expected) -> None:
    assert expected(spec, pods=5, scale=7) == want


@pytest.mark.parametrize(("ready", "allowed", "reason"), [(3, 1, "SufficientPods"), (2, 0, "InsufficientPods")])
def test_what_is_healthy_beyond_the_need_may_go(ready: int, allowed: int, reason: str) -> None:
    pods = [pod(ready=True) for _ in range(ready)] + [pod(), pod(ready=True, deleting=True)]
    status = status_of(budget(minAvailable=2), pods, Expected(pods=len(pods), healthy=2), NOW_S, NOW)
    assert (status["disruptionsAllowed"], status["currentHealthy"], status["observedGeneration"]) == (allowed, ready, 2)
    assert status["conditions"][0]["reason"] == reason


def test_an_evicted_pod_is_not_counted_until_it_is_seen_to_stay() -> None:
    evicted = budget({"disruptedPods": {"e": write_moment(NOW_S - 60), "old": write_moment(NOW_S - 130), "gone": NOW}})
    pods = [pod(name="e", ready=True), pod(name="old", ready=True)]
    status = status_of(evicted, pods, Expected(pods=2, healthy=1), NOW_S, NOW)
    assert (status["disruptedPods"], status["currentHealthy"]) == ({"e": write_moment(NOW_S - 60)}, 1)


def test_nothing_is_allowed_while_the_need_is_unknown() -> None:
    status = failed_status(budget({"disruptionsAllowed": 3, "currentHealthy": 4}), "no scale", NOW)
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (0, 4)
    assert status["conditions"][0]["reason"] == "SyncFailed"
