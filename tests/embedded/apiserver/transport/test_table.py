"""What `kubectl get` shows of an object: the cells under the columns."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from phalanx.embedded.apimachinery.meta.resource import Resource
from phalanx.embedded.apimachinery.meta.status import ApiError
from phalanx.embedded.apiserver.registry.builtin import RESOURCES
from phalanx.embedded.apiserver.transport.tables.printer import human, seconds_of
from phalanx.embedded.apiserver.transport.tables.table import as_table

BORN, NOW_S = "2026-01-01T00:00:00Z", seconds_of("2026-01-01T00:10:00Z")


def kind(name: str) -> Resource:
    return next(one for one in RESOURCES if one.kind == name)


def row(resource: Resource, text: str, include_object: str = "") -> dict[str, Any]:
    obj = yaml.safe_load(text)
    obj.setdefault("metadata", {}).update({"name": "x", "creationTimestamp": BORN})
    [found] = as_table(resource, [obj], include_object, now_s=NOW_S)["rows"]
    return dict(found)


def pod(status: str, spec: str = "{containers: [{name: a}, {name: b}]}", metadata: str = "{}") -> list[Any]:
    cells: list[Any] = row(kind("Pod"), f"{{spec: {spec}, status: {status}, metadata: {metadata}}}")["cells"]
    return cells


# status -> ready, status, restarts
PODS = {
    "waits to be scheduled": ("{phase: Pending}", "0/2 Pending 0"),
    "is gated": (
        "{phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: SchedulingGated}]}",
        "0/2 SchedulingGated 0",
    ),
    "one of two crashes": (
        """{phase: Running, containerStatuses: [
             {name: a, ready: true, restartCount: 2, state: {running: {}}},
             {name: b, ready: false, restartCount: 0, state: {waiting: {reason: CrashLoopBackOff}}}]}""",
        "1/2 CrashLoopBackOff 2",
    ),
    "says when it last restarted": (
        """{phase: Running, containerStatuses: [{name: a, ready: true, restartCount: 1, state: {running: {}},
             lastState: {terminated: {finishedAt: '2026-01-01T00:07:00Z'}}}]}""",
        "1/2 Running 1 (3m ago)",
    ),
    "exited without a reason": (
        "{phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 7}}}]}",
        "0/2 ExitCode:7 0",
    ),
    "was killed": (
        "{phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 137, signal: 9}}}]}",
        "0/2 Signal:9 0",
    ),
    "was evicted": ("{phase: Failed, reason: Evicted}", "0/2 Evicted 0"),
    "one is done, one runs": (
        """{phase: Running, conditions: [{type: Ready, status: 'True'}], containerStatuses: [
             {name: a, state: {terminated: {exitCode: 0, reason: Completed}}},
             {name: b, ready: true, state: {running: {}}}]}""",
        "1/2 Running 0",
    ),
}


@pytest.mark.parametrize(("status", "shown"), PODS.values(), ids=PODS)
def test_a_pod(status: str, shown: str) -> None:
    assert " ".join(pod(status)[1:4]) == shown


INIT = "{initContainers: [{name: i}, {name: s, restartPolicy: Always}], containers: [{name: a}]}"
INIT_PODS = {
    "init runs": ("[{name: i, state: {running: {}}}, {name: s, state: {waiting: {}}}]", "0/2 Init:0/2"),
    "init failed": ("[{name: i, state: {terminated: {exitCode: 1, reason: Error}}}]", "0/2 Init:Error"),
    "init cannot pull": ("[{name: i, state: {waiting: {reason: ErrImagePull}}}]", "0/2 Init:ErrImagePull"),
    "a sidecar counts as ready": (
        "[{name: i, state: {terminated: {exitCode: 0}}}, {name: s, started: true, ready: true, state: {running: {}}}]",
        "1/2 Pending",
    ),
}


@pytest.mark.parametrize(("statuses", "shown"), INIT_PODS.values(), ids=INIT_PODS)
def test_a_pod_that_initializes(statuses: str, shown: str) -> None:
    cells = pod(f"{{phase: Pending, initContainerStatuses: {statuses}}}", INIT)
    assert " ".join(cells[1:3]) == shown


def test_a_pod_that_is_being_deleted_terminates_unless_it_has_ended() -> None:
    assert pod("{phase: Running}", metadata=f"{{deletionTimestamp: '{BORN}'}}")[2] == "Terminating"
    assert pod("{phase: Succeeded}", metadata=f"{{deletionTimestamp: '{BORN}'}}")[2] == "Succeeded"


def test_a_finished_pod_is_marked_completed() -> None:
    [condition] = row(kind("Pod"), "{spec: {containers: []}, status: {phase: Succeeded}}")["conditions"]
    assert (condition["type"], condition["reason"]) == ("Completed", "Succeeded")


JOBS = {
    "suspended": (
        "{completions: 3}",
        "{conditions: [{type: Suspended, status: 'True'}]}",
        ["Suspended", "0/3", ""],
    ),
    "suspended, which its status does not say yet": (
        "{completions: 3, suspend: true}",
        "{}",
        ["Suspended", "0/3", ""],
    ),
    "runs": (
        "{parallelism: 1}",
        "{startTime: '2026-01-01T00:08:30Z', succeeded: 0}",
        ["Running", "0/1", "90s"],
    ),
    "complete": (
        "{parallelism: 2}",
        """{startTime: '2026-01-01T00:00:00Z', completionTime: '2026-01-01T00:02:05Z', succeeded: 1,
            conditions: [{type: Complete, status: 'True'}]}""",
        ["Complete", "1/1 of 2", "2m5s"],
    ),
}


@pytest.mark.parametrize(("spec", "status", "shown"), JOBS.values(), ids=JOBS)
def test_a_job(spec: str, status: str, shown: list[str]) -> None:
    assert row(kind("Job"), f"{{spec: {spec}, status: {status}}}")["cells"][1:4] == shown


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


def test_every_printer_has_a_cell_for_each_of_its_columns() -> None:
    for resource in RESOURCES:
        obj = {"metadata": {"name": "x"}, "spec": {}, "status": {}, "roleRef": {"kind": "Role", "name": "r"}}
        table = as_table(resource, [obj], now_s=NOW_S)
        assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"]), resource.kind


WIDGETS = Resource(
    group="example.com",
    version="v1",
    kind="Widget",
    plural="widgets",
    namespaced=True,
    custom=True,
    printer_columns=(
        {"name": "Image", "type": "string", "jsonPath": ".spec.image"},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ),
)


def test_a_custom_resource_shows_its_printer_columns() -> None:
    text = "{spec: {image: abc, size: big, tags: [a]}, status: {conditions: [{type: Ready, status: 'True'}]}}"
    assert row(WIDGETS, text)["cells"] == ["x", "abc", None, "True", '["a"]', "10m"]


def test_a_row_carries_metadata_or_the_object_or_nothing() -> None:
    text = "{data: {a: b}}"
    assert row(kind("ConfigMap"), text)["object"]["kind"] == "PartialObjectMetadata"
    assert row(kind("ConfigMap"), text, "Object")["object"]["data"] == {"a": "b"}
    assert row(kind("ConfigMap"), text, "None")["object"] is None
    with pytest.raises(ApiError, match="must be 'Metadata', 'Object', 'None', or empty"):
        row(kind("ConfigMap"), text, "Some")


def test_columns_say_what_they_are() -> None:
    first, *_, last = as_table(kind("Pod"), [], now_s=NOW_S)["columnDefinitions"]
    assert (first["name"], first["format"], first["priority"]) == ("Name", "name", 0)
    assert first["description"].startswith("Name must be unique within a namespace.")
    assert (last["name"], last["priority"]) == ("Readiness Gates", 1)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0.9, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"),
        (10799, "179m"), (10800, "3h"), (12345, "3h25m"), (100_000, "27h"), (200_000, "2d7h"), (800_000, "9d"),
        (70_000_000, "2y80d"), (300_000_000, "9y"),
    ],
)  # fmt: skip
def test_durations_have_two_or_three_figures(seconds: float, shown: str) -> None:
    assert human(seconds) == shown
