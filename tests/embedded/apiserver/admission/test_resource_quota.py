"""A namespace stays within its ResourceQuotas."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.admission import chain
from tests.embedded.apiserver.admission.test_chain import grown
from tests.embedded.apiserver.registry.kinds.writes import CONTAINER, Cluster, Object, create, pod, resource, stored


def refused(body: Object, cluster: Cluster, plural: str = "pods") -> str:
    with pytest.raises(StatusError) as caught:
        create(plural, body, cluster=cluster)
    assert caught.value.code in (403, 404)
    return caught.value.message


def quota(hard: Object, *others: Object, **spec: Any) -> Cluster:
    found = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
    return Cluster(objects={("", "resourcequotas"): [found], ("", "pods"): list(others)})


def asking(cpu: str) -> Object:
    return pod(containers=[{**CONTAINER, "resources": {"requests": {"cpu": cpu}}}])


def test_a_namespace_stays_within_its_quota() -> None:
    other = create("pods", asking("1500m"))
    within = quota({"requests.cpu": "2", "pods": "2"}, other)
    assert create("pods", asking("500m"), cluster=within)
    assert refused(asking("1"), within) == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1500m, '
        "limited: requests.cpu=2"
    )


def test_what_is_done_takes_nothing() -> None:
    done = create("pods", asking("2")) | {"status": {"phase": "Succeeded"}}
    assert create("pods", asking("2"), cluster=quota({"requests.cpu": "2"}, done))


def test_where_cpu_is_limited_every_pod_says_how_much_it_wants() -> None:
    assert refused(pod(), quota({"limits.cpu": "2"})).endswith("failed quota: q: must specify limits.cpu for: c")


@pytest.mark.parametrize(("scope", "held"), [("Terminating", False), ("NotTerminating", True), ("BestEffort", True)])
def test_a_scope_makes_a_quota_one_for_some_pods(scope: str, held: bool) -> None:
    cluster = quota({"pods": "0"}, scopes=[scope])
    if held:
        assert "exceeded quota" in refused(pod(), cluster)
    else:
        assert create("pods", pod(), cluster=cluster)


def test_any_kind_can_be_counted() -> None:
    cluster = quota({"count/configmaps": "0"})
    assert refused({"metadata": {"name": "a"}}, cluster, "configmaps") == (
        'configmaps "a" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=0, '
        "limited: count/configmaps=0"
    )


def test_pods_out_of_a_quotas_scope_take_nothing_of_it() -> None:
    limited_in_time = pod(activeDeadlineSeconds=60)
    cluster = quota({"pods": "1"}, create("pods", pod()), scopes=["Terminating"])
    assert create("pods", limited_in_time, cluster=cluster)
    cluster.objects["", "pods"].append(create("pods", limited_in_time))
    assert refused(limited_in_time, cluster) == (
        'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
    )


def test_objects_of_all_kinds_are_counted_together_but_for_events() -> None:
    cluster = quota({"phalanx.dev/objects": "3"}, create("pods", pod()))
    event: Object = {"metadata": {"name": "e", "namespace": "ns"}, "involvedObject": {"namespace": "ns"}}
    cluster.objects["", "events"] = [event]
    assert create("configmaps", {"metadata": {"name": "a"}}, cluster=cluster)
    cluster.objects["", "secrets"] = [{"metadata": {"name": "s"}}]
    assert refused({"metadata": {"name": "a"}}, cluster, "configmaps") == (
        'configmaps "a" is forbidden: exceeded quota: q, requested: phalanx.dev/objects=1, '
        "used: phalanx.dev/objects=3, limited: phalanx.dev/objects=3"
    )
    assert create("events", event, cluster=cluster, group="")


@pytest.mark.parametrize("group", ["", "events.k8s.io"])
def test_events_are_counted_under_one_name_in_both_groups(group: str) -> None:
    cluster = quota({"count/events": "1"})
    cluster.objects["", "events"] = [{"metadata": {"name": "old"}}]
    event: Object = {"metadata": {"name": "e", "namespace": "ns"}, "involvedObject": {"namespace": "ns"}}
    with pytest.raises(StatusError, match="requested: count/events=1, used: count/events=1, limited: count/events=1"):
        chain.admit(resource("events", group), event, None, cluster)


def test_bytes_of_all_objects_are_limited_when_they_are_made_and_when_they_grow() -> None:
    cluster = quota({"phalanx.dev/bytes": "1Ki"})
    small = {"metadata": {"name": "a", "namespace": "ns"}, "data": {"x": "x"}}
    large = small | {"data": {"x": "x" * 2000}}
    assert create("configmaps", small, cluster=cluster)
    assert "exceeded quota: q, requested: phalanx.dev/bytes=2" in refused(large, cluster, "configmaps")
    with pytest.raises(
        StatusError, match=r"exceeded quota: q, requested: phalanx\.dev/bytes=1999, used: phalanx\.dev/bytes"
    ):
        chain.grown(resource("configmaps"), large, small, cluster)
    chain.grown(resource("configmaps"), small, large, cluster)  # what lets go is never refused


CLAIM = {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk"}}

SERVICE = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}


def claim(size: str, phase: str = "Bound") -> Object:
    body = CLAIM | {"spec": CLAIM["spec"] | {"resources": {"requests": {"storage": size}}}}
    return stored("persistentvolumeclaims", body) | {"status": {"phase": phase, "capacity": {"storage": size}}}


@pytest.mark.parametrize("name", ["requests.storage", "disk.storageclass.storage.k8s.io/requests.storage"])
def test_a_claim_that_grows_is_held_to_its_quota(name: str) -> None:
    old, other = claim("1Gi"), claim("2Gi")
    cluster = Cluster(
        objects={
            ("", "resourcequotas"): [{"metadata": {"name": "q"}, "spec": {"hard": {name: "4Gi"}}}],
            ("", "persistentvolumeclaims"): [old, other],
            ("storage.k8s.io", "storageclasses"): [{"metadata": {"name": "disk"}, "allowVolumeExpansion": True}],
        }
    )
    assert grown("persistentvolumeclaims", old, claim("2Gi"), cluster) == ""
    assert grown("persistentvolumeclaims", old, claim("3Gi"), cluster) == (
        f'persistentvolumeclaims "c" is forbidden: exceeded quota: q, requested: {name}=2Gi, used: {name}=3Gi, '
        f"limited: {name}=4Gi"
    )
    assert grown("persistentvolumeclaims", claim("9Gi"), claim("9Gi"), cluster) == ""  # existing usage stays


def test_node_ports_of_services_are_counted_when_a_service_becomes_one() -> None:
    old = stored("services", SERVICE)
    new = stored("services", SERVICE | {"spec": SERVICE["spec"] | {"type": "NodePort"}})
    held = {"metadata": {"name": "q"}, "spec": {"hard": {"services.nodeports": "1", "services": "1"}}}
    cluster = Cluster(objects={("", "resourcequotas"): [held], ("", "services"): [old]})
    assert grown("services", old, new, cluster) == (
        'services "s" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, '
        "limited: services.nodeports=1"
    )
