"""YuniKorn's applications: their queue and order, their rejection, and the time limit of a gang."""

from __future__ import annotations

import json
from typing import Any

import pytest

from phalanx.client.kind import PRIORITY_CLASSES
from phalanx.client.moment import write_moment
from phalanx.dialects.frame.dialect import Claim, GangStage, GangView, Object, Said
from phalanx.dialects.yunikorn.checks import read
from phalanx.dialects.yunikorn.dialect import CONFIGURATIONS, YUNIKORN, YuniKornDefinitions
from phalanx.dialects.yunikorn.gangs import GIVEN_UP, QUEUE_OPTION, options_of
from phalanx.dialects.yunikorn.queues import translate
from phalanx.model.queue import Queue, QueueOrder, QueuePreemption, ReclaimWithinCohort

SITE = """
partitions:
- queues:
  - name: root
    submitacl: '*'
    queues:
    - {name: fifo, resources: {max: {vcore: 2}}}
    - name: fair
      properties: {application.sort.policy: fair, preemption.delay: 1s}
      resources: {guaranteed: {vcore: 1}}
    - {name: fenced, properties: {priority.policy: fence, priority.offset: "7"}}
"""
NOW_S = 1_780_000_000.0
GROUP = {"name": "g", "minMember": 3, "minResource": {"cpu": "1"}}


def defined(text: str = SITE) -> YuniKornDefinitions:
    return YUNIKORN.define({CONFIGURATIONS: {"yunikorn/yunikorn-configs": {"data": {"queues.yaml": text}}}})


def pod(queue: str, owner: str = "", **annotations: str) -> Object:
    notes = {f"yunikorn.apache.org/{key.replace('_', '-')}": text for key, text in annotations.items()}
    owners = [{"kind": owner, "controller": True}] if owner else []
    labels = {"applicationId": "app", "queue": queue}
    meta = {"name": "p", "namespace": "ns", "labels": labels, "annotations": notes, "ownerReferences": owners}
    return {"kind": "Pod", "metadata": meta, "spec": {}, "status": {"phase": "Pending", "qosClass": "Burstable"}}


def gang(queue: str, parameters: str = "") -> Object:
    notes = {"task_groups": json.dumps([GROUP]), "task_group_name": "g"}
    found = pod(queue, **notes)
    if parameters:
        found["metadata"]["annotations"]["yunikorn.apache.org/schedulingPolicyParameters"] = parameters
    return found


def read_options(one: Object) -> dict[str, str]:
    return dict(options_of(one["metadata"], "yunikorn"))


def claimed(one: Object) -> Claim:
    options = read_options(one)
    said = Said(gang="ns/app", namespace="ns", queue=options[QUEUE_OPTION], options=options)
    found = YUNIKORN.claim(defined(), said, {})
    assert found is not None
    return found


def answered(one: Object, *, waited_s: float = 0.0, stage: GangStage = GangStage.WAITING) -> list[Any]:
    usual: dict[str, Any] = {"id": "ns/app", "namespace": "ns", "kind": "PodGroup", "priority": 0, "pod_sets": ()}
    options = read_options(one)
    created_s = NOW_S - waited_s
    told = GangView(**usual, owners=(one,), options=options, queue="q", stage=stage, created_s=created_s)
    return list(YUNIKORN.answer(defined(), told, {}, write_moment(NOW_S)))


def test_parents_compare_priorities_and_how_full_queues_are() -> None:
    queues = {queue.name: queue for queue in defined().queues}
    assert queues["yunikorn/root"].order is QueueOrder.FILL
    assert (queues["yunikorn/root.fenced"].fenced, queues["yunikorn/root.fenced"].priority) == (True, 7)
    assert queues["yunikorn/root.fair"].preemption.reclaim is ReclaimWithinCohort.LOWER_OR_EQUAL


def test_applications_of_a_fifo_leaf_take_what_fits_in_turn() -> None:
    found = claimed(pod("root.fifo"))
    assert (found.queue, found.options["phalanx.dev/size"], found.queues) == ("yunikorn/root.fifo", "in-turn", ())
    assert "phalanx.dev/size" not in claimed(gang("root.fenced")).options


def test_each_application_of_a_fair_leaf_is_a_queue_below_it() -> None:
    found = claimed(pod("root.fair"))
    rights = QueuePreemption(reclaim=ReclaimWithinCohort.LOWER_OR_EQUAL, delay_s=1.0)
    own = Queue(name="yunikorn/root.fair|ns/app", parent="yunikorn/root.fair", preemption=rights)
    assert (found.queue, found.queues) == (own.name, (own,))
    assert "phalanx.dev/size" not in found.options


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (pod("root.absent"), "no placement rule"),
        (gang("root.fair"), "needs a queue whose application.sort.policy is fifo"),
        (gang("root.fifo"), "its task groups together request more cpu than the queue root.fifo may ever have"),
    ],
)
def test_a_rejected_application_fails(one: Object, reason: str) -> None:
    blocked = claimed(one).blocked
    assert blocked is not None
    assert reason in blocked.text
    (found,) = answered(one)
    assert (found.key, found.status["phase"], found.status["reason"]) == ("ns/p", "Failed", "ApplicationRejected")
    assert reason in found.status["message"]
    assert found.status["qosClass"] == "Burstable"  # the other fields of the status stay


def test_pods_that_their_owner_would_make_anew_for_ever_wait() -> None:
    assert answered(pod("root.absent", owner="ReplicaSet")) == []
    assert len(answered(pod("root.absent", owner="Job"))) == 1


def test_a_soft_gang_is_given_up_after_its_time() -> None:
    one = gang("root.fenced", "placeholderTimeoutInSeconds=10 gangSchedulingStyle=Soft")
    (early,) = answered(one, waited_s=4.0)
    assert (early.again_s, early.status, early.annotations) == (NOW_S + 6.0, None, None)
    (late,) = answered(one, waited_s=10.0)
    assert (late.key, late.annotations, late.status) == ("ns/p", {GIVEN_UP: "soft"}, None)
    one["metadata"]["annotations"] |= late.annotations
    assert (claimed(one).options["phalanx.dev/size"], claimed(one).group is None) == ("in-turn", False)
    assert answered(one, waited_s=100.0) == []


def test_a_hard_gang_fails_after_its_time() -> None:
    one = gang("root.fenced", "gangSchedulingStyle=Hard")
    (early,) = answered(one, waited_s=899.0)  # fifteen minutes, which is YuniKorn's default
    assert early.again_s == NOW_S + 1.0
    assert answered(one, waited_s=900.0, stage=GangStage.RUNNING) == []
    (marked,) = answered(one, waited_s=900.0)
    assert (marked.annotations, marked.status) == ({GIVEN_UP: "hard"}, None)
    one["metadata"]["annotations"] |= marked.annotations
    assert claimed(one).blocked is not None  # so the gang does not start while its pods are set to Failed
    (late,) = answered(one, waited_s=900.0)
    assert (late.status["phase"], late.status["reason"]) == ("Failed", "ResourceReservationTimeout")


def test_a_gang_without_parameters_waits() -> None:
    assert answered(gang("root.fenced"), waited_s=10_000.0) == []


@pytest.mark.parametrize(
    ("preemption", "queue", "spec"),
    [
        ("{quotapreemptionenabled: true}", "resources: {max: {vcore: 4}}", {"excessDelay": 90.0}),
        ("{quotapreemptionenabled: true}", "parent: false", {}),
        ("{enabled: true}", "resources: {max: {vcore: 4}}", {}),
    ],
)
def test_quota_preemption_of_a_queue(preemption: str, queue: str, spec: dict[str, Any]) -> None:
    inner = f"{{name: a, {queue}}}"
    root = f"{{name: root, properties: {{quota.preemption.delay: 1m30s}}, queues: [{inner}]}}"
    found = translate(read(f"partitions: [{{preemption: {preemption}, queues: [{root}]}}]"))
    assert found.queues["root.a"].get("preemption", {}) == spec


def test_a_leaf_reclaims_what_a_queue_above_it_is_guaranteed() -> None:
    inner = "{name: p, resources: {guaranteed: {vcore: 4}}, queues: [{name: a}]}"
    found = translate(read(f"partitions: [{{queues: [{{name: root, queues: [{inner}, {{name: b}}]}}]}}]"))
    assert found.queues["root.p.a"]["preemption"]["reclaim"] == "lower-or-equal"
    assert "preemption" not in found.queues["root.b"]


def test_a_priority_class_opts_out_for_pods_that_say_nothing() -> None:
    def is_last_victim(notes: dict[str, str], class_name: str) -> bool:
        one = pod("root.fifo", **notes)
        options = options_of({**one["metadata"], "priority": (class_name, 5)}, "yunikorn")
        said = Said(gang="ns/app", namespace="ns", queue=options[QUEUE_OPTION], options=options)
        found = YUNIKORN.claim(with_classes, said, {})
        assert found is not None
        return "phalanx.dev/last-victim" in found.options

    note = {"yunikorn.apache.org/allow-preemption": "false"}
    classes = {"stays": {"metadata": {"name": "stays", "annotations": note}}, "plain": {"metadata": {"name": "plain"}}}
    maps = {"yunikorn/yunikorn-configs": {"data": {"queues.yaml": SITE}}}
    with_classes = YUNIKORN.define({CONFIGURATIONS: maps, PRIORITY_CLASSES: classes})
    assert is_last_victim({}, "stays")
    assert not is_last_victim({}, "plain")
    assert not is_last_victim({}, "unknown")
    assert not is_last_victim({"allow_preemption": "true"}, "stays")
    assert is_last_victim({"allow_preemption": "false"}, "plain")


def test_the_oldest_pod_says_whether_the_application_goes_last() -> None:
    unwilling = claimed(pod("root.fifo", allow_preemption="false"))
    assert unwilling.options["phalanx.dev/last-victim"] == "true"
    assert "phalanx.dev/preemptible" not in claimed(pod("root.fifo", allow_preemption="true")).options


def test_a_configuration_at_fault_names_its_config_map() -> None:
    found = defined("partitions:\n  - colour: red")
    assert (found.fault_at, found.queues) == ((CONFIGURATIONS, "yunikorn/yunikorn-configs"), ())
