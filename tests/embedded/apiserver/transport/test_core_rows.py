"""The rows of events and of other kinds, as `kubectl get` shows them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.transport.tables.printer import seconds_of
from phalanx.embedded.apiserver.transport.tables.table import as_table

BORN, NOW_S = "2026-01-01T00:00:00Z", seconds_of("2026-01-01T00:10:00Z")


def kind(name: str) -> Resource:
    return next(one for one in RESOURCES if one.kind == name)


def row(resource: Resource, text: str, include_object: str = "") -> dict[str, Any]:
    obj = yaml.safe_load(text)
    obj.setdefault("metadata", {}).update({"name": "x", "creationTimestamp": BORN})
    [found] = as_table(resource, [obj], include_object, now_s=NOW_S)["rows"]
    return dict(found)


OTHERS = {
    "Node": (
        "{metadata: {labels: {node-role.kubernetes.io/worker: ''}}, spec: {unschedulable: true}, status: "
        "{conditions: [{type: Ready, status: 'True'}], nodeInfo: {kubeletVersion: v1}, "
        "addresses: [{type: InternalIP, address: 10.0.0.1}]}}",
        ["x", "Ready,SchedulingDisabled", "worker", "10m", "v1", "10.0.0.1", "<none>", *["<unknown>"] * 3],
    ),
    "Namespace": ("{status: {phase: Active}}", ["x", "Active", "10m"]),
    "ConfigMap": ("{data: {a: b}, binaryData: {c: ZA==}}", ["x", 2, "10m"]),
    "Secret": ("{type: Opaque, data: {a: ZA==}}", ["x", "Opaque", 1, "10m"]),
    "Service": (
        "{spec: {type: ClusterIP, clusterIPs: [None], selector: {a: b}, "
        "ports: [{port: 80, protocol: TCP}, {port: 81, nodePort: 30000, protocol: UDP}]}}",
        ["x", "ClusterIP", "None", "<none>", "80/TCP,81:30000/UDP", "10m", "a=b"],
    ),
    "ServiceAccount": ("{}", ["x", "10m"]),
    "Lease": ("{spec: {holderIdentity: me}}", ["x", "me", "10m"]),
    "PriorityClass": ("{value: 5, preemptionPolicy: Never}", ["x", 5, False, "10m", "Never"]),
    "PodGroup": (
        "{spec: {podGroupTemplateRef: {workload: {workloadName: w}}, schedulingPolicy: {gang: {minCount: 2}}}, "
        "status: {conditions: [{type: PodGroupScheduled, status: 'True', reason: Scheduled}]}}",
        ["x", "Gang", "w", "Scheduled", "10m"],
    ),
    "PodDisruptionBudget": (
        "{spec: {minAvailable: 50%}, status: {disruptionsAllowed: 1}}",
        ["x", "50%", "N/A", 1, "10m"],
    ),
    "PersistentVolumeClaim": (
        "{spec: {volumeName: v, storageClassName: fast, volumeMode: Filesystem}, "
        "status: {phase: Bound, capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce]}}",
        ["x", "Bound", "v", "1Gi", "RWO", "fast", "<unset>", "10m", "Filesystem"],
    ),
    "ResourceQuota": (
        "{status: {hard: {limits.cpu: '2', pods: '9'}, used: {pods: '1'}}}",
        ["x", "pods: 1/9", "limits.cpu: 0/2", "10m"],
    ),
    "LimitRange": ("{spec: {}}", ["x", BORN]),
    "CustomResourceDefinition": ("{spec: {}}", ["x", BORN]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds(name: str) -> None:
    text, shown = OTHERS[name]
    assert row(kind(name), text)["cells"] == shown


def test_an_event_names_its_source_and_its_object() -> None:
    event = """{involvedObject: {kind: Pod, name: p}, reason: Started, type: Normal, message: 'it started ', count: 3,
                source: {component: me, host: h}, lastTimestamp: '2026-01-01T00:09:59Z'}"""
    cells = row(kind("Event"), event)["cells"]
    assert cells == ["1s", "Normal", "Started", "pod/p", "", "me, h", "it started", "<unknown>", 3, "x"]


def test_an_event_of_the_new_api_shows_the_same() -> None:
    event = """{regarding: {kind: Pod, name: p}, reason: Started, type: Normal, note: it started,
                reportingController: me, reportingInstance: h, eventTime: '2026-01-01T00:09:59.000000Z'}"""
    new = next(one for one in RESOURCES if one.api_version == "events.k8s.io/v1")
    cells = row(new, event)["cells"]
    assert cells == ["1s", "Normal", "Started", "pod/p", "", "me, h", "it started", "1s", 1, "x"]
