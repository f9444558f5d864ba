"""Protobuf: bodies as kubectl sends them, and what cannot be read."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from phalanx.embedded.apimachinery.meta.status import StatusError
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.transport.protobuf import protobuf
from tests.embedded.apiserver.transport.test_protobuf_convert import body, field


@pytest.mark.parametrize(
    ("raw", "code", "words"),
    [
        (b"{}", 400, "does not appear to be a protobuf message"),
        (body("v1", "Secret", b"\x0a\x7f"), 400, "cannot be read"),
        (body("apps/v1", "Nothing", b""), 415, "Nothing of apps/v1"),
    ],
)
def test_what_cannot_be_read_is_named(raw: bytes, code: int, words: str) -> None:
    with pytest.raises(StatusError, match=words) as caught:
        protobuf.decode(raw)
    assert caught.value.code == code


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
