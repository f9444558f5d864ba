"""Create the Workload and the PodGroup of a Job whose pods must start together (scheduling.k8s.io/v1alpha2).

Such a Job (a *gang*) is Indexed, runs all its pods at once, and names the default scheduler. Another scheduler forms
gangs of its Jobs by its own rules. The names of both objects are derived from the Job's uid, so a repeated creation
does not create a second object. The Job owns both objects, and its pods name the group in `spec.schedulingGroup`.

Source: KEP-5547 and pkg/controller/job of Kubernetes 1.36 (gate EnableWorkloadWithJob)."""

from __future__ import annotations

from hashlib import sha256

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import JOBS, POD_GROUPS, WORKLOADS, Kind
from phalanx.embedded.controllers.runtime.calls import Calls
from phalanx.embedded.controllers.runtime.pod_state import controller_of, owner_reference, uid_of

_MOST_OF_A_NAME = 200  # a name has at most 253 characters, and 53 are left for a suffix that makes it unique
_DEFAULT_SCHEDULER = "default-scheduler"


def is_gang(job: Object) -> bool:
    """Return whether the Job gets a Workload and a PodGroup."""
    spec = job["spec"]
    template, count = spec["template"]["spec"], spec.get("parallelism") or 0
    return (
        spec.get("completionMode") == "Indexed"
        and count > 1
        and count == spec.get("completions")
        and not template.get("schedulingGroup")
        and template.get("schedulerName", _DEFAULT_SCHEDULER) == _DEFAULT_SCHEDULER
        and controller_of(job) is None
    )


class Gangs:
    """Creates the Workloads and PodGroups of gangs. It stores the names of the created objects of a Job until `forget`
    is called after the deletion of the Job."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._made: dict[str, str] = {}  # uid of a Job -> name of its PodGroup

    def forget(self, uid: str) -> None:
        self._made.pop(uid, None)

    async def group_of(self, job: Object) -> str:
        """Return the name of the PodGroup for the pods of `job`, and create the PodGroup if it does not exist; "" if
        the Job is not a gang."""
        if not is_gang(job):
            return ""
        uid = uid_of(job)
        if uid not in self._made:
            workload = await self._ensure(WORKLOADS, _workload(job))
            group = await self._ensure(POD_GROUPS, _pod_group(job, workload))
            self._made[uid] = group["metadata"]["name"]
        return self._made[uid]

    async def _ensure(self, kind: Kind, obj: Object) -> Object:
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        try:
            return await self._calls.create(kind, obj, namespace)
        except ApiRefusal as refusal:
            if refusal.code != 409:
                raise
        return await self._calls.get(kind, name, namespace)


def _named(job: Object, what: str) -> str:
    tail = sha256(f"{uid_of(job)}/{what}".encode()).hexdigest()[:10]
    return f"{job['metadata']['name'][:_MOST_OF_A_NAME].rstrip('.-')}-{tail}"


def _template_name(job: Object) -> str:
    return f"{job['metadata']['name'][:57].rstrip('.-')}-pgt-0".replace(".", "-")


def _policy(job: Object) -> Object:
    return {"gang": {"minCount": job["spec"]["parallelism"]}}


def _workload(job: Object) -> Object:
    meta = job["metadata"]
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.name,
        "metadata": {
            "name": _named(job, "workload"),
            "namespace": meta["namespace"],
            "ownerReferences": [owner_reference(JOBS, job)],
        },
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": meta["name"]},
            "podGroupTemplates": [{"name": _template_name(job), "schedulingPolicy": _policy(job)}],
        },
    }


def _pod_group(job: Object, workload: Object) -> Object:
    name = workload["metadata"]["name"]
    owner = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.name, "name": name, "uid": uid_of(workload)}
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.name,
        "metadata": {
            "name": _named(job, "group"),
            "namespace": job["metadata"]["namespace"],
            "ownerReferences": [owner_reference(JOBS, job), owner],
        },
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": name, "podGroupTemplateName": _template_name(job)}},
            "schedulingPolicy": _policy(job),
        },
    }
