"""Conditions in a status, and those of a Workload about its pods."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.frame.dialect import GangStage, Object
from phalanx.dialects.kueue import gangs
from phalanx.dialects.kueue.answers.conditions import Conditions, lost, pods_ready, replaced
from tests.dialects.kueue.test_workload_status import told

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def conditions(*old: Object) -> Conditions:
    return Conditions(old, NOW)


def test_the_time_of_a_transition_changes_only_with_the_status() -> None:
    found = Conditions([{"type": "A", "status": "True", "lastTransitionTime": THEN}], NOW, generation=7)
    found.set("A", True, "Again", "still")
    assert (found.since("A"), found.reason("A"), found.message("A")) == (THEN, "Again", "still")
    found.set("A", False, "Changed", "")
    assert found.since("A") == NOW
    assert found.all()[0]["observedGeneration"] == 7


def test_a_time_that_is_missing_is_now() -> None:
    found = conditions({"type": "A", "status": "True"})
    found.set("A", True, "R", "")
    assert found.since("A") == NOW
    assert "observedGeneration" not in found.all()[0]


def test_conditions_keep_their_order_and_messages_a_bound() -> None:
    found = conditions({"type": "B"}, {"type": "A"})
    found.set("C", True, "R", "x" * 40_000)
    found.set("B", True, "R", "")
    assert [one["type"] for one in found.all()] == ["B", "A", "C"]
    assert len(found.message("C")) == 32_768


def test_what_is_not_there_is_not_true_and_has_no_words() -> None:
    found = conditions()
    assert "A" not in found
    assert (found.is_true("A"), found.reason("A"), found.message("A"), found.since("A")) == (False, "", "", "")


def test_pods_that_were_never_ready_are_not_lost() -> None:
    found = conditions()
    lost(found)
    assert found.all() == []
    pods_ready(told(GangStage.RUNNING, ready=2), found)
    lost(found)
    assert (found.is_true("PodsReady"), found.reason("PodsReady")) == (False, "WaitForRecovery")
    pods_ready(told(GangStage.RUNNING, ready=1, succeeded=1), found)
    assert found.reason("PodsReady") == "Recovered"


def pod(phase: str = "Running", *, going: bool = False, bound: bool = True) -> Object:
    meta = {"name": "p", **({"deletionTimestamp": NOW} if going else {})}
    return {"metadata": meta, "spec": {"nodeName": "n"} if bound else {}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pods", "waits"),
    [
        ([pod(), pod()], False),
        ([pod(), pod("Failed")], True),
        ([pod(), pod("Succeeded")], False),
        ([pod(), pod(going=True)], False),  # it still runs
        ([pod(), pod(going=True, bound=False)], True),
    ],
)
def test_a_group_waits_for_pods_in_place_of_those_it_lost(pods: list[Object], waits: bool) -> None:
    found = conditions()
    replaced(told(GangStage.RUNNING, "PodGroup", tuple(pods)), found)
    assert found.is_true("WaitingForReplacementPods") is waits


def test_it_says_that_it_waits_no_more_only_if_it_waited() -> None:
    found = conditions()
    whole: Any = told(GangStage.RUNNING, "PodGroup", (pod(), pod()))
    replaced(whole, found)
    assert found.all() == []
    replaced(told(GangStage.RUNNING, "PodGroup", (pod(),)), found)
    replaced(whole, found)
    assert (found.is_true("WaitingForReplacementPods"), found.reason("WaitingForReplacementPods")) == (
        False,
        "PodsReady",
    )
    assert gangs.SET_NAME not in whole.options
