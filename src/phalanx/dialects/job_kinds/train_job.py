"""Present a TrainJob (`trainer.kubeflow.org/v1alpha1`) as a gang. Its roles are the roles of the JobSet that the
TrainJob's operator creates.

The pods of a TrainJob are defined by the runtime that it names. The operator reads the runtime and at once creates a
JobSet with the TrainJob's name. The JobSet is suspended while the TrainJob is suspended. Phalanx reads the roles from
the JobSet. When Phalanx starts the gang and has to change pod templates, it adds an entry with Phalanx as its `manager`
to `spec.runtimePatches`. The operator applies this entry to the JobSet.


Source: the API reference of Kubeflow Trainer v2.3; pkg/controller/trainjob_controller.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phalanx.client.kind import TRAIN_JOBS, Kind
from phalanx.dialects.job_kinds.form import Object, ended, manager, patched
from phalanx.dialects.job_kinds.job_set import JOB_SET

MANAGER = "phalanx.dev/scheduler"
OPERATOR = "trainer.kubeflow.org/trainjob-controller"


@dataclass(frozen=True, slots=True)
class TrainJobs:
    """The implementation of `job_kinds.form.Framework` for TrainJob."""

    kind: Kind = field(default=TRAIN_JOBS, init=False)
    suspend: tuple[str, ...] = field(default=("suspend",), init=False)

    def roles(self, obj: Object, made: Object | None) -> list[str]:
        """Return the roles of the TrainJob's JobSet. There are no roles until the JobSet exists."""
        return JOB_SET.roles(made) if made is not None else []

    def role_of(self, labels: Mapping[str, str]) -> str:
        return JOB_SET.role_of(labels)

    def view(self, obj: Object, role: str, made: Object | None) -> Object:
        assert made is not None, "without a JobSet it has no roles"
        spec = obj["spec"]
        shown = JOB_SET.view({**made, "metadata": obj["metadata"], "status": {}}, role)
        own = {"suspend": bool(spec.get("suspend")), "managedBy": manager(spec.get("managedBy"), OPERATOR)}
        status = ended(obj.get("status") or {}, Complete="Complete", Failed="Failed")
        deadline = {"activeDeadlineSeconds": spec.get("activeDeadlineSeconds")}
        return {**shown, "spec": {**shown["spec"], **own, **deadline}, "status": status}

    def edit(self, spec: Object, role: str, patch: Object) -> Object:
        found = patched(spec, {name: patch[name] for name in ("suspend", "activeDeadlineSeconds") if name in patch})
        if "template" not in patch:
            return found
        entries = list(spec.get("runtimePatches") or ())
        own_entry = next((one for one in entries if one.get("manager") == MANAGER), {"manager": MANAGER})
        jobs = list(_jobs(own_entry))
        before = next((one for one in jobs if one["name"] == role), {"name": role})
        after = patched(before, {"template": {"spec": {"template": patch["template"]}}})
        jobs = [one for one in jobs if one["name"] != role] + [after]
        said = {"template": {"spec": {"replicatedJobs": jobs}}}
        others = [one for one in entries if one.get("manager") != MANAGER]
        return {**found, "runtimePatches": [*others, {**own_entry, "trainingRuntimeSpec": said}]}


TRAIN_JOB = TrainJobs()


def _jobs(entry: Object) -> list[Object]:
    runtime = entry.get("trainingRuntimeSpec") or {}
    return list(((runtime.get("template") or {}).get("spec") or {}).get("replicatedJobs") or ())
