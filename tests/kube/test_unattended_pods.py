"""Pods that name a scheduler which runs nowhere get one Event."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.client.kind import PODS, Kind
from phalanx.client.moment import write_moment
from phalanx.dialects.frame.dialect import Object
from phalanx.kube.routing.settings import KubeSettings
from phalanx.kube.status.unattended_pods import AFTER_S, REASON, UnattendedPods, unattended_pods

GROUP = "scheduling.x-k8s.io/pod-group"


def pod(name: str, *, scheduler: str = "theirs", made_s: float = 0.0, **more: Any) -> Object:
    meta = {"name": name, "namespace": "default", "labels": {GROUP: "g"}, "creationTimestamp": write_moment(made_s)}
    status = {"phase": "Pending", **more.pop("status", {})}
    return {
        "metadata": {**meta, **more.pop("metadata", {})},
        "spec": {"schedulerName": scheduler, **more},
        "status": status,
    }


def reports(*pods: Object, now_s: float = AFTER_S, times: int = 1) -> list[tuple[Kind, str, str, str]]:
    found: list[tuple[Kind, str, str, str]] = []
    here = UnattendedPods(
        lambda: {str(number): one for number, one in enumerate(pods)},
        frozenset({"phalanx", "volcano"}),
        lambda meta: GROUP in (meta.get("labels") or {}),
        lambda kind, meta, reason, text: found.append((kind, meta["name"], reason, text)),
        lambda: now_s,
    )
    for _ in range(times):
        here.check()
    return found


def test_group_that_no_scheduler_tries_gets_one_event() -> None:
    ((kind, name, reason, text),) = reports(pod("a"), pod("b"), times=2)
    assert (kind, name, reason) == (PODS, "a", REASON)
    assert text == (
        "no scheduler named theirs has tried this pod for 60 s: start that scheduler, or set spec.schedulerName to one "
        "of phalanx, volcano"
    )
    other = pod("c", metadata={"labels": {GROUP: "other"}})
    assert [one[1] for one in reports(pod("a"), other)] == ["a", "c"]


@pytest.mark.parametrize(
    "attended",
    [
        pod("young", made_s=1.0),
        pod("bound", nodeName="n"),
        pod("tried", status={"conditions": [{"type": "PodScheduled", "status": "False"}]}),
        pod("gated", schedulingGates=[{"name": "x"}]),
        pod("ours", scheduler="volcano"),
        pod("plain", scheduler="default-scheduler"),
        pod("over", status={"phase": "Failed"}),
        pod("going", metadata={"deletionTimestamp": write_moment(1.0)}),
        pod("of-no-group", metadata={"labels": {}}),
    ],
    ids=lambda one: one["metadata"]["name"],
)
def test_attended_pod_is_not_reported(attended: Object) -> None:
    assert reports(attended) == []


def test_only_groups_are_reported_where_other_schedulers_may_run() -> None:
    plain = pod("plain", metadata={"labels": {}})

    def named(settings: KubeSettings) -> list[str]:
        found: list[str] = []
        pods = {"default/plain": plain, "default/a": pod("a")}
        here = unattended_pods(
            settings, lambda: pods, lambda kind, meta, *_: found.append(meta["name"]), lambda: AFTER_S
        )
        here.check()
        return found

    assert named(KubeSettings(sole=True)) == ["plain", "a"]
    assert named(KubeSettings(dialects=frozenset({"scheduler-plugins"}))) == ["a"]
    assert named(KubeSettings()) == []
