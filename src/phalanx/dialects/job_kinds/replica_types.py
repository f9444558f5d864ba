"""Present jobs of `kubeflow.org` as gangs: PyTorchJob and similar kinds (v1), and MPIJob (v2beta1).

A training job becomes a gang whose roles are its replica types. The job waits while its field `runPolicy.suspend` is
true, because its operator then creates no pods. Phalanx schedules the job if it has a queue label. `TABLE` states how
every field is used.


Sources: the API references of kubeflow.org/v1 (training-operator, v1.9) and v2beta1 (mpi-operator, v0.8), and how these
operators name and label pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from phalanx.client.kind import Kind
from phalanx.dialects.frame.fields import Becomes, Ignored, Use
from phalanx.dialects.job_kinds.form import LATER, Object, as_job, at, ended, manager, nested, patched

NAME = "kubeflow"
GROUP = "kubeflow.org"
_FIRST = ("Launcher", "Master", "Chief", "PS", "Worker", "Evaluator")  # the order of roles
_TYPE, _ROLE = "training.kubeflow.org/replica-type", "training.kubeflow.org/job-role"
_OURS = "phalanx.dev/"
TABLE: Mapping[str, Use] = {
    "runPolicy.suspend": Becomes(
        "queued", "a job with a queue label waits while it is true; Phalanx sets it to false to start the job"
    ),
    "runPolicy.activeDeadlineSeconds": Becomes("Job.limit_s"),
    "runPolicy.managedBy": Becomes("left alone", "if it names another controller than kubeflow.org/training-operator"),
    "runPolicy.schedulingPolicy.minAvailable": Becomes(
        "Role.minimum", "the minimum is divided among the replica types in order; Master is the first"
    ),
    "runPolicy.schedulingPolicy.queue": Becomes("Job.queue", "the queue, if the job has no label phalanx.dev/queue"),
    "runPolicy.schedulingPolicy.priorityClass": Becomes(
        "Job.priority", "the PriorityClass of pods whose template names none"
    ),
    "runPolicy.schedulingPolicy.minResources": Ignored("the requests are read from the pod templates"),
    "runPolicy.schedulingPolicy.scheduleTimeoutSeconds": Ignored("use the annotation phalanx.dev/deadline"),
    "runPolicy.backoffLimit": Ignored("only the training operator reads this field"),
    "runPolicy.cleanPodPolicy": Ignored("only the training operator reads this field"),
    "runPolicy.ttlSecondsAfterFinished": Ignored("only the training operator reads this field"),
    "elasticPolicy": Becomes(
        "Job.size", "a PyTorchJob with this field is elastic; without it the size is fixed when the job starts"
    ),
    "launcherCreationPolicy": Becomes(
        "phalanx.dev/starts-later",
        "WaitForWorkersReady: the gang starts without the launcher, and capacity for the launcher is reserved",
    ),
    "nprocPerNode": Ignored("only the training operator reads this field"),
    "*ReplicaSpecs": Becomes("Job.roles", "one role for each replica type"),
    "*ReplicaSpecs.*.replicas": Becomes("Role.count"),
    "*ReplicaSpecs.*.template": Becomes("Role.shape"),
    "*ReplicaSpecs.*.restartPolicy": Ignored("only the training operator reads this field"),
}


@dataclass(frozen=True, slots=True)
class ReplicaTypes:
    """The implementation of `job_kinds.form.Framework` for one of these kinds. `specs`: the field with the replica
    types. `operator`: the value of `managedBy` with which the kind's own operator manages the job."""

    kind: Kind
    specs: str
    operator: str = "kubeflow.org/training-operator"
    suspend: tuple[str, ...] = ("runPolicy", "suspend")

    def roles(self, obj: Object, made: Object | None = None) -> list[str]:
        """Return the replica types that have pods. Leaders come first."""
        specs = (obj.get("spec") or {}).get(self.specs) or {}
        order = {name: place for place, name in enumerate(_FIRST)}
        found = (name for name in specs if _count(specs[name]))
        return sorted(found, key=lambda name: (order.get(name, len(order)), name))

    def role_of(self, labels: Mapping[str, str]) -> str:
        return str(labels.get(_TYPE) or labels.get(_ROLE) or "").lower()

    def view(self, obj: Object, role: str, made: Object | None = None) -> Object:
        spec, policy = obj["spec"][self.specs][role], obj["spec"].get("runPolicy") or {}
        words = {f"{_OURS}size": "elastic"} if obj["spec"].get("elasticPolicy") is not None else {}
        if (least := self._least(obj, role)) is not None:
            words[f"{_OURS}min-available"] = str(least)
        if queue := _scheduling(obj).get("queue"):
            words[f"{_OURS}queue"] = str(queue)
        if role == "Launcher" and obj["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady":
            words[LATER] = "true"
        status = obj.get("status") or {}
        succeeded = at(status, ("replicaStatuses", role, "succeeded")) or 0
        return as_job(
            obj,
            role,
            roles=self.roles(obj),
            count=_count(spec),
            template=_template(spec, _scheduling(obj), role),
            suspended=policy.get("suspend"),
            words=words,
            status={**ended(status, Succeeded="Complete", Failed="Failed"), "succeeded": succeeded},
            activeDeadlineSeconds=policy.get("activeDeadlineSeconds"),
            managedBy=manager(policy.get("managedBy"), self.operator),
        )

    def edit(self, spec: Object, role: str, patch: Object) -> Object:
        policy = {name: patch[name] for name in ("suspend", "activeDeadlineSeconds") if name in patch}
        replica = {"template": patch["template"]} if "template" in patch else {}
        if "parallelism" in patch:
            replica["replicas"] = patch["parallelism"]
        return patched(spec, nested(("runPolicy",), policy) | nested((self.specs, role), replica))

    def _least(self, obj: Object, role: str) -> int | None:
        """Return the minimum number of pods of the role. The job's `minAvailable` is divided among its roles in order,
        with at least one pod for each role. Return None if `minAvailable` is not set: then the
        job needs all its pods."""
        left = _scheduling(obj).get("minAvailable")
        if left is None:
            return None
        for name in self.roles(obj):
            size = _count(obj["spec"][self.specs][name])
            own = max(1, min(size, int(left)))
            if name == role:
                return own if own < size else None
            left = int(left) - own
        return None


def _kind(name: str, version: str = "v1") -> Kind:
    return Kind(group=GROUP, version=version, plural=f"{name.lower()}s", name=name)


PYTORCH_JOB = ReplicaTypes(_kind("PyTorchJob"), "pytorchReplicaSpecs")
MPI_JOB = ReplicaTypes(_kind("MPIJob", "v2beta1"), "mpiReplicaSpecs", "kubeflow.org/mpi-operator")
TRAINING = (
    PYTORCH_JOB,
    ReplicaTypes(_kind("TFJob"), "tfReplicaSpecs"),
    ReplicaTypes(_kind("XGBoostJob"), "xgbReplicaSpecs"),
    ReplicaTypes(_kind("PaddleJob"), "paddleReplicaSpecs"),
    ReplicaTypes(_kind("JAXJob"), "jaxReplicaSpecs"),
)


def _count(spec: Object) -> int:
    found = spec.get("replicas")
    return 1 if found is None else int(found)


def _scheduling(obj: Object) -> Object:
    found: Object = at(obj["spec"], ("runPolicy", "schedulingPolicy")) or {}
    return found


def _template(spec: Object, scheduling: Object, role: str) -> Object:
    template = spec.get("template") or {}
    meta, pod = template.get("metadata") or {}, template.get("spec") or {}
    if scheduling.get("priorityClass") and not pod.get("priorityClassName"):
        pod = {**pod, "priorityClassName": scheduling["priorityClass"]}
    return {"metadata": {**meta, "labels": {**(meta.get("labels") or {}), _TYPE: role.lower()}}, "spec": pod}
