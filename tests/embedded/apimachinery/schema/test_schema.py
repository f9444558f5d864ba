"""Decoding brings an object into the form in which the real server prints it."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.embedded.apimachinery.schema.schema import DecodeError, Type, decode, definitions, type_of

POD, JOB, NODE = (f"io.k8s.api.{name}" for name in ("core.v1.Pod", "batch.v1.Job", "core.v1.Node"))


def decoded(name: str, obj: dict[str, Any]) -> dict[str, Any]:
    decode(type_of(name), obj)
    return obj


def test_unknown_fields_go_and_are_named_by_their_path() -> None:
    obj = {"spec": {"odd": 1, "containers": [{"name": "c", "foo": 2}], "volumes": [{"name": "v", "secret": {"x": 1}}]}}
    unknown = decode(type_of(POD), obj)
    assert unknown == ["spec.odd", "spec.containers[0].foo", "spec.volumes[0].secret.x"]
    assert obj["spec"]["containers"] == [{"name": "c", "resources": {}}]


def test_null_is_absent_and_empty_optional_fields_vanish() -> None:
    meta = {"name": "p", "labels": {}, "annotations": None, "finalizers": [], "creationTimestamp": None}
    obj = decoded(POD, {"metadata": meta, "spec": {"hostNetwork": False, "nodeName": "", "affinity": None}})
    assert obj["metadata"] == {"name": "p"}
    assert obj["spec"] == {"containers": None}


def test_zeros_behind_pointers_are_kept() -> None:
    obj = decoded(POD, {"spec": {"terminationGracePeriodSeconds": 0, "enableServiceLinks": False, "containers": []}})
    assert obj["spec"] == {"terminationGracePeriodSeconds": 0, "enableServiceLinks": False, "containers": None}


def test_structs_by_value_and_times_appear() -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "c"}]}
    obj = decoded(POD, {"status": status})
    assert obj["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}
    ]
    assert obj["status"]["containerStatuses"] == [
        {"name": "c", "image": "", "imageID": "", "lastState": {}, "ready": False, "restartCount": 0, "state": {}}
    ]


def test_a_nodes_empty_status_has_its_inner_structs() -> None:
    obj = decoded(NODE, {})
    assert obj["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert set(obj["status"]["nodeInfo"].values()) == {""}


@pytest.mark.parametrize(
    ("name", "obj", "message"),
    [
        (
            POD,
            {"metadata": {"name": True}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            POD,
            {"spec": {"containers": [{"ports": [{"containerPort": "http"}]}]}},
            "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort "
            "of type int32",
        ),
        (
            POD,
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            JOB,
            {"spec": {"parallelism": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field JobSpec.spec.parallelism of type int32",
        ),
        (
            JOB,
            {"spec": {"parallelism": 3_000_000_000}},
            "json: cannot unmarshal number 3000000000 into Go struct field JobSpec.spec.parallelism of type int32",
        ),
        (
            POD,
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            POD,
            {"spec": {"overhead": {"cpu": "much"}}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "io.k8s.api.coordination.v1.Lease",
            {"spec": {"renewTime": "2001-01-01T00:00:00Z"}},
            'parsing time "2001-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"',
        ),
        ("io.k8s.api.core.v1.Secret", {"data": {"k": "ab%="}}, "illegal base64 data at input byte 2"),
        (
            "io.k8s.api.core.v1.Event",
            {"firstTimestamp": ""},
            'parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"',
        ),
        (
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
            {"items": {"type": 5}},
            "json: cannot unmarshal number into Go struct field JSONSchemaProps.items.type of type string",
        ),
        (
            POD,
            {"spec": {"restartPolicy": 5}},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            POD,
            {"spec": {"containers": [{"securityContext": {"capabilities": {"add": "x"}}}]}},
            "json: cannot unmarshal string into Go struct field Capabilities.spec.containers.securityContext."
            "capabilities.add of type []v1.Capability",
        ),
        (
            POD,
            {"metadata": {"uid": 5}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.uid of type types.UID",
        ),
        (
            POD,
            {"spec": {"volumes": [{"configMap": {"name": 5}}]}},
            "json: cannot unmarshal number into Go struct field ConfigMapVolumeSource.spec.volumes.VolumeSource."
            "configMap.LocalObjectReference.name of type string",
        ),
        (
            POD,
            {"spec": {"volumes": [{"nfs": []}]}},
            "json: cannot unmarshal array into Go struct field Volume.spec.volumes.VolumeSource.nfs of type "
            "v1.NFSVolumeSource",
        ),
        (
            POD,
            {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 2**31}}}]}},
            "json: cannot unmarshal number 2147483648 into Go struct field HTTPGetAction.spec.containers."
            "livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
    ],
)
def test_wrong_types_are_told_in_the_decoders_words(name: str, obj: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(type_of(name), obj)
    assert str(caught.value) == message


def test_times_and_quantities_get_their_canonical_form() -> None:
    status = {"startTime": "2001-01-01T02:00:00.5+02:00"}
    resources = {"requests": {"cpu": 0.5, "memory": "1024Mi"}}
    obj = decoded(POD, {"spec": {"containers": [{"resources": resources}]}, "status": status})
    assert obj["status"]["startTime"] == "2001-01-01T00:00:00Z"
    assert obj["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def field(root: Type, *names: str) -> Type:
    """The type at a path of names; `[]`: an item of a list."""
    for name in names:
        below = root.items if name == "[]" else root.child(name)
        assert below is not None, name
        root = below
    return root


def test_fields_have_their_merge_rules() -> None:
    containers = field(type_of(POD), "spec", "containers")
    assert (containers.list_type, containers.map_keys, containers.merge_key) == ("map", ("name",), "name")
    ports = field(containers, "[]", "ports")
    assert ports.map_key_defaults == {"containerPort": 0, "protocol": "TCP"}
    volumes = field(type_of(POD), "spec", "volumes")
    assert volumes.patch_strategy == ("merge", "retainKeys")


def test_every_definition_compiles() -> None:
    """A recursive or odd definition must not stop a server that meets it for the first time."""
    for name in definitions():
        if name.startswith("io.k8s.api."):
            node = type_of(name)
            assert node.decoder({} if node.shape in ("object", "map", "any") else "", []) is not None
