"""`dialects/kai/status.py`: PodGroups and the statuses of Queues, as KAI's users read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from phalanx.dialects.frame.dialect import BROUGHT_BY, GangStage, GangView, Object, PodSet
from phalanx.dialects.kai import kinds, status
from phalanx.dialects.kai.grouper import DEVICES, FRACTION, GROUP_NAME, MEMORY
from phalanx.dialects.kai.queues import GPU, KaiDefinitions, define
from phalanx.dialects.kai.status import amounts, pod_group, queues
from phalanx.model.pod import amounts as requests
from phalanx.model.reason import Reason, ReasonCode

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
POD: Object = {"kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "a"}}}
TWO = PodSet(name="main", count=2, minimum=2, request=requests({"cpu": 500, GPU: 1, "pods": 1}), template={})
PREFIX = "pg"


def told(stage: GangStage = GangStage.WAITING, *, annotations: Any = None, **more: Any) -> GangView:
    owner = {**POD, "metadata": {**POD["metadata"], "annotations": annotations or {}}}
    usual: dict[str, Any] = {
        "id": f"ns/{kinds.gang_name(PREFIX)}",
        "namespace": "ns",
        "kind": "PodGroup",
        "owners": (owner,),
        "options": {},
        "queue": kinds.tree_queue("team"),
        "priority": 0,
        "stage": stage,
        "pod_sets": (TWO,),
    }
    return GangView(**{**usual, **more})


def defined() -> KaiDefinitions:
    specs = {"top": {}, "team": {"parentQueue": "top"}, "other": {"parentQueue": "top"}}
    return define({kinds.QUEUES: {name: {"metadata": {"name": name}, "spec": spec} for name, spec in specs.items()}})


def statuses(*gangs: GangView) -> dict[str, Any]:
    return {answer.key: answer.status for answer in queues(defined(), gangs, {}) if answer.status is not None}


@pytest.mark.parametrize(
    ("stage", "placed", "allocated"),
    [
        (GangStage.WAITING, 0, {}),
        (GangStage.RESERVED, 2, {}),  # no pod has a node yet
        (GangStage.STARTING, 1, {"cpu": 500, GPU: 1}),
        (GangStage.RUNNING, 2, {"cpu": 1000, GPU: 2}),
        (GangStage.LEAVING, 1, {"cpu": 500, GPU: 1}),
    ],
)
def test_amounts_of_placed_pods_and_of_all(stage: GangStage, placed: int, allocated: Any) -> None:
    found = amounts(told(stage, pod_sets=(replace(TWO, placed=placed),)))
    assert found == (allocated, {"cpu": 1000, GPU: 2})


@pytest.mark.parametrize(
    ("notes", "gpus"),
    [
        ({FRACTION: "0.5"}, "500m"),
        ({FRACTION: "0.5", DEVICES: "3"}, "1500m"),
        ({FRACTION: "0.33333"}, "333m"),  # thousandths are the smallest unit of quantities
        ({MEMORY: "2000"}, "1"),
        ({MEMORY: "2000", DEVICES: "2"}, "2"),
        ({FRACTION: "1.5"}, None),
        ({FRACTION: "-0.5"}, None),
        ({FRACTION: "half"}, None),
        ({FRACTION: "0.5", DEVICES: "many"}, None),
        ({}, None),
    ],
)
def test_parts_of_gpus_are_charged(notes: dict[str, str], gpus: str | None) -> None:
    one = PodSet(name="main", count=1, minimum=1, request=requests({"cpu": 1, "pods": 1}), template={})
    asked = amounts(told(annotations=notes, pod_sets=(one,)))[1]
    assert status._quantities(asked).get(GPU) == gpus


def test_a_queue_has_the_amounts_of_its_gangs_and_of_the_queues_below() -> None:
    running = told(GangStage.RUNNING, pod_sets=(replace(TWO, placed=2),))
    elsewhere = told(queue=kinds.tree_queue("other"))
    found = statuses(running, elsewhere, told(GangStage.FINISHED), told(queue="own"))
    assert found["team"] == {
        "allocated": {"cpu": "1", GPU: "2"},
        "allocatedNonPreemptible": {},
        "requested": {"cpu": "1", GPU: "2"},
    }
    assert (found["other"]["allocated"], found["other"]["requested"]) == ({}, {"cpu": "1", GPU: "2"})
    assert found["top"]["requested"] == {"cpu": "2", GPU: "4"}
    assert sorted(found["top"]["childQueues"]) == ["other", "team"]
    assert "childQueues" not in found["team"]


def test_amounts_of_gangs_that_cannot_be_preempted_are_told_apart() -> None:
    high = told(GangStage.RUNNING, pod_sets=(replace(TWO, placed=2),), priority=100)
    assert statuses(high)["top"]["allocatedNonPreemptible"] == {"cpu": "1", GPU: "2"}


def test_default_queues_exist_from_the_first_queue_or_gang_on() -> None:
    def brought(definitions: KaiDefinitions, *gangs: GangView) -> list[str]:
        return [answer.key for answer in queues(definitions, gangs, {}) if answer.body is not None]

    nothing = define({kinds.QUEUES: {}})
    assert brought(nothing) == []
    assert brought(nothing, told()) == list(status.BROUGHT) == ["default-parent-queue", "default-queue"]
    assert brought(defined()) == list(status.BROUGHT)
    own = define({kinds.QUEUES: {"default-queue": {"metadata": {"name": "default-queue"}, "spec": {}}}})
    assert brought(own) == ["default-parent-queue"]
    for body in status.BROUGHT.values():
        assert body["metadata"]["labels"] == {BROUGHT_BY: "kai"}
    assert status.BROUGHT["default-queue"]["spec"]["parentQueue"] == "default-parent-queue"


# --- PodGroups --------------------------------------------------------------------------------------------------------


def group(of: GangView, there: Any = None, now: str = NOW) -> Any:
    key = f"ns/{kinds.pod_group_of(of.id)}"
    found = pod_group(defined(), of, {kinds.POD_GROUPS: {key: there}} if there else {}, now)
    assert found is not None
    assert found.key == key
    return found


def test_a_gang_without_a_pod_group_has_no_answer() -> None:
    assert pod_group(defined(), told(id="ns/plain"), {}, NOW) is None


def test_a_group_that_the_user_made_is_not_created() -> None:
    assert group(told(options={GROUP_NAME: PREFIX})).body is None
    assert group(told()).body["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert group(told()).body["metadata"]["labels"] == {"app": "a"}


def test_resources_of_a_group_by_its_stage() -> None:
    waiting = group(told()).status["resourcesStatus"]
    assert waiting == {"allocated": {}, "allocatedNonPreemptible": {}, "requested": {"cpu": "1", GPU: "2"}}
    over = group(told(GangStage.FINISHED)).status
    assert over == {"resourcesStatus": {"allocated": {}, "allocatedNonPreemptible": {}, "requested": {}}}


WHY = Reason(code=ReasonCode.NO_ROOM, text="no node has 2 GPUs")


def test_a_waiting_gang_says_why() -> None:
    [found] = group(told(reason=WHY)).status["schedulingConditions"]
    assert (found["type"], found["status"], found["nodePool"]) == ("UnschedulableOnNodePool", "True", "default")
    assert found["message"] == f"{WHY.code}: {WHY.text}"
    assert [one["reason"] for one in found["reasons"]] == ["PodSchedulingErrors"]
    assert (found["transitionID"], found["lastTransitionTime"]) == ("1", NOW)


@pytest.mark.parametrize("stage", [GangStage.STARTING, GangStage.RUNNING, GangStage.FINISHED])
def test_a_gang_that_does_not_wait_has_no_condition(stage: GangStage) -> None:
    assert "schedulingConditions" not in group(told(stage, reason=WHY)).status
    assert "schedulingConditions" not in group(told()).status


def test_a_condition_is_numbered_anew_only_if_it_changes() -> None:
    first = group(told(reason=WHY)).status
    again = group(told(reason=WHY), {"status": first}, LATER).status
    assert again == first
    other = group(told(reason=replace(WHY, text="other")), {"status": first}, LATER).status
    [found] = other["schedulingConditions"]
    assert (found["transitionID"], found["lastTransitionTime"]) == ("2", LATER)
    first["schedulingConditions"][0]["transitionID"] = "odd"
    assert group(told(reason=replace(WHY, text="x")), {"status": first}).status["schedulingConditions"][0][
        "transitionID"
    ] == "1"  # fmt: skip
