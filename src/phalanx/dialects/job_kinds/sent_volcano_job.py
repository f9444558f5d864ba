"""Present a Volcano Job that is sent to another cluster. The scheduler sees one batch/v1 Job for each task of the
Volcano Job, and all of these Jobs are in one gang.

A Volcano Job has no field that suspends it, and no field `managedBy` that names another controller. Its field
`schedulerName` names the scheduler of its pods. If the field names MultiKueue, another cluster runs the Job, and the
Volcano controller in `phalanx up` creates no pods. The Job then waits until Phalanx writes the record of its start into
an annotation (decision 77). For any other Volcano Job, this module returns no roles, because the Job's pods already
form a gang by their PodGroup.

Volcano forbids changes of a Job's pod templates. So a start changes no template, and the copy of the Job in the other
cluster has the templates that the user wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from phalanx.client.kind import Kind
from phalanx.dialects.job_kinds.form import Object, as_job, patched

JOBS: Final = Kind(group="batch.volcano.sh", version="v1alpha1", plural="jobs", name="Job")
SENT: Final = "kueue.x-k8s.io/multikueue"  # with this schedulerName, another cluster runs the Job
_ADMITTED: Final = "phalanx.dev/admitted"
_QUEUES: Final = ("phalanx.dev/queue", "kueue.x-k8s.io/queue-name")
_TASK: Final = "volcano.sh/task-spec"
_ENDS: Final = {"Completed": "Complete", "Failed": "Failed", "Terminated": "Failed", "Aborted": "Failed"}


def is_sent(obj: Mapping[str, Any]) -> bool:
    """Return whether the Job is one that another cluster must run."""
    return (obj.get("spec") or {}).get("schedulerName") == SENT


def phase(obj: Mapping[str, Any]) -> str:
    """Return the phase of a Job; empty if its controller has not written a phase yet."""
    return str(((obj.get("status") or {}).get("state") or {}).get("phase") or "")


def ended(obj: Mapping[str, object]) -> str:
    """Return the condition, Complete or Failed, that a batch/v1 Job would have if it had ended in the same way. Return
    an empty text if the Job has not ended."""
    return _ENDS.get(phase(obj), "")


@dataclass(frozen=True, slots=True)
class VolcanoJobs:
    """The implementation of `job_kinds.form.Framework` for Volcano's Job."""

    kind: Kind = JOBS
    suspend: tuple[str, ...] = field(default=(), init=False)

    def roles(self, obj: Object, made: Object | None = None) -> list[str]:
        return [name for name, task in _tasks(obj["spec"]) if task.get("replicas")] if is_sent(obj) else []

    def role_of(self, labels: Mapping[str, str]) -> str:
        return str(labels.get(_TASK) or "")

    def view(self, obj: Object, role: str, made: Object | None = None) -> Object:
        meta, spec = obj["metadata"], obj["spec"]
        named = any(queue in (meta.get("labels") or {}) for queue in _QUEUES)
        task = dict(_tasks(spec))[role]
        template = task.get("template") or {}
        pod = {"priorityClassName": spec["priorityClassName"]} if spec.get("priorityClassName") else {}
        return as_job(
            obj,
            role,
            roles=self.roles(obj),
            count=task["replicas"],
            template={**template, "spec": {**pod, **(template.get("spec") or {})}},
            suspended=_ADMITTED not in (meta.get("annotations") or {}),
            words={} if named else {_QUEUES[0]: spec.get("queue") or "default"},
            status={"conditions": [{"type": ended(obj), "status": "True"}] if ended(obj) else []},
            managedBy=SENT,
        )

    def edit(self, spec: Object, role: str, patch: Object) -> Object:
        if "template" not in patch:
            return dict(spec)
        tasks = [dict(task) for task in spec["tasks"]]
        for (name, _), task in zip(_tasks(spec), tasks, strict=True):
            if name == role:
                task["template"] = patched(task.get("template") or {}, patch["template"])
        return {**spec, "tasks": tasks}


VOLCANO_JOB: Final = VolcanoJobs()


def _tasks(spec: Object) -> list[tuple[str, Object]]:
    """Return the tasks by name. A task without a name has Volcano's default name."""
    return [(str(task.get("name") or f"default{at}"), task) for at, task in enumerate(spec.get("tasks") or ())]
