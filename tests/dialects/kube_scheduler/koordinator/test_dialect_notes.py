"""Settings without an effect are reported on their object."""

from __future__ import annotations

from phalanx.dialects.kube_scheduler.koordinator.dialect import KOORDINATOR


def test_what_has_no_effect_is_said_of_the_object() -> None:
    def said(kind: str, **obj: object) -> list[str]:
        return [text.partition(":")[0] for text in KOORDINATOR.notes(kind, {"metadata": {}, **obj})]

    assert said("PodGroup", spec={"minMember": 1, "scheduleTimeoutSeconds": 5}) == [
        "spec.scheduleTimeoutSeconds has no effect"
    ]
    assert said("Reservation", spec={"owners": [], "preAllocation": True}) == ["spec.preAllocation has no effect"]
    assert said("ScheduleExplanation", spec={}) == ["it has no effect"]
    assert said("ClusterColocationProfile", spec={"qosClass": "BE", "patch": {}}) == ["spec.patch has no effect"]
    notes = {"gang.scheduling.koordinator.sh/mode": "Strict", "koordinator.sh/odd": "1", "app": "a"}
    assert said("Pod", metadata={"annotations": notes}) == [
        "gang.scheduling.koordinator.sh/mode has no effect",
        "koordinator.sh/odd is unknown to Phalanx, and has no effect",
    ]
    quota = {"labels": {"quota.scheduling.koordinator.sh/tree-id": "t"}}
    assert said("ElasticQuota", metadata=quota) == ["quota.scheduling.koordinator.sh/tree-id has no effect"]
    assert said("Node", metadata={"annotations": {"node.koordinator.sh/reservation": "{}"}}) == [
        "node.koordinator.sh/reservation has no effect"
    ]
