"""Objects that are right, one per kind that a user of a namespace may write, and objects drawn from the schemas."""

from __future__ import annotations

import base64
import copy
from random import Random
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from phalanx.embedded.apimachinery.schema.schema import Type, type_of
from tests.embedded.fuzz.values import KEYS, NAMES, QUANTITIES, TEXTS, TIMES

Json = Any

_CONTAINER = {
    "name": "c",
    "image": "i",
    "command": ["sleep", "1"],
    "env": [{"name": "A", "value": "$(B)"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
    "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1"}},
    "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5},
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
}
_POD = {
    "restartPolicy": "Never",
    "containers": [_CONTAINER],
    "initContainers": [{"name": "init", "image": "i"}],
    "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "w", "configMap": {"name": "cm"}}],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": "a", "labelSelector": {"matchLabels": {"a": "b"}}}}
            ]
        },
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    ],
    "schedulingGates": [{"name": "phalanx.dev/gate"}],
}


def _signing_request() -> str:
    """Return a request to sign a certificate, PEM in base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()


_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": _POD}
_SERVICE_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {**_POD, "restartPolicy": "Always"}}
_SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}]}

_CLAIM = {
    "devices": {
        "requests": [
            {"name": "a", "exactly": {"deviceClassName": "b", "selectors": [{"cel": {"expression": "true"}}]}}
        ],
        "constraints": [{"requests": ["a"], "matchAttribute": "a/b"}],
        "config": [{"requests": ["a"], "opaque": {"driver": "a.example", "parameters": {"c": 1}}}],
    }
}

SPECS: dict[str, Json] = {
    "Pod": {"spec": _POD},
    "Job": {
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 1,
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}],
            },
            "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]},
            "template": _TEMPLATE,
        }
    },
    "PodTemplate": {"template": _TEMPLATE},
    "ConfigMap": {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}},
    "Secret": {"type": "Opaque", "stringData": {"a": "b"}, "data": {"c": "ZA=="}},
    "Service": {"spec": {"selector": {"a": "b"}, "ports": [{"name": "p", "port": 80, "targetPort": "http"}]}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]},
    "StorageClass": {"provisioner": "a.example/b"},
    "CSIDriver": {"spec": {"tokenRequests": [{"audience": "a"}], "volumeLifecycleModes": ["Ephemeral"]}},
    "CSINode": {"spec": {"drivers": [{"name": "a.example", "nodeID": "n", "topologyKeys": ["a/b"]}]}},
    "CSIStorageCapacity": {"storageClassName": "a", "capacity": "1Gi", "nodeTopology": _SELECTOR},
    "VolumeAttachment": {"spec": {"attacher": "a.example", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    "ResourceClaim": {"spec": _CLAIM},
    "ResourceClaimTemplate": {"spec": {"spec": _CLAIM}},
    "ResourceSlice": {
        "spec": {
            "driver": "a.example",
            "nodeName": "n",
            "pool": {"name": "p", "resourceSliceCount": 1},
            "devices": [{"name": "d", "attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}}],
        }
    },
    "IngressClass": {"spec": {"controller": "a.example/b"}},
    "CertificateSigningRequest": {
        "spec": {"request": _signing_request(), "signerName": "a.example/b", "usages": ["client auth"]}
    },
    "ServiceAccount": {"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "b"}]},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "Event": {
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "hostile"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
        "eventTime": TIMES[1],
        "action": "A",
        "reportingController": "a/b",
        "reportingInstance": "i",
        "regarding": {"kind": "Pod", "name": "a", "namespace": "hostile"},
    },
    "LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "default": {"cpu": "500m"}}]}},
    "ResourceQuota": {"spec": {"hard": {"pods": "5", "requests.cpu": "10", "count/jobs.batch": "3"}}},
    "HorizontalPodAutoscaler": {
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "maxReplicas": 3}
    },
    "PodDisruptionBudget": {"spec": {"minAvailable": "50%", "selector": _SELECTOR}},
    "PodGroup": {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": "PodGroup"}},
    "Workload": {
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "a"},
            "podGroupTemplates": [{"name": "a", "schedulingPolicy": {"basic": {}}, "priority": 7}],
        }
    },
    "Lease": {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 5, "renewTime": TIMES[1]}},
    "Role": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    "RoleBinding": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
        "subjects": [{"kind": "User", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}],
    },
    "NetworkPolicy": {"spec": {"podSelector": _SELECTOR, "ingress": [{"ports": [{"port": 80}]}]}},
    "Deployment": {"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": _SERVICE_TEMPLATE}},
    "StatefulSet": {
        "spec": {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": _SERVICE_TEMPLATE}
    },
    "ReplicationController": {"spec": {"selector": {"a": "b"}, "template": _SERVICE_TEMPLATE}},
    "ReplicaSet": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _SERVICE_TEMPLATE}},
    "DaemonSet": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _SERVICE_TEMPLATE}},
    "CronJob": {"spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": _TEMPLATE}}}},
    "PersistentVolume": {
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp/x"}}
    },
    "RuntimeClass": {"handler": "runc"},
    "ClusterRoleBinding": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"},
        "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "hostile"}],
    },
    "LocalSubjectAccessReview": {"spec": {"user": "a", "resourceAttributes": {"namespace": "hostile", "verb": "get"}}},
    "SubjectAccessReview": {"spec": {"user": "a", "nonResourceAttributes": {"path": "/", "verb": "get"}}},
    "Binding": {"target": {"kind": "Node", "name": "n"}},
    "Eviction": {"deleteOptions": {"gracePeriodSeconds": 0}},
    "DeleteOptions": {
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u", "resourceVersion": "1"},
        "dryRun": ["All"],
    },
    "Scale": {"spec": {"replicas": 2}},
    "TokenRequest": {"spec": {"audiences": ["a"], "expirationSeconds": 600}},
    "TokenReview": {"spec": {"token": "a", "audiences": ["a"]}},
    "SelfSubjectAccessReview": {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    "SelfSubjectRulesReview": {"spec": {"namespace": "hostile"}},
    "CronTab": {"spec": {"cron": "* * *", "count": 3, "size": "1Gi", "items": [{"name": "a", "value": 1}]}},
    "CustomResourceDefinition": {
        "spec": {
            "group": "fuzz.example.com",
            "scope": "Namespaced",
            "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
                    "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}],
                }
            ],
        }
    },
    "ValidatingAdmissionPolicy": {
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
                ]
            },
            "validations": [{"expression": "object.metadata.name != 'x'"}],
        }
    },
    "Node": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
    "Namespace": {},
    "PriorityClass": {"value": 5},
    "ClusterRole": {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
}


def sound(kind: str, api_version: str, name: str, namespace: str) -> Json:
    """An object of the kind that may well be accepted."""
    meta: Json = {"name": name, "labels": {"a": "b"}, "annotations": {"x/y": "z"}}
    if api_version.startswith("authorization.k8s.io/"):  # a review is not stored, and has no name
        meta = {}
    if namespace:
        meta["namespace"] = namespace
    head = {"apiVersion": api_version, "kind": kind, "metadata": meta}
    found = copy.deepcopy({**head, **SPECS.get(kind, {})})
    if api_version == "v1" and kind == "Event":  # the older form has neither
        del found["eventTime"], found["reportingController"]
    return found


def drawn(random: Random, schema_name: str, api_version: str, kind: str) -> Json:
    """An object of whatever the schema of the kind allows, its names from the few in use."""
    found = _of(random, type_of(schema_name), 6)
    return {**found, "apiVersion": api_version, "kind": kind} if isinstance(found, dict) else found


def _of(random: Random, node: Type, depth: int) -> Json:
    match node.shape:
        case "object":
            part = 0.8 if depth > 5 else 0.35
            chosen = [one for one in node.fields.items() if depth and random.random() < part]
            return {key: _of(random, child, depth - 1) for key, child in chosen}
        case "list" | "map" if depth <= 0:
            return [] if node.shape == "list" else {}
        case "list":
            return [_of(random, node.items, depth - 1) for _ in range(random.randrange(3))] if node.items else []
        case "map":
            keys = random.sample(KEYS, random.randrange(3))
            return {key: _of(random, node.items, depth - 1) for key in keys} if node.items else {}
        case "string":
            return random.choice((NAMES, NAMES, TEXTS, TIMES))[random.randrange(9)]
        case "boolean":
            return random.random() < 0.5
        case "integer" | "number":
            return random.choice((0, 1, 2, 80, 1000, -1, 2**31 - 1))
        case "quantity":
            return random.choice(QUANTITIES)
        case "int-or-string":
            return random.choice((1, 80, "http", "50%", "", -1))
        case "time" | "microtime":
            return random.choice(TIMES)
    return {"f:a": {}}
