"""Persistent volumes, claims and storage classes: default values, and invalid objects."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.schema import formats
from tests.embedded.apiserver.registry.kinds.writes import Object, create, named, refusal, stored, update_refusal


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


def volume(source: Object, **spec: Any) -> Object:
    return named(spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **source, **spec})


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
