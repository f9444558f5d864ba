"""For each kind of jobs: an object that names the queue of `several.Manager`, and its status in a worker when it runs
and when it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phalanx.client.kind import JOB_SETS, JOBS, PODS, Kind
from phalanx.dialects.job_kinds.appwrapper.job_form import APP_WRAPPER
from phalanx.dialects.job_kinds.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from phalanx.dialects.job_kinds.replica_types import MPI_JOB, TRAINING
from phalanx.dialects.job_kinds.sent_volcano_job import VOLCANO_JOB
from phalanx.dialects.kueue import kinds
from phalanx.kube.read.labels import ADMITTED
from tests.kube.double import Object, job, pod_spec

MANAGER = "kueue.x-k8s.io/multikueue"
SINCE = "2026-01-01T00:00:00Z"


def true(*types: str) -> Object:
    return {"conditions": [{"type": one, "status": "True", "lastTransitionTime": SINCE} for one in types]}


@dataclass(frozen=True, kw_only=True)
class Play:
    """A kind: its spec, with two pods of 1 cpu; the path of its suspension; its status while it runs, and at its end
    (empty: it never ends)."""

    kind: Kind
    spec: Object
    runs: Object
    ends: Object
    suspend: tuple[str, ...] = ("suspend",)
    managed: tuple[str, ...] | None = None  # the path of `managedBy`, if that is not beside the suspension

    def obj(self, name: str = "one", *, managed: bool = True) -> Object:
        if self.kind is PODS:
            meta = {"name": name, "namespace": "default", "labels": {kinds.QUEUE_LABEL: "l"}, "annotations": {}}
            return {"metadata": meta, "spec": pod_spec(cpu="2"), "status": {"phase": "Pending"}}
        meta = {"name": name, "namespace": "default", "labels": {kinds.QUEUE_LABEL: "l"}}
        if not managed:
            return {"metadata": meta, "spec": self.spec}
        spec = with_fields(self.spec, self.suspend, True)
        spec = with_fields(spec, self.managed or (*self.suspend[:-1], "managedBy"), MANAGER)
        return {"metadata": meta, "spec": spec}

    def begun(self, obj: Object) -> Object:
        if self.kind is PODS:
            return {**obj, "spec": {**obj["spec"], "nodeName": "n"}, "status": self.runs}
        return {**obj, "spec": with_fields(obj["spec"], self.suspend, False), "status": self.runs}

    def ended(self, obj: Object) -> Object:
        return {**obj, "status": {**self.runs, **self.ends}}

    @property
    def name(self) -> str:
        """A name that no other kind has."""
        return self.kind.name.lower()

    def is_let_go(self, copied: Object) -> bool:
        """Whether the controller in the worker may start the copy."""
        return not self.waits(copied)

    def waits(self, obj: Object) -> bool:
        if self.kind is PODS:
            return "nodeName" not in obj["spec"]
        found: Any = obj["spec"]
        for name in self.suspend:
            found = found[name]
        return bool(found)


class VolcanoPlay(Play):
    """A Volcano Job has no suspension: it waits without a record of its start, and its copy until its controller has
    let it go."""

    @property
    def name(self) -> str:
        return "vcjob"

    def is_let_go(self, copied: Object) -> bool:
        return True

    def obj(self, name: str = "one", *, managed: bool = True) -> Object:
        meta = {"name": name, "namespace": "default", "labels": {kinds.QUEUE_LABEL: "l"}}
        return {"metadata": meta, "spec": {**self.spec, **({"schedulerName": MANAGER} if managed else {})}}

    def begun(self, obj: Object) -> Object:
        return {**obj, "status": self.runs}

    def waits(self, obj: Object) -> bool:
        if obj["spec"].get("schedulerName") == MANAGER:
            return ADMITTED not in (obj["metadata"].get("annotations") or {})
        return "state" not in (obj.get("status") or {})


def with_fields(spec: Object, path: tuple[str, ...], value: Any) -> Object:
    if len(path) == 1:
        return {**spec, path[0]: value}
    return {**spec, path[0]: with_fields(spec.get(path[0]) or {}, path[1:], value)}


def template(**labels: str) -> Object:
    return {"metadata": {"labels": labels}, "spec": pod_spec(scheduler="default-scheduler")}


def _training(kind: Kind, specs: str) -> Play:
    roles = {name: {"replicas": 1, "template": template()} for name in ("Master", "Worker")}
    roles = {"Worker": {"replicas": 2, "template": template()}} if specs == "jaxReplicaSpecs" else roles
    return Play(
        kind=kind,
        suspend=("runPolicy", "suspend"),
        spec={specs: roles, "runPolicy": {"ttlSecondsAfterFinished": 60, "cleanPodPolicy": "None"}},
        runs={**true("Created", "Running"), "replicaStatuses": {"Worker": {"active": 1}}, "startTime": SINCE},
        ends={**true("Succeeded"), "replicaStatuses": {"Worker": {"succeeded": 1}}, "completionTime": SINCE},
    )


_HEAD = {"rayStartParams": {}, "template": template()}
_RAY = {
    "headGroupSpec": _HEAD,
    "workerGroupSpecs": [{"groupName": "w", "replicas": 1, "rayStartParams": {}, "template": template()}],
}
_INNER = {"parallelism": 1, "completions": 1, "template": template()}
_WRAPPED = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "inner"},
    "spec": {**_INNER, "parallelism": 2, "completions": 2},
}
PLAYS = (
    Play(
        kind=JOBS,
        spec={key: value for key, value in job("one", 2)["spec"].items() if key != "suspend"},
        runs={"startTime": SINCE, "active": 2},
        ends={**true("SuccessCriteriaMet", "Complete"), "succeeded": 2, "active": 0, "completionTime": SINCE},
    ),
    Play(
        kind=JOB_SETS,
        spec={
            "ttlSecondsAfterFinished": 60,
            "replicatedJobs": [{"name": name, "replicas": 1, "template": {"spec": _INNER}} for name in ("a", "b")],
        },
        runs={"replicatedJobsStatus": [{"name": "a", "active": 1}, {"name": "b", "active": 1}]},
        ends={**true("Completed"), "terminalState": "Completed"},
    ),
    *(_training(each.kind, each.specs) for each in (*TRAINING, MPI_JOB)),
    Play(
        kind=RAY_JOB.kind,
        spec={"entrypoint": "true", "submissionMode": "HTTPMode", "rayClusterSpec": _RAY},
        runs={"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"},
        ends={"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
    ),
    Play(kind=RAY_CLUSTER.kind, spec=_RAY, runs={"state": "ready"}, ends={}),
    Play(
        kind=RAY_SERVICE.kind,
        spec={"rayClusterConfig": _RAY},
        suspend=("rayClusterConfig", "suspend"),
        managed=("managedBy",),
        runs=true("Ready"),
        ends={},
    ),
    Play(
        kind=APP_WRAPPER.kind,
        spec={"components": [{"template": _WRAPPED}]},
        runs={"phase": "Running"},
        ends={"phase": "Succeeded"},
    ),
    VolcanoPlay(
        kind=VOLCANO_JOB.kind,
        spec={
            "minAvailable": 2,
            "queue": "default",
            "plugins": {"svc": []},
            "ttlSecondsAfterFinished": 60,
            "tasks": [{"name": name, "replicas": 1, "template": template()} for name in ("ps", "worker")],
        },
        runs={"state": {"phase": "Running", "lastTransitionTime": SINCE}, "running": 2, "minAvailable": 2},
        ends={"state": {"phase": "Completed", "lastTransitionTime": SINCE}, "running": 0, "succeeded": 2},
    ),
    Play(
        kind=PODS,
        spec={},
        runs={"phase": "Running", **true("Ready", "PodScheduled"), "startTime": SINCE},
        ends={"phase": "Succeeded"},
    ),
)
OF_KIND = {each.kind: each for each in PLAYS}


def complete(value: Any) -> Any:
    """Add what a real server asks of pods."""
    if isinstance(value, list):
        return [complete(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: complete(one) for key, one in value.items() if key != "schedulerName"}
    if "containers" in found:
        found["containers"] = [{**one, "image": "x"} for one in found["containers"]]
        found |= {"restartPolicy": "Never"}
    return found


def open_definition(kind: Kind) -> Object:
    """The definition of a kind, as open as can be."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": kind.plural, "singular": kind.name.lower(), "kind": kind.name, "listKind": f"{kind.name}List"}
    versions = [{**version, "subresources": {"status": {}}}]
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": versions}
    approved = {"api-approved.kubernetes.io": "unapproved, of a test"}  # a group of k8s.io asks for it
    return {"metadata": {"name": f"{kind.plural}.{kind.group}", "annotations": approved}, "spec": spec}
