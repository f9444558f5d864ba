"""The index finds a controller's pods, and the pods that a Job may adopt, after any order of changes."""

from __future__ import annotations

from typing import Any

from phalanx.client.connection import Object
from phalanx.client.informer import Change
from phalanx.client.kind import PODS
from phalanx.embedded.controllers.runtime.pod_state import CONTROLLER_UID, OwnerPodIndex


def pod(name: str, owner: str = "", namespace: str = "n", **labels: str) -> Object:
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
    if owner:
        meta["ownerReferences"] = [{"kind": "Job", "name": "j", "uid": owner, "controller": True}]
    return {"metadata": meta}


def job(uid: str, namespace: str = "n", *, own_selector: bool = False) -> Object:
    return {"metadata": {"uid": uid, "namespace": namespace}, "spec": {"manualSelector": own_selector}}


def names(pods: Any) -> list[str]:
    return [each["metadata"]["name"] for each in pods]


def test_a_controllers_pods_are_found_in_the_order_in_which_they_became_known() -> None:
    index = OwnerPodIndex()
    for each in (pod("b", "u1"), pod("a", "u1"), pod("c", "u2")):
        index.take(Change(kind=PODS, old=None, new=each))
    assert names(index.owned_by("u1")) == ["b", "a"]
    assert names(index.owned_by("u2")) == ["c"]
    assert index.owned_by("u3") == []
    index.take(Change(kind=PODS, old=pod("b", "u1"), new=None))
    assert names(index.owned_by("u1")) == ["a"]


def test_a_pod_that_loses_its_controller_may_be_adopted_by_the_job_of_its_label() -> None:
    index, before = OwnerPodIndex(), pod("a", "u1")
    index.take(Change(kind=PODS, old=None, new=before))
    index.take(Change(kind=PODS, old=before, new=pod("a", **{CONTROLLER_UID: "u2"})))
    assert index.owned_by("u1") == []
    assert names(index.loose(job("u2"))) == ["a"]
    assert names(index.loose(job("u3"))) == []


def test_a_job_with_a_selector_of_its_own_may_adopt_any_pod_of_its_namespace() -> None:
    index = OwnerPodIndex()
    for each in (
        pod("labelled", **{CONTROLLER_UID: "u2"}),
        pod("bare"),
        pod("elsewhere", namespace="m"),
        pod("own", "u"),
    ):
        index.take(Change(kind=PODS, old=None, new=each))
    assert names(index.loose(job("u9", own_selector=True))) == ["labelled", "bare"]
    assert names(index.loose(job("u9"))) == []
