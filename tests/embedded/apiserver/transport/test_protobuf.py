"""Protobuf: bodies as kubectl sends them, every kind there and back."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import ApiError
from phalanx.embedded.apimachinery.schema import schema
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.transport.protobuf import protobuf
from phalanx.embedded.apiserver.transport.protobuf.messages import numbers


def number(value: int) -> bytes:
    found = b""
    while value >= 0x80:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def field(at: int, value: int | str | bytes) -> bytes:
    """One field of a message."""
    if isinstance(value, int):
        return number(at << 3) + number(value & (1 << 64) - 1)
    raw = value.encode() if isinstance(value, str) else value
    return number(at << 3 | 2) + number(len(raw)) + raw


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return protobuf.MAGIC + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_texts_maps_bytes_and_times() -> None:
    meta = field(1, "s") + field(8, field(1, 1_000_000_000)) + field(11, field(1, "app") + field(2, "x"))
    raw = field(1, meta) + field(2, field(1, "key") + field(2, b"\x00\xff")) + field(3, "Opaque")
    assert protobuf.decode(body("v1", "Secret", raw)) == {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": "s", "creationTimestamp": "2001-09-09T01:46:40Z", "labels": {"app": "x"}},
        "data": {"key": "AP8="},
        "type": "Opaque",
    }


def test_lists_quantities_negative_numbers_and_messages_that_json_does_not_nest() -> None:
    secret = field(1, field(1, "name-of-secret")) + field(2, "key")
    env = field(1, "TOKEN") + field(3, field(4, secret))
    limits = field(1, "cpu") + field(2, field(1, "500m"))
    container = field(1, "c") + field(3, "sleep") + field(3, "5") + field(7, env) + field(8, field(1, limits))
    spec = field(2, container) + field(25, -5)
    found = protobuf.decode(body("v1", "Pod", field(2, spec)))["spec"]
    assert found == {
        "containers": [
            {
                "name": "c",
                "command": ["sleep", "5"],
                "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "name-of-secret", "key": "key"}}}],
                "resources": {"limits": {"cpu": "500m"}},
            }
        ],
        "priority": -5,
    }


def test_int_or_string() -> None:
    ports = field(1, field(3, 80) + field(4, field(1, 0) + field(2, 8080)))
    named = field(1, field(3, 81) + field(4, field(1, 1) + field(3, "http")))
    found = protobuf.decode(body("v1", "Service", field(2, ports + named)))["spec"]["ports"]
    assert found == [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": "http"}]


@pytest.mark.parametrize(
    ("raw", "code", "words"),
    [
        (b"{}", 400, "does not appear to be a protobuf message"),
        (body("v1", "Secret", b"\x0a\x7f"), 400, "cannot be read"),
        (body("apps/v1", "Nothing", b""), 415, "Nothing of apps/v1"),
    ],
)
def test_what_cannot_be_read_is_named(raw: bytes, code: int, words: str) -> None:
    with pytest.raises(ApiError, match=words) as caught:
        protobuf.decode(raw)
    assert caught.value.code == code


def test_a_field_that_is_not_known_is_skipped() -> None:
    raw = field(1, field(1, "s")) + field(77, "x")
    assert protobuf.decode(body("v1", "Secret", raw))["metadata"] == {"name": "s"}


def test_zeros_stay_where_they_say_something() -> None:
    """Go writes the zero of every number and text that is no pointer: JSON has only those of pointers."""
    spec = field(1, 0) + field(9, "") + field(10, 0)
    assert protobuf.decode(body("batch/v1", "Job", field(1, field(1, "j") + field(3, "")) + field(2, spec))) == {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 0, "completionMode": "", "suspend": False},
    }


def test_a_body_of_many_empty_messages_is_refused() -> None:
    containers = field(2, b"") * 60_000
    with pytest.raises(ApiError, match="more than 50000 values") as caught:
        protobuf.decode(body("v1", "Pod", field(2, containers)))
    assert caught.value.code == 400


def said(value: Any) -> Any:
    """Return a JSON value without the empty fields that Go always writes to protobuf."""
    if isinstance(value, list):
        return [said(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: said(one) for key, one in value.items()}
    return {key: one for key, one in found.items() if one not in ("", 0, None, {}, [])}


# Bodies as kubectl 1.32.4 sent them.
JOB = (
    "azhzAAoPCghiYXRjaC92MRIDSm9iEocBChUKBXRyYWluEgAaACIAKgAyADgAQgASZDJiChAKABIAGgAiACoAMgA4AEIAEk4SKwoFdHJhaW4S"
    "BGhvc3QaBXNsZWVwGgE1KgBCAGoAcgCAAQCIAQCQAQCiAQAaBU5ldmVyMgBCAEoAUgBYAGAAaACCAQCKAQCaAQDCAQAaCCAAKAAwADoAGgAi"
    "AA=="
)
BUDGET = (
    "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSOQoUCgRjYWxtEgAaACIAKgAyADgAQgASFQoJCAEQABoDNTAlEggKBgoB"
    "YRIBYhoKCAAYACAAKAAwABoAIgA="
)
QUOTA = (
    "azhzAAoTCgJ2MRINUmVzb3VyY2VRdW90YRI/ChQKBHRlYW0SABoAIgAqADIAOABCABIlCgoKA2NwdRIDCgExCgsKBHBvZHMSAwoBMhIKQmVz"
    "dEVmZm9ydBoAGgAiAA=="
)
TOKEN = "azhzAAooChhhdXRoZW50aWNhdGlvbi5rOHMuaW8vdjESDFRva2VuUmVxdWVzdBIdChAKABIAGgAiACoAMgA4AEIAEgMgkBwaBAoAEgAaACIA"
JOB_OF_A_CRONJOB = (
    "azhzAAoPCghiYXRjaC92MRIDSm9iEsIDCoEBCgRyaWNoEgAaACIAKgAyADgAQgBiKwohY3JvbmpvYi5rdWJlcm5ldGVzLmlvL2luc3RhbnRp"
    "YXRlEgZtYW51YWxqPgoHQ3JvbkpvYhoBYyIkMjRhYWNlNWItMjZmZi00N2FhLWIzMDktZTZmOTRhMjJiZjFkKghiYXRjaC92MTABErECMpcC"
    "ChAKABIAGgAiACoAMgA4AEIAEoICChAKAXYSCxIJCgASBQoDMUdpChkKAWMSFJoBEQoECgJjbRIGCgFhEgFiGKQDEnwKAWMSBGhvc3QqAEIA"
    "Sg0KAXYQABoCL3YiADIAUiUKGRIXCgIveBIJCAEQABoDd2ViGgAiBEhUVFAQABgBIAcoATADahQvZGV2L3Rlcm1pbmF0aW9uLWxvZ3IGQWx3"
    "YXlzegkKBRIDQUxMIAeAAQCIAQCQAQCiAQRGaWxlGgVOZXZlciAeMgxDbHVzdGVyRmlyc3RCAEoAUgBYAGAAaAByAIIBAIoBAJIBEgoQCg4K"
    "DAoKCgFrEgJJbhoBdpoBEWRlZmF1bHQtc2NoZWR1bGVywgEAWhUKEwoHRmFpbEpvYhIIEgJJbhgBGCoaCCAAKAAwADoAGgAiAA=="
)


@pytest.mark.parametrize(
    ("sent", "means"),
    [
        (
            JOB,
            {
                "kind": "Job",
                "apiVersion": "batch/v1",
                "metadata": {"name": "train"},
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "train", "image": "host", "command": ["sleep", "5"]}],
                            "restartPolicy": "Never",
                        }
                    }
                },
            },
        ),
        (
            BUDGET,
            {
                "kind": "PodDisruptionBudget",
                "apiVersion": "policy/v1",
                "metadata": {"name": "calm"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
            },
        ),
        (
            QUOTA,
            {
                "kind": "ResourceQuota",
                "apiVersion": "v1",
                "metadata": {"name": "team"},
                "spec": {"hard": {"cpu": "1", "pods": "2"}, "scopes": ["BestEffort"]},
            },
        ),
        (
            TOKEN,
            {
                "kind": "TokenRequest",
                "apiVersion": "authentication.k8s.io/v1",
                "spec": {"expirationSeconds": 3600},
            },
        ),
    ],
    ids=["job", "budget", "quota", "token"],
)
def test_bodies_of_kubectl(sent: str, means: Any) -> None:
    assert said(protobuf.decode(base64.b64decode(sent))) == means


def test_a_job_of_a_cronjob_carries_all_that_a_pod_can_have() -> None:
    spec = said(protobuf.decode(base64.b64decode(JOB_OF_A_CRONJOB)))["spec"]
    pod = spec["template"]["spec"]
    assert spec["podFailurePolicy"] == {
        "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 42]}}]
    }
    assert pod["volumes"] == [
        {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "c", "configMap": {"name": "cm", "items": [{"key": "a", "path": "b"}], "defaultMode": 420}},
    ]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required == {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]}
    container = pod["containers"][0]
    assert container["livenessProbe"]["httpGet"] == {"path": "/x", "port": "web", "scheme": "HTTP"}
    assert container["securityContext"] == {"capabilities": {"drop": ["ALL"]}, "runAsUser": 7}


def test_a_microtime_keeps_its_fraction_and_a_field_set_its_json() -> None:
    owned = field(1, "me") + field(7, field(1, b'{"f:spec":{}}'))
    lease = field(1, field(17, owned)) + field(2, field(4, field(1, 1_000_000_000) + field(2, 123_456_000)))
    found = protobuf.decode(body("coordination.k8s.io/v1", "Lease", lease))
    assert found["spec"] == {
        "acquireTime" if "acquireTime" in found["spec"] else "renewTime": "2001-09-09T01:46:40.123456Z"
    }
    assert found["metadata"]["managedFields"] == [{"manager": "me", "fieldsV1": {"f:spec": {}}}]


KINDS = sorted(
    (gvk["group"], gvk["version"], gvk["kind"], name)
    for name, one in schema.definitions().items()
    for gvk in one.get("x-kubernetes-group-version-kind", ())
    if name in numbers() and gvk["kind"] != "DeleteOptions"
)


def full(node: schema.Type, depth: int = 0) -> Any:
    """A value of a type in which every field says something."""
    match node.shape:
        case "object":
            below = depth + (node.kind == "JSONSchemaProps")
            said_outside = ("kind", "apiVersion") if "x-kubernetes-group-version-kind" in node.body else ()
            fields = {key: one for key, one in node.fields.items() if key not in said_outside}
            return {key: full(one, below) for key, one in fields.items() if below < 3 or one.shape == "string"}
        case "list":
            assert node.items is not None
            return [full(node.items, depth), full(node.items, depth)]
        case "map":
            assert node.items is not None
            return {"a": full(node.items, depth), "b/c": full(node.items, depth)}
        case "string" if node.raw.get("format") == "byte":
            return "AP8="
        case "int-or-string":
            return "50%"
        case "any" if "JSONSchemaProps" in node.kind:
            return {"type": "string"}
        case "any":
            return {"f:spec": {".": {}, "list": [1, "x", None]}}
    scalars = {"string": "text \u00e9", "boolean": True, "integer": -7, "number": 0.5, "quantity": "1500m"}
    times = {"time": "2026-01-02T03:04:05Z", "microtime": "2026-01-02T03:04:05.678901Z"}
    return (scalars | times)[node.shape]


@pytest.mark.parametrize(("group", "version", "kind", "name"), KINDS, ids=[".".join(one[:3]) for one in KINDS])
def test_every_kind_there_and_back(group: str, version: str, kind: str, name: str) -> None:
    obj = {"kind": kind, "apiVersion": f"{group}/{version}" if group else version, **full(schema.type_of(name))}
    assert protobuf.decode(protobuf.encode(obj)) == obj


def test_every_kind_that_is_served_has_a_message() -> None:
    asked = [(one.api_version, one.kind) for one in RESOURCES]
    asked += [
        (f"{sub.group}/{sub.version}" if sub.group else sub.version, sub.kind)
        for one in RESOURCES
        for sub in one.subresources
        if not sub.kind.endswith("Options")
    ]
    assert [one for one in asked if not protobuf.definition(*one)] == []


def test_numbers_are_those_of_recorded_bodies_when_written_too() -> None:
    """Our encoding equals kubectl's if both are read by field numbers alone."""
    sent = base64.b64decode(BUDGET)
    assert said(protobuf.decode(protobuf.encode(protobuf.decode(sent)))) == said(protobuf.decode(sent))
    obj = {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "spec": {"minAvailable": "50%"}}
    assert field(2, field(1, field(1, 1) + field(3, "50%"))) in protobuf.encode(obj)
