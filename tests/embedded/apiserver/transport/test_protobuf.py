"""Protobuf bodies, as kubectl sends them: read by the definitions' types, refused by name where they are not known."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from phalanx.embedded.apiserver.apimachinery.meta.status import ApiError
from phalanx.embedded.apiserver.apimachinery.schema import schema
from phalanx.embedded.apiserver.transport.protobuf import protobuf
from phalanx.embedded.apiserver.transport.protobuf.fields import FIELDS

# The packages that the table is of; other groups have messages of the same names.
SERVED = re.compile(
    r"io\.k8s\.(api\.(core|apps|authentication|authorization|autoscaling|batch|coordination|networking|node|policy|rbac|"
    r"scheduling)|apimachinery\.pkg\.apis\.meta)\.v1\."
)


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
        (body("v1", "Secret", field(77, "x")), 415, "field 77 of Secret"),
        (body("apps/v1", "Nothing", b""), 415, "Nothing of apps/v1"),
    ],
)
def test_what_cannot_be_read_is_named(raw: bytes, code: int, words: str) -> None:
    with pytest.raises(ApiError, match=words) as caught:
        protobuf.decode(raw)
    assert caught.value.code == code


def said(value: Any) -> Any:
    """What a JSON value says, without the empty fields that Go always writes to protobuf."""
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


def test_every_field_of_the_table_is_one_of_its_definition() -> None:
    """Inlined messages have no definition; their fields are those of the message around them."""
    definitions = {name.rsplit(".", 1)[-1]: one for name, one in schema.definitions().items() if SERVED.match(name)}
    inlined = {name[1:] for fields in FIELDS.values() for name in fields.values() if name.startswith("~")}
    for message, fields in FIELDS.items():
        if message in definitions:
            named = {name for name in fields.values() if not name.startswith("~")}
            assert named <= set(definitions[message].get("properties", ())), message
        else:
            assert message in inlined
