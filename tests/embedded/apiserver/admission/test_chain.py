"""Admission: the fields that plug-ins add to an object, and the objects that they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
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


def priority(name: str, value: int, **fields: Any) -> Object:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"} | fields


def refused(body: Object, cluster: Cluster, plural: str = "pods") -> str:
    with pytest.raises(StatusError) as caught:
        create(plural, body, cluster=cluster)
    assert caught.value.code in (403, 404)
    return caught.value.message


def test_nothing_is_created_where_there_is_no_namespace() -> None:
    assert refused(pod(), Cluster(namespaces=[])) == 'namespaces "ns" not found'


def test_nothing_new_in_a_namespace_that_is_going() -> None:
    going = {"metadata": {"name": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    with pytest.raises(StatusError) as caught:
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


CLAIM = {"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk"}}


def claim(size: str, phase: str = "Bound") -> Object:
    body = CLAIM | {"spec": CLAIM["spec"] | {"resources": {"requests": {"storage": size}}}}
    return stored("persistentvolumeclaims", body) | {"status": {"phase": phase, "capacity": {"storage": size}}}


def grown(plural: str, old: Object, new: Object, cluster: Cluster) -> str:
    """Return the refusal of an update; "" if it is accepted."""
    try:
        chain.admit(resource(plural), new, old, cluster)
    except StatusError as error:
        return error.message
    return ""


def test_a_claim_grows_where_its_class_says_so() -> None:
    assert grown("persistentvolumeclaims", claim("1Gi"), claim("2Gi"), Cluster()) == (
        'persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and the storageclass '
        "that provisions the pvc must support resize"
    )
    assert grown("persistentvolumeclaims", claim("1Gi", "Pending"), claim("2Gi", "Pending"), Cluster()) == ""
    smaller = update_refusal("persistentvolumeclaims", claim("2Gi"), {"spec": claim("1Gi")["spec"]})
    assert smaller == ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
