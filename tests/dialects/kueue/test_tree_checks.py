"""AdmissionChecks: those that send jobs to other clusters, and what checks demand of a Workload."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.dialects.kueue import kinds
from phalanx.dialects.kueue.tree import checks
from phalanx.dialects.kueue.tree.checks import CONTROLLER, UpdateConflict
from tests.dialects.kueue.written import cluster_queue, local_queue, objects

CONFIGS = {"both": {"spec": {"clusters": ["a", "b"]}}}
ACTIVE = {"status": {"conditions": [{"type": "Active", "status": "True"}]}}


def check(config: str = "both", controller: str = CONTROLLER, kind: str = "MultiKueueConfig") -> dict[str, Any]:
    return {"spec": {"controllerName": controller, "parameters": {"kind": kind, "name": config}}}


def test_clusters_are_those_of_the_config_in_its_order() -> None:
    assert checks.clusters_of(check(), CONFIGS) == ("a", "b")
    for other in (check("none"), check(controller="x"), check(kind="Other"), {}):
        assert checks.clusters_of(other, CONFIGS) is None
    assert checks.all_clusters({"one": check(), "two": check("none")}, CONFIGS) == {"one": ("a", "b")}


@pytest.mark.parametrize(
    ("clusters", "truth", "reason", "message"),
    [
        ({"a": ACTIVE, "b": ACTIVE}, True, "Active", "The admission check is active"),
        ({"a": ACTIVE}, True, "SomeActiveClusters", "Missing clusters: [b]"),
        ({"a": {}, "b": ACTIVE}, True, "SomeActiveClusters", "Inactive clusters: [a]"),
        ({"a": {}}, False, "NoUsableClusters", "Missing clusters: [b], Inactive clusters: [a]"),
    ],
)
def test_a_check_is_active_while_one_cluster_is(clusters: Any, truth: bool, reason: str, message: str) -> None:
    assert checks.activity(check(), CONFIGS, clusters) == (truth, reason, message)


def test_a_check_without_its_config_is_not_active() -> None:
    found = checks.activity(check("none"), CONFIGS, {})
    assert (found.truth, found.reason) == (False, "BadConfig")
    assert found.message.endswith("they name: none")


def test_local_queues_of_queues_that_send_are_listed() -> None:
    some = objects(
        cluster_queues=[
            cluster_queue("plain"),
            cluster_queue("old", admissionChecks=["c"]),
            cluster_queue("new", admissionChecksStrategy={"admissionChecks": [{"name": "c"}]}),
        ],
        local_queues=[local_queue(name, name) for name in ("plain", "old", "new")],
    )
    assert checks.sending_queues(some) == ""
    sends = {**some, kinds.ADMISSION_CHECKS: {"c": check()}}
    assert checks.sending_queues(sends) == ",default/new,default/old,"


def status(**states: str) -> Any:
    listed = [{"name": name, "state": state} for name, state in states.items()]
    sets = [{"name": "main", "flavors": {"cpu": "f"}}]
    return {"admissionChecks": listed, "admission": {"podSetAssignments": sets}}


def test_a_workload_waits_for_the_checks_of_its_flavors() -> None:
    asked: list[frozenset[str]] = []

    def on(flavors: frozenset[str]) -> list[str]:
        asked.append(flavors)
        return ["a", "b"]

    assert checks.gate(on, status(a="Ready", b="Ready", c="Pending")) is None
    waits = checks.gate(on, status(a="Ready"))
    assert waits is not None
    assert waits.text == "it waits for AdmissionCheck(s): b"
    assert asked == [frozenset({"f"})] * 2
    early = checks.gate(on, {})
    assert early is not None
    assert early.text == "its AdmissionChecks begin when its quota is reserved"


def test_a_check_that_is_to_be_retried_turns_a_workload_down() -> None:
    retried = checks.turned_down(status(a="Retry"))
    assert retried is not None
    assert retried.text == 'Evicted due to AdmissionCheck(s) in Retry state: "a" ()'
    later = checks.turned_down({"requeueState": {"requeueAt": "noon"}})
    assert later is not None
    assert later.text == "an AdmissionCheck is tried again at noon"
    assert checks.turned_down(status(a="Pending")) is None


def workload(*updates: dict[str, Any], **template: Any) -> Any:
    listed = [{"name": f"c{at}", "podSetUpdates": [{"name": "main", **one}]} for at, one in enumerate(updates)]
    return {"spec": {"podSets": [{"name": "main", "template": template}]}, "status": {"admissionChecks": listed}}


def test_updates_of_several_checks_are_joined() -> None:
    tolerates = {"tolerations": [{"key": "k"}]}
    found = checks.updates(workload({"labels": {"a": "1"}, **tolerates}, {"nodeSelector": {"n": "2"}, **tolerates}), {})
    assert (dict(found["main"].labels), dict(found["main"].node_selector)) == ({"a": "1"}, {"n": "2"})
    assert [one.key for one in found["main"].tolerations] == ["k"]


@pytest.mark.parametrize(
    ("some", "flavor"),
    [
        (workload({"labels": {"a": "1"}}, {"labels": {"a": "2"}}), {}),
        (workload({"labels": {"a": "1"}}, metadata={"labels": {"a": "2"}}), {}),
        (workload({"nodeSelector": {"a": "1"}}, spec={"nodeSelector": {"a": "2"}}), {}),
        (workload({"nodeSelector": {"a": "1"}}), {"a": "2"}),
    ],
)
def test_two_values_of_one_key_are_a_conflict(some: Any, flavor: dict[str, str]) -> None:
    with pytest.raises(UpdateConflict, match="set a to different values: "):
        checks.updates(some, flavor)


def test_after_an_eviction_checks_are_pending_and_retries_are_counted() -> None:
    pending: Any = {"name": "c", "state": "Pending"}
    assert checks.reset(pending, "now") is pending
    retried: Any = {"name": "c", "state": "Retry", "retryCount": 2}
    assert checks.reset(retried, "now")["retryCount"] == 3
    ready: Any = {"name": "c", "state": "Ready", "podSetUpdates": []}
    assert checks.reset(ready, "now") == {
        "name": "c",
        "state": "Pending",
        "message": "Reset to Pending after eviction. Previously: Ready",
        "lastTransitionTime": "now",
    }


def test_a_workload_that_failed_to_start_is_not_tried_again() -> None:
    ended: Any = {"conditions": [{"type": "Finished", "status": "True", "reason": "FailedToStart", "message": "m"}]}
    found = checks.failed_to_start(ended)
    assert found == checks.cannot_start("m")
    ended["conditions"][0]["reason"] = "Succeeded"
    assert checks.failed_to_start(ended) is None
    assert not checks.admitted(ended)
