"""Changes of stored objects, and requests below them, answered as a kube-apiserver 1.36.2 answered them.

Each step is a request (method, path, body) with the expected code and a part of the message, or with the expected
fields of the answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.inprocess import InProcess
from tests.embedded.apiserver.registry.kinds.tables import MERGE

SPACE = "/api/v1/namespaces/default"
SERVICES, PODS, ROBOT = f"{SPACE}/services", f"{SPACE}/pods", f"{SPACE}/serviceaccounts/default/token"
NODES, APPS = "/api/v1/nodes", "/apis/apps/v1/namespaces/default"
BATCH, RBAC = "/apis/batch/v1/namespaces/default", "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD | {"restartPolicy": "Always"}}
BELOW = "Invalid value: {}: cannot be greater than status.replicas"
EXTERNAL = {"type": "ExternalName", "externalName": "x.org"}
OTHER = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "other"}]}}
COUNTED, CRDS = "deprecated.daemonset.template.generation", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ITEMS = {"l": {"type": "array", "items": {"type": "integer", "unknown": 1}}}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": ITEMS}}
VERSIONS = [{"name": "v1", "served": True, "storage": True, "schema": SCHEMA}]
DEFINITION = {
    "spec": {"group": "x.org", "scope": "Cluster", "names": {"plural": "as", "kind": "A"}, "versions": VERSIONS}
}
IS_SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


def named(name: str, **fields: Any) -> Any:
    return {"metadata": {"name": name}, **fields}


def service(**spec: Any) -> Any:
    return named("s", spec={"ports": [{"port": 80}], **spec})


# What happens -> its steps: method, path, body, code, and the message or the fields of the answer.
CONVERSATIONS: dict[str, list[tuple[str, str, Any, int, Any]]] = {
    "a service that is no longer exposed loses its ports of nodes": [
        ("POST", SERVICES, service(type="NodePort"), 201, {"spec.externalTrafficPolicy": "Cluster"}),
        ("PATCH", f"{SERVICES}/s", {"spec": {"type": "ClusterIP"}}, 200, {"spec.externalTrafficPolicy": None}),
        ("GET", f"{SERVICES}/s", None, 200, {"spec.ports.0.nodePort": None, "spec.ports.0.port": 80}),
    ],
    "a service that becomes a name loses its address": [
        ("POST", SERVICES, service(), 201, {"spec.ipFamilyPolicy": "SingleStack"}),
        ("PATCH", f"{SERVICES}/s", {"spec": EXTERNAL}, 200, {"spec.clusterIP": None, "spec.ipFamilies": None}),
        ("PATCH", f"{SERVICES}/s", {"spec": {"ports": []}}, 200, {"spec.internalTrafficPolicy": None}),
        ("PATCH", f"{SERVICES}/s", {"spec": {"clusterIPs": ["None"]}}, 422, "may not be set for ExternalName services"),
    ],
    "a service asks for what one family of addresses does not have": [
        ("POST", SERVICES, service(ipFamilies=["IPv6"]), 422, 'Invalid value: "IPv6": not configured on this cluster'),
        ("POST", SERVICES, service(ipFamilyPolicy="RequireDualStack"), 422, "not configured for dual-stack services"),
        ("POST", SERVICES, service(loadBalancerSourceRanges=["x"]), 422, "may only be used when `type` is 'LoadBal"),
    ],
    "only a load balancer has an ingress": [
        ("POST", SERVICES, service(), 201, {}),
        ("PATCH", f"{SERVICES}/s/status", {"status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}}, 422,
         "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"),
    ],
    "the addresses of a node's pods are fixed": [
        ("POST", NODES, named("n", spec={"podCIDR": "10.0.0.0/24"}), 201, {"spec.podCIDRs": ["10.0.0.0/24"]}),
        ("PATCH", f"{NODES}/n", {"spec": {"podCIDR": "10.1.0.0/24"}}, 422, 'not change podCIDR except from "" to val'),
        ("PATCH", f"{NODES}/n", {"spec": {"externalID": "x"}}, 422, "spec.externalID: Forbidden: may not be updated"),
    ],
    "the numbers of a Deployment's status fit together": [
        ("POST", f"{APPS}/deployments", named("d", spec=IS_SELECTED), 201, {}),
        ("PATCH", f"{APPS}/deployments/d/status", {"status": {"replicas": 1, "readyReplicas": 2}}, 422,
         f"status.readyReplicas: {BELOW.format(2)}"),
        ("PATCH", f"{APPS}/deployments/d/status", {"status": {"replicas": -1}}, 422, "must be greater than or equal"),
    ],
    "available pods of a StatefulSet are ready": [
        ("POST", f"{APPS}/statefulsets", named("d", spec=IS_SELECTED), 201, {}),
        ("PATCH", f"{APPS}/statefulsets/d/status", {"status": {"replicas": 5, "availableReplicas": 4}}, 422,
         "status.availableReplicas: Invalid value: 4: cannot be greater than status.readyReplicas"),
    ],
    "the templates of a DaemonSet are counted": [
        ("POST", f"{APPS}/daemonsets", named("d", spec=IS_SELECTED), 201, {}),
        ("PUT", f"{APPS}/daemonsets/d", named("d", spec=IS_SELECTED), 200, {"metadata.annotations": {COUNTED: "1"}}),
        ("PUT", f"{APPS}/daemonsets/d", named("d", spec=IS_SELECTED | {"template": OTHER}), 200,
         {"metadata.annotations": {COUNTED: "2"}}),
        ("PATCH", f"{APPS}/daemonsets/d", {"metadata": {"annotations": {COUNTED: "77"}}}, 200,
         {"metadata.annotations": {COUNTED: "2"}}),
    ],
    "unknown words in the schema of items are dropped": [
        ("POST", f"{CRDS}?fieldValidation=Strict", DEFINITION | {"metadata": {"name": "as.x.org"}}, 201, {}),
    ],
    "the scale of a Deployment has its selector": [
        ("POST", f"{APPS}/deployments", named("d", spec=IS_SELECTED), 201, {}),
        ("GET", f"{APPS}/deployments/d/scale", None, 200, {"status.selector": "a=b", "spec.replicas": 1}),
        ("PATCH", f"{APPS}/deployments/d/scale", {"spec": {"replicas": 0}}, 200, {"spec": {}}),
        ("PATCH", f"{APPS}/deployments/d/scale", {"spec": {"replicas": -1}}, 422, 'Scale.autoscaling "d" is invalid'),
        ("PUT", f"{APPS}/deployments/d/scale", named("x", spec={"replicas": 1}), 400, "does not match the name on the"),
    ],
    "a negative grace period is one second": [
        ("POST", PODS, named("p", spec=POD | {"terminationGracePeriodSeconds": -5}), 201,
         {"spec.terminationGracePeriodSeconds": 1}),
    ],
    "bindings and evictions name their pod": [
        ("POST", PODS, named("p", spec=POD), 201, {}),
        ("POST", f"{PODS}/p/binding", {"target": {"kind": "Node", "name": "n"}}, 400, "name in URL does not match"),
        ("POST", f"{PODS}/p/eviction", {}, 400, "name in URL does not match name in Eviction object"),
        ("POST", f"{PODS}/p/binding", named("p", target={"name": "n"}) | {"metadata": {"name": "p", "uid": "x"}}, 409,
         "StorageError: invalid object, Code: 4, Key: /registry/pods/default/p, ResourceVersion: 0"),
    ],
    "the node of a pod is gone": [
        ("POST", PODS, named("p", spec=POD | {"nodeName": "n"}), 201, {}),
        ("GET", f"{PODS}/p/exec", None, 404, 'pods "n" not found'),
        ("GET", f"{PODS}/p/log", None, 404, 'pods "n" not found'),
        ("POST", NODES, named("n"), 201, {}),
        ("GET", f"{PODS}/p/exec", None, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("GET", f"{PODS}/p/log?sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z", None, 422, "at most one of `sinceTime`"),
    ],
    "a Job's own labels stay": [
        ("POST", f"{BATCH}/jobs", named("j", spec={"suspend": True, "template": {"spec": POD}}), 201, {}),
        ("PATCH", f"{BATCH}/jobs/j", {"spec": {"template": {"metadata": {"labels": None}}}}, 422,
         "spec.template.metadata.labels[controller-uid]: Required value: must be '"),
    ],
    "a role without rules shows null": [
        ("POST", f"{RBAC}/roles", named("r", rules=[]), 201, {"rules": None}),
        ("PATCH", f"{RBAC}/roles/r", {"metadata": {"labels": {"a": "b"}}}, 200, {"rules": None}),
    ],
    "a token names its account": [
        ("POST", ROBOT, named("other"), 422, "must match the service account name if specified"),
        ("POST", ROBOT, {"spec": {"boundObjectRef": {"kind": "Node", "name": "x"}}}, 404, 'nodes "x" not found'),
    ],
    "a review asks nothing": [
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {}}, 422,
         "[spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes"),
    ],
    "an update of a budget names the version": [
        ("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
         named("b", spec={"minAvailable": 1}), 201, {}),
        ("PUT", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b",
         named("b", spec={"minAvailable": 1}), 422, "must be specified for an update"),
    ],
    "a deleted quota is shown": [
        ("POST", f"{SPACE}/resourcequotas", named("q", spec={"hard": {"pods": "3"}}), 201, {}),
        ("DELETE", f"{SPACE}/resourcequotas/q", None, 200, {"kind": "ResourceQuota"}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", CONVERSATIONS)
def test_a_conversation_is_answered_as_by_a_real_server(case: str, tmp_path: Path) -> None:
    async def scene() -> None:
        async with InProcess.started(tmp_path) as client:
            await client.ask("POST", f"{SPACE}/serviceaccounts", named("default"))
            for method, path, body, code, expected in CONVERSATIONS[case]:
                answer = await client.ask(method, path, body, MERGE if method == "PATCH" else "application/json")
                assert answer.code == code, (method, path, answer.body)
                if isinstance(expected, str):
                    assert expected in answer.body["message"]
                else:
                    assert {field: at(answer.body, field) for field in expected} == expected

    asyncio.run(scene())


def at(body: Any, field: str) -> Any:
    """The value at a path of keys and places; None if there is none."""
    for key in field.split("."):
        if body is None:
            return None
        body = body[int(key)] if isinstance(body, list) else body.get(key)
    return body
