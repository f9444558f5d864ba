"""ConfigMaps, secrets, services, claims, limit ranges, quotas, roles."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import ApiError
from phalanx.embedded.apimachinery.schema import formats
from tests.embedded.apiserver.registry.kinds.writes import (
    Cluster,
    Object,
    create,
    refusal,
    resource,
    stored,
    update,
    update_refusal,
)


def named(**fields: Any) -> Object:
    return {"metadata": {"name": "a"}, **fields}


FROZEN = "Forbidden: field is immutable when `immutable` is set"


def test_an_immutable_config_map_stays() -> None:
    old = stored("configmaps", named(data={"k": "v"}, immutable=True))
    assert update_refusal("configmaps", old, {"data": {"k": "w"}}) == [f"data: {FROZEN}"]
    assert update_refusal("configmaps", old, {"immutable": None}) == [f"immutable: {FROZEN}"]
    assert update_refusal("configmaps", old, {"metadata": {"labels": {"a": "b"}}}) == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"data": {"a/b": "v"}}, "data[a/b]"),
        ({"data": {"k": "v"}, "binaryData": {"k": "aGk="}}, "data[k]"),
        ({"data": {"k": "x" * 1048577}}, ""),
    ],
)
def test_wrong_config_maps_are_refused(fields: Object, field: str) -> None:
    assert [line.split(":")[0] for line in refusal("configmaps", named(**fields))] == [field]


def test_texts_of_a_secret_become_bytes() -> None:
    obj = create("secrets", named(stringData={"k": "v"}, data={"l": "bA=="}))
    assert obj["data"] == {"k": base64.b64encode(b"v").decode(), "l": "bA=="}
    assert "stringData" not in obj
    assert obj["type"] == "Opaque"


@pytest.mark.parametrize(
    ("sort", "lines"),
    [
        ("kubernetes.io/tls", ["data[tls.crt]: Required value", "data[tls.key]: Required value"]),
        ("kubernetes.io/ssh-auth", ["data[ssh-privatekey]: Required value"]),
        ("kubernetes.io/dockerconfigjson", ["data[.dockerconfigjson]: Required value"]),
        ("example.com/own", []),
    ],
)
def test_a_type_of_secret_says_what_it_holds(sort: str, lines: list[str]) -> None:
    assert refusal("secrets", named(type=sort)) == lines


def test_the_type_of_a_secret_is_fixed() -> None:
    assert update_refusal("secrets", stored("secrets", named()), {"type": "x"}) == [
        'type: Invalid value: "x": field is immutable'
    ]


# --- services --------------------------------------------------------------------------------------------------------


def service(**spec: Any) -> Object:
    return named(spec={"ports": [{"port": 80}]} | spec)


def test_a_service_gets_addresses_and_defaults() -> None:
    spec = create("services", service())["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["clusterIP"].startswith("10.96.")
    assert (spec["type"], spec["sessionAffinity"]) == ("ClusterIP", "None")
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"], spec["internalTrafficPolicy"]) == (
        ["IPv4"],
        "SingleStack",
        "Cluster",
    )


def test_two_services_never_share_an_address() -> None:
    first = create("services", service() | {"metadata": {"name": "b"}})
    cluster = Cluster(objects={("", "services"): [first]})
    assert create("services", service(), cluster=cluster)["spec"]["clusterIP"] != first["spec"]["clusterIP"]


def test_nobody_has_the_address_at_which_pods_reach_the_api() -> None:
    with pytest.raises(ApiError, match=r"failed to allocate IP 10\.96\.0\.1: provided IP is already allocated"):
        create("services", service(clusterIP="10.96.0.1"))


def test_a_headless_service_keeps_none() -> None:
    spec = create("services", service(clusterIP="None", selector={"a": "b"}))["spec"]
    assert (spec["clusterIP"], spec["clusterIPs"]) == ("None", ["None"])


def test_an_address_stays_when_a_client_leaves_it_out_and_may_not_change() -> None:
    old = stored("services", service())
    kept = update("services", old, {"spec": {"clusterIP": None, "clusterIPs": None}})
    assert kept["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    assert update_refusal("services", old, {"spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}}) == [
        'spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]: may not change once set'
    ]


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"ports": []}, ["spec.ports: Required value"]),
        (
            {"ports": [{"port": 80}, {"port": 81}]},
            ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
        ),
        ({"ports": [{"port": 0}]}, ["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"]),
        ({"type": "ExternalName", "ports": []}, ["spec.externalName: Required value"]),
        (
            {"type": "Odd"},
            [
                'spec.type: Unsupported value: "Odd": supported values: '
                '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'
            ],
        ),
    ],
)
def test_wrong_services_are_refused(spec: Object, lines: list[str]) -> None:
    found = refusal("services", service(**spec))
    assert [line for line in found if "targetPort" not in line] == lines


# --- claims ----------------------------------------------------------------------------------------------------------


def claim(**spec: Any) -> Object:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    return named(spec=asked | spec)


def test_a_claim_waits_and_is_protected() -> None:
    obj = create("persistentvolumeclaims", claim())
    assert obj["spec"]["volumeMode"] == "Filesystem"
    assert obj["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert obj["status"] == {"phase": "Pending"}
    assert obj["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


def test_wrong_claims_are_refused() -> None:
    assert refusal("persistentvolumeclaims", named(spec={"accessModes": ["Odd"]})) == [
        'spec.accessModes: Unsupported value: "Odd": supported values: '
        '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
        "spec.resources[storage]: Required value",
    ]


def test_a_claims_spec_is_fixed_until_it_is_bound() -> None:
    old = stored("persistentvolumeclaims", claim())
    bigger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    (line,) = update_refusal("persistentvolumeclaims", old, bigger)
    assert line == (
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for "
        'bound claims\n@@ -6,7 +6,7 @@\n  "Resources": {\n   "Limits": null,\n   "Requests": {\n-   "storage": "1Gi"\n'
        '+   "storage": "2Gi"\n   }\n  },\n  "VolumeName": "",\n'
    )
    old["status"]["phase"] = "Bound"
    assert update_refusal("persistentvolumeclaims", old, bigger) == []
    assert update_refusal("persistentvolumeclaims", old, {"spec": {"volumeName": "v"}}) == []


def test_a_claim_names_its_source_in_both_forms() -> None:
    snapshot = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    spec = create("persistentvolumeclaims", claim(dataSource=snapshot))["spec"]
    assert spec["dataSourceRef"] == snapshot
    spec = create("persistentvolumeclaims", claim(dataSourceRef=snapshot))["spec"]
    assert spec["dataSource"] == snapshot
    spec = create("persistentvolumeclaims", claim(dataSource={**snapshot, "kind": "Other"}))["spec"]
    assert not {"dataSource", "dataSourceRef"} & spec.keys()
    other = {"dataSource": snapshot, "dataSourceRef": {**snapshot, "name": "t"}}
    assert refusal("persistentvolumeclaims", claim(**other)) == ["spec: Invalid value: {}: must match dataSourceRef"]


QUALIFIED = formats.qualified_name("A B")[0]
NFS = {"nfs": {"server": "s", "path": "/p"}}
CSI = {"csi": {"driver": "a.example", "volumeHandle": "h"}}


def volume(source: Object, **spec: Any) -> Object:
    return named(spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **source, **spec})


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ({}, ["spec: Required value: must specify a volume type"]),
        ({**NFS, **CSI}, ["spec.csi: Forbidden: may not specify more than 1 volume type"]),
        ({"csi": {"nodePublishSecretRef": {"name": "s"}}}, [
            "spec.csi.driver: Required value",
            "spec.csi.volumeHandle: Required value",
            "spec.csi.nodePublishSecretRef.namespace: Required value",
        ]),
        ({"nfs": {"server": "s", "path": "p"}}, ['spec.nfs.path: Invalid value: "p": must be an absolute path']),
        ({"local": {"path": "/a/../b"}}, [
            "spec.local.path: Invalid value: \"/a/../b\": must not contain '..'",
            "spec.nodeAffinity: Required value: Local volume requires node affinity",
        ]),
        ({"fc": {}}, ["spec.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]),
        ({"iscsi": {"lun": 256, "iqn": "iqn", "targetPortal": "p"}}, [
            "spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
        ]),
    ],
)  # fmt: skip
def test_wrong_sources_of_volumes(source: Object, lines: list[str]) -> None:
    assert refusal("persistentvolumes", volume(source)) == lines


def test_a_volumes_source_and_place_are_fixed() -> None:
    place = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}
    old = stored("persistentvolumes", volume(NFS, nodeAffinity=place, volumeMode="Block"))
    change = {"nfs": {"path": "/q"}, "volumeMode": "Filesystem", "nodeAffinity": None}
    source, mode, affinity = update_refusal("persistentvolumes", old, {"spec": change})
    assert source.startswith("spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after")
    assert '-  "Path": "/p",\n+  "Path": "/q",\n' in source
    assert mode == 'volumeMode: Invalid value: "Filesystem": field is immutable'
    assert affinity == "nodeAffinity: Invalid value: null: field is immutable"


@pytest.mark.parametrize(
    ("terms", "lines"),
    [
        ([{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}], []),
        ([{"matchLabelExpressions": [{"key": "A B", "values": []}]}], [
            "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
            f'allowedTopologies[0].matchLabelExpressions[0].key: Invalid value: "A B": {QUALIFIED}',
        ]),
        ([{"matchLabelExpressions": [{"key": "a", "values": ["b", "b"]}, {"key": "a", "values": ["c"]}]}], [
            'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "b"',
            'allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "a"',
        ]),
        ([{"matchLabelExpressions": [{"key": "a", "values": ["b"]}]}] * 2, [
            'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""',
        ]),
    ],
)  # fmt: skip
def test_the_places_of_a_storage_class(terms: list[Object], lines: list[str]) -> None:
    assert refusal("storageclasses", named(provisioner="a/b", allowedTopologies=terms)) == lines


def test_what_a_stateful_set_may_not_change() -> None:
    selected = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    old = stored("statefulsets", named(spec={"selector": {"matchLabels": {"a": "b"}}, "template": selected}))
    assert update_refusal("statefulsets", old, {"spec": {"replicas": 2, "minReadySeconds": 1}}) == []
    frozen = [
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are "
        "forbidden"
    ]
    assert update_refusal("statefulsets", old, {"spec": {"serviceName": "s"}}) == frozen
    assert update_refusal("statefulsets", old, {"spec": {"podManagementPolicy": "Parallel"}}) == frozen


# --- limits and quotas -----------------------------------------------------------------------------------------------


def test_limits_of_containers_default_from_each_other() -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}
    (found,) = create("limitranges", named(spec={"limits": [item]}))["spec"]["limits"]
    assert found["default"] == {"cpu": "2"}
    assert found["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}


def test_a_range_is_not_empty() -> None:
    item = {"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}
    assert refusal("limitranges", named(spec={"limits": [item]})) == [
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'
    ]


@pytest.mark.parametrize(
    ("name", "amount", "problems"),
    [
        ("requests.cpu", "1", ()),
        ("requests.nvidia.com/gpu", "8", ()),
        ("count/jobs.batch", "5", ()),
        ("pods", "1500m", ("must be an integer",)),
        (
            "cores",
            "1",
            ("must be a standard resource type or fully qualified", "must be a standard resource for quota"),
        ),
        ("storage", "1", ("must be a standard resource for quota",)),
    ],
)
def test_quotas_are_on_known_resources(name: str, amount: str, problems: tuple[str, ...]) -> None:
    value = amount if amount != "1" else name
    expected = [f'spec.hard[{name}]: Invalid value: "{value}": {problem}' for problem in problems]
    assert refusal("resourcequotas", named(spec={"hard": {name: amount}})) == expected


def test_limits_are_on_known_resources() -> None:
    item = {"type": "Container", "max": {"cores": "1"}, "default": {"a/b/c": "1"}}
    found = refusal("limitranges", named(spec={"limits": [item]}))
    standard = "must be a standard resource type or fully qualified"
    assert found[:2] == [
        f'spec.limits[0].max[cores]: Invalid value: "cores": {standard}',
        'spec.limits[0].max[cores]: Invalid value: "cores": must be a standard resource for containers',
    ]
    assert any(
        line.startswith('spec.limits[0].default[a/b/c]: Invalid value: "a/b/c": a valid label key') for line in found
    )


# --- roles -----------------------------------------------------------------------------------------------------------


def test_wrong_roles_are_refused() -> None:
    assert refusal("roles", named(rules=[{"apiGroups": [""], "resources": ["pods"]}])) == [
        "rules[0].verbs: Required value: verbs must contain at least one value"
    ]
    assert refusal("roles", named(rules=[{"verbs": ["get"], "nonResourceURLs": ["/x"]}])) == [
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs'
    ]


def test_a_binding_keeps_its_role() -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    old = stored("rolebindings", named(roleRef=role, subjects=[{"kind": "User", "name": "u"}]))
    assert old["subjects"][0]["apiGroup"] == "rbac.authorization.k8s.io"
    (line,) = update_refusal("rolebindings", old, {"roleRef": {"name": "other"}})
    assert line.endswith("cannot change roleRef")


# --- templates, endpoints, apps --------------------------------------------------------------------------------------

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_a_pod_template_is_defaulted_like_a_pod() -> None:
    obj = create("podtemplates", named(template=TEMPLATE))
    assert obj["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert obj["metadata"]["generation"] == 1


def test_endpoints_have_addresses_and_ports() -> None:
    assert refusal("endpoints", named(subsets=[{"ports": [{"port": 80}]}])) == [
        "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"
    ]


def test_who_writes_what_nobody_acts_on_is_warned() -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    obj = create("deployments", named(spec=dict(spec)))
    assert (obj["spec"]["replicas"], obj["spec"]["strategy"]["type"]) == (1, "RollingUpdate")
    assert resource("deployments").strategy.warnings(obj, None) == []
    (warning,) = resource("daemonsets").strategy.warnings(create("daemonsets", named(spec=dict(spec))), None)
    assert warning.startswith("no controller of this cluster acts on a daemonset")


UNMATCHED = 'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`'


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"template": TEMPLATE}, ["spec.selector: Required value", UNMATCHED]),
        ({"template": TEMPLATE, "selector": {"matchLabels": {"a": "x"}}}, [UNMATCHED]),
    ],
)
def test_a_workload_selects_its_own_pods(spec: Object, lines: list[str]) -> None:
    assert refusal("deployments", named(spec=spec)) == lines


def test_a_network_policy_is_kept_and_its_author_warned() -> None:
    """spark-submit writes one and fails if it cannot."""
    rule = {"from": [{"podSelector": {"matchLabels": {"a": "b"}}}], "ports": [{"port": 80}]}
    obj = create("networkpolicies", named(spec={"ingress": [rule]}))
    assert obj["spec"]["policyTypes"] == ["Ingress"]
    assert obj["spec"]["podSelector"] == {}
    assert obj["spec"]["ingress"][0]["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert "all traffic stays allowed" in resource("networkpolicies").strategy.warnings(obj, None)[0]


def workload(**spec: Any) -> Object:
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": "w"}, "spec": {"selector": labels, "template": template, **spec}}


PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


@pytest.mark.parametrize(
    ("plural", "spec", "lines"),
    [
        ("deployments", {}, []),
        ("deployments", {"strategy": {"type": "Recreate"}}, []),
        ("deployments", {"strategy": {"type": "X"}}, [
            'spec.strategy: Unsupported value: {"Type":"X","RollingUpdate":null}: supported values: "Recreate", '
            '"RollingUpdate"']),
        ("deployments", {"strategy": {"type": "Recreate", "rollingUpdate": {}}}, [
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"]),
        ("deployments", {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}, [
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0']),
        ("deployments", {"strategy": {"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "200%"}}}, [
            f'spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": {PERCENT}',
            'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "200%": must not be greater than 100%']),
        ("deployments", {"progressDeadlineSeconds": 5, "minReadySeconds": 5}, [
            "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"]),
        ("statefulsets", {}, []),
        ("statefulsets", {"updateStrategy": {"type": "OnDelete"}}, []),
        ("statefulsets", {"podManagementPolicy": "X"}, [
            "spec.podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'"]),
        ("statefulsets", {"updateStrategy": {"type": "X"}}, [
            'spec.updateStrategy: Invalid value: {"Type":"X","RollingUpdate":null}: '
            "must be 'RollingUpdate' or 'OnDelete'"]),
        ("statefulsets", {"updateStrategy": {"rollingUpdate": {"partition": -1}}, "ordinals": {"start": -1}}, [
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
            "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"]),
        ("statefulsets", {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "X"}}, [
            'spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "X": supported values: '
            '"Retain", "Delete"']),
        ("daemonsets", {}, []),
        ("daemonsets", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}, [
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
        ("daemonsets", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}}, [
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is "
            "non-zero"]),
    ],
)  # fmt: skip
def test_how_pods_of_a_workload_are_replaced(plural: str, spec: Object, lines: list[str]) -> None:
    assert refusal(plural, workload(**spec)) == lines
