"""Admission: the fields that plug-ins add to an object, and the objects that they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import ApiError
from phalanx.embedded.apiserver.admission import chain
from tests.embedded.apiserver.registry.kinds.writes import (
    CONTAINER,
    Cluster,
    Object,
    create,
    pod,
    resource,
    stored,
    update_refusal,
)

PRIORITIES = ("scheduling.k8s.io", "priorityclasses")
RUNTIMES = ("node.k8s.io", "runtimeclasses")
RANGES = ("", "limitranges")


def priority(name: str, value: int, **fields: Any) -> Object:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"} | fields


def refused(body: Object, cluster: Cluster, plural: str = "pods") -> str:
    with pytest.raises(ApiError) as caught:
        create(plural, body, cluster=cluster)
    assert caught.value.code in (403, 404)
    return caught.value.message


# --- namespaces ------------------------------------------------------------------------------------------------------


def test_nothing_is_created_where_there_is_no_namespace() -> None:
    assert refused(pod(), Cluster(namespaces=[])) == 'namespaces "ns" not found'


def test_nothing_new_in_a_namespace_that_is_going() -> None:
    going = {"metadata": {"name": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    with pytest.raises(ApiError) as caught:
        create("secrets", {"metadata": {"name": "late"}}, cluster=Cluster(namespaces=[going]))
    assert caught.value.message == (
        'secrets "late" is forbidden: unable to create new content in namespace ns because it is being terminated'
    )
    assert caught.value.status()["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace ns is being terminated",
            "field": "metadata.namespace",
        }
    ]


# --- service accounts ------------------------------------------------------------------------------------------------

ACCOUNTS = ("", "serviceaccounts")
YES, NO = {"automountServiceAccountToken": True}, {"automountServiceAccountToken": False}
SEEN_AT = "/var/run/secrets/kubernetes.io/serviceaccount"


def account(**fields: Any) -> Cluster:
    return Cluster({ACCOUNTS: [{"metadata": {"name": "spark", "namespace": "ns"}} | fields]})


def test_a_pod_that_names_an_account_sees_its_token() -> None:
    made = create(
        "pods", pod(serviceAccountName="spark", initContainers=[CONTAINER | {"name": "i"}]), cluster=account()
    )
    volume = made["spec"]["volumes"][-1]
    assert volume["name"].startswith("kube-api-access-")
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    for container in (*made["spec"]["initContainers"], *made["spec"]["containers"]):
        assert container["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": SEEN_AT}]


def test_where_the_pod_has_something_of_its_own_it_stays() -> None:
    own = {"name": "v", "mountPath": SEEN_AT}
    body = pod(serviceAccountName="spark", volumes=[{"name": "v", "emptyDir": {}}])
    body["spec"]["containers"] = [CONTAINER | {"volumeMounts": [own]}]
    made = create("pods", body, cluster=account())
    assert [volume["name"] for volume in made["spec"]["volumes"]] == ["v"]


@pytest.mark.parametrize(
    ("of_pod", "of_account", "mounted"),
    [({}, {}, True), ({}, NO, False), (YES, NO, True), (NO, YES, False)],
)
def test_who_wants_no_token_says_so(of_pod: Object, of_account: Object, mounted: bool) -> None:
    made = create("pods", pod(serviceAccountName="spark", **of_pod), cluster=account(**of_account))
    assert bool(made["spec"].get("volumes")) == mounted


def test_a_pod_that_names_no_account_stays_as_it_was_written() -> None:
    assert "volumes" not in create("pods", pod(), cluster=account())["spec"]


def test_an_account_that_is_not_there() -> None:
    assert refused(pod(serviceAccountName="nobody"), account()) == (
        'pods "p" is forbidden: error looking up service account ns/nobody: serviceaccount "nobody" not found'
    )


# --- priorities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (0, "PreemptLowerPriority", None)),
        ({"priorityClassName": "high"}, (1000, "Never", "high")),
        ({"priorityClassName": "high", "priority": 1000}, (1000, "Never", "high")),
    ],
)
def test_a_class_gives_a_pod_its_priority(spec: Object, expected: tuple[int, str, str | None]) -> None:
    cluster = Cluster(objects={PRIORITIES: [priority("high", 1000, preemptionPolicy="Never")]})
    found = create("pods", pod(**spec), cluster=cluster)["spec"]
    assert (found["priority"], found["preemptionPolicy"], found.get("priorityClassName")) == expected


def test_the_lowest_global_default_is_taken() -> None:
    marked = [priority("a", 20, globalDefault=True), priority("b", 10, globalDefault=True)]
    found = create("pods", pod(), cluster=Cluster(objects={PRIORITIES: marked}))["spec"]
    assert (found["priorityClassName"], found["priority"]) == ("b", 10)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        (
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 0 from the given PriorityClass name",
        ),
    ],
)
def test_a_priority_is_not_for_users_to_set(spec: Object, why: str) -> None:
    assert refused(pod(**spec), Cluster()) == f'pods "p" is forbidden: {why}'


def test_there_is_one_global_default() -> None:
    cluster = Cluster(objects={PRIORITIES: [priority("a", 1, globalDefault=True)]})
    body = {"metadata": {"name": "b"}, "value": 2, "globalDefault": True}
    assert refused(body, cluster, "priorityclasses").endswith(
        "PriorityClass a is already marked as default. Only one default can exist"
    )


# --- tolerations, runtime classes ------------------------------------------------------------------------------------


NOT_READY = {"key": "node.kubernetes.io/not-ready", "operator": "Exists"}


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ([], ["not-ready", "unreachable"]),
        ([{"operator": "Exists"}], []),
        ([NOT_READY | {"effect": "NoExecute"}], ["unreachable"]),
        ([NOT_READY | {"effect": "NoSchedule"}], ["not-ready", "unreachable"]),
    ],
)
def test_a_pod_outlives_its_nodes_silence_for_a_while(own: list[Object], added: list[str]) -> None:
    found = create("pods", pod(tolerations=own))["spec"]["tolerations"][len(own) :]
    assert [one["key"].rpartition("/")[2] for one in found] == added
    assert all(one["tolerationSeconds"] == 300 for one in found)


def test_a_runtime_class_brings_overhead_and_place() -> None:
    kata = {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}},
    }
    cluster = Cluster(objects={RUNTIMES: [kata]})
    found = create("pods", pod(runtimeClassName="kata"), cluster=cluster)["spec"]
    assert (found["overhead"], found["nodeSelector"]) == ({"cpu": "250m"}, {"vm": "yes"})
    assert refused(pod(runtimeClassName="odd"), cluster).endswith('pod rejected: RuntimeClass "odd" not found')
    assert refused(pod(overhead={"cpu": "1"}), cluster).endswith(
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    )


# --- limit ranges ----------------------------------------------------------------------------------------------------


def limited(**item: Any) -> Cluster:
    found = {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **item}]}}
    return Cluster(objects={RANGES: [found]})


def test_a_limit_range_fills_in_and_says_so() -> None:
    cluster = limited(default={"cpu": "500m"}, defaultRequest={"cpu": "100m"})
    obj = create("pods", pod(), cluster=cluster)
    assert obj["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
    assert obj["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    }
    assert obj["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("item", "resources", "why"),
    [
        (
            {"max": {"cpu": "1"}},
            {"limits": {"cpu": "3"}},
            "maximum cpu usage per Container is 1, but limit is 3",
        ),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "100m"}},
            "minimum cpu usage per Container is 1, but request is 100m",
        ),
        ({"min": {"cpu": "1"}}, {}, "minimum cpu usage per Container is 1.  No request is specified"),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
    ],
)
def test_what_is_out_of_range_is_refused(item: Object, resources: Object, why: str) -> None:
    body = pod(containers=[{**CONTAINER, "resources": resources}])
    assert refused(body, limited(**item)) == f'pods "p" is forbidden: {why}'


# --- quotas ----------------------------------------------------------------------------------------------------------


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
    with pytest.raises(ApiError, match="requested: count/events=1, used: count/events=1, limited: count/events=1"):
        chain.admit(resource("events", group), event, None, cluster)


def test_bytes_of_all_objects_are_limited_when_they_are_made_and_when_they_grow() -> None:
    cluster = quota({"phalanx.dev/bytes": "1Ki"})
    small = {"metadata": {"name": "a", "namespace": "ns"}, "data": {"x": "x"}}
    large = small | {"data": {"x": "x" * 2000}}
    assert create("configmaps", small, cluster=cluster)
    assert "exceeded quota: q, requested: phalanx.dev/bytes=2" in refused(large, cluster, "configmaps")
    with pytest.raises(
        ApiError, match=r"exceeded quota: q, requested: phalanx\.dev/bytes=1999, used: phalanx\.dev/bytes"
    ):
        chain.grown(resource("configmaps"), large, small, cluster)
    chain.grown(resource("configmaps"), small, large, cluster)  # what lets go is never refused


CLAIM = {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk"}}
SERVICE = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}}


def claim(size: str, phase: str = "Bound") -> Object:
    body = CLAIM | {"spec": CLAIM["spec"] | {"resources": {"requests": {"storage": size}}}}
    return stored("persistentvolumeclaims", body) | {"status": {"phase": phase, "capacity": {"storage": size}}}


def grown(plural: str, old: Object, new: Object, cluster: Cluster) -> str:
    """Return the refusal of an update; "" if it is accepted."""
    try:
        chain.admit(resource(plural), new, old, cluster)
    except ApiError as error:
        return error.message
    return ""


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


def test_a_claim_grows_where_its_class_says_so() -> None:
    assert grown("persistentvolumeclaims", claim("1Gi"), claim("2Gi"), Cluster()) == (
        'persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and the storageclass '
        "that provisions the pvc must support resize"
    )
    assert grown("persistentvolumeclaims", claim("1Gi", "Pending"), claim("2Gi", "Pending"), Cluster()) == ""
    smaller = update_refusal("persistentvolumeclaims", claim("2Gi"), {"spec": claim("1Gi")["spec"]})
    assert smaller == ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]


def test_node_ports_of_services_are_counted_when_a_service_becomes_one() -> None:
    old = stored("services", SERVICE)
    new = stored("services", SERVICE | {"spec": SERVICE["spec"] | {"type": "NodePort"}})
    held = {"metadata": {"name": "q"}, "spec": {"hard": {"services.nodeports": "1", "services": "1"}}}
    cluster = Cluster(objects={("", "resourcequotas"): [held], ("", "services"): [old]})
    assert grown("services", old, new, cluster) == (
        'services "s" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, '
        "limited: services.nodeports=1"
    )
