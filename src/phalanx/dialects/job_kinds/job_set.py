"""Present a JobSet (`jobset.x-k8s.io/v1alpha2`) as a gang whose roles are its replicated jobs.


The operator of JobSets creates a Job for each replica. These Jobs are suspended while the JobSet is suspended. Some
replicated jobs wait for other replicated jobs (`dependsOn`, the startup policy InOrder). Their nodes are reserved when
the gang starts, but the gang does not wait until their pods exist.


Source: the API reference of JobSet v0.12; pkg/controllers/jobset_controller.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phalanx.client.kind import JOB_SETS, Kind
from phalanx.dialects.job_kinds.form import LATER, Object, as_job, at, ended, manager, patched

_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
OPERATOR = "jobset.sigs.k8s.io/jobset-controller"
_TEMPLATE = ("template", "spec", "template")


@dataclass(frozen=True, slots=True)
class JobSets:
    """The implementation of `job_kinds.form.Framework` for JobSet."""

    kind: Kind = field(default=JOB_SETS, init=False)
    suspend: tuple[str, ...] = field(default=("suspend",), init=False)

    def roles(self, obj: Object, made: Object | None = None) -> list[str]:
        return [str(one["name"]) for one in replicated_jobs(obj) if pods_of(one)[0]]

    def role_of(self, labels: Mapping[str, str]) -> str:
        return str(labels.get(_REPLICATED_JOB) or "")

    def view(self, obj: Object, role: str, made: Object | None = None) -> Object:
        spec = obj["spec"]
        one = next(one for one in replicated_jobs(obj) if one["name"] == role)
        at_once, in_all = pods_of(one)
        return as_job(
            obj,
            role,
            roles=self.roles(obj),
            count=at_once,
            template=at(one, _TEMPLATE) or {"spec": {}},
            suspended=spec.get("suspend"),
            words={LATER: "true"} if _waits(obj, one) else {},
            status=ended(obj.get("status") or {}, Completed="Complete", Failed="Failed"),
            managedBy=manager(spec.get("managedBy"), OPERATOR),
            completions=in_all,
        )

    def edit(self, spec: Object, role: str, patch: Object) -> Object:
        found = dict(spec)
        if "suspend" in patch:
            found["suspend"] = patch["suspend"]
        if "template" in patch:
            inside = {"template": {"spec": {"template": patch["template"]}}}
            found["replicatedJobs"] = [
                patched(one, inside) if one["name"] == role else one for one in spec.get("replicatedJobs") or ()
            ]
        return found


JOB_SET = JobSets()


def replicated_jobs(obj: Object) -> list[Object]:
    """Return the replicated jobs of a JobSet in the order of its spec."""
    return list((obj.get("spec") or {}).get("replicatedJobs") or ())


def pods_of(one: Object) -> tuple[int, int]:
    """Return the number of pods of a replicated job that run at the same time, and the total number of its pods."""
    replicas, job = one.get("replicas"), at(one, ("template", "spec")) or {}
    parallelism = job.get("parallelism")
    parallelism = 1 if parallelism is None else int(parallelism)
    completions = job.get("completions")
    completions = parallelism if completions is None else int(completions)
    times = 1 if replicas is None else int(replicas)
    return times * min(parallelism, completions), times * completions


def _waits(obj: Object, one: Object) -> bool:
    """Return whether the Jobs of a replicated job are created only after other replicated jobs are ready or
    complete."""
    in_order = at(obj["spec"], ("startupPolicy", "startupPolicyOrder")) == "InOrder"
    return bool(one.get("dependsOn")) or (in_order and one is not replicated_jobs(obj)[0])
