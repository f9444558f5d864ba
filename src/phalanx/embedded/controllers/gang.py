"""Create the Workload and the PodGroup of a Job whose pods must start together (scheduling.k8s.io/v1alpha2).

Such a Job (a *gang*) is Indexed, runs all its pods at once, and names the default scheduler. For Jobs that name another
scheduler, that scheduler forms gangs by its own rules. The names of both objects are derived from the Job's uid, so a
repeated creation makes no second object. The Job owns both objects, and its pods name the group in
`spec.schedulingGroup`.

Source: KEP-5547 and pkg/controller/job of Kubernetes 1.36 (gate EnableWorkloadWithJob).

The second part keeps a deleted PodGroup as long as a pod that has not ended names the group. Then it removes the
group's finalizer.

Source: pkg/controller/scheduling/podgroupprotection of Kubernetes 1.36."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import JOBS, POD_GROUPS, PODS, WORKLOADS, Kind
from phalanx.embedded.controllers.runtime.calls import Calls, gone
from phalanx.embedded.controllers.runtime.pod_state import controller_of, is_deleting, owner_reference, uid_of
from phalanx.embedded.controllers.runtime.reconciler import Retry, WorkQueue

_MOST_OF_A_NAME = 200  # of at most 253 characters; the other 53 are for a suffix that makes the name unique
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
    """Creates the Workloads and PodGroups of gangs. It remembers the created objects of a Job until `forget` is called
    after the deletion of the Job."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._made: dict[str, str] = {}  # uid of a Job -> name of its PodGroup

    def forget(self, uid: str) -> None:
        self._made.pop(uid, None)

    async def group_of(self, job: Object) -> str:
        """Return the name of the PodGroup for the pods of `job`, and create it if it does not exist; "" if the Job is
        no gang."""
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


FINALIZER = "scheduling.k8s.io/podgroup-protection"
_OVER = ("Succeeded", "Failed")


class PodGroupProtection:
    """The controller of the finalizers of PodGroups. Call `start`, then run `queue`."""

    def __init__(self, calls: Calls, *, retry: Retry | None = None) -> None:
        self._calls, self._pods, self._groups = calls, calls.cache(PODS), calls.cache(POD_GROUPS)
        self.queue = WorkQueue("PodGroup protection", self._look, workers=2, retry=retry)

    def start(self) -> None:
        self._groups.subscribe(self._group_changed)
        self._pods.subscribe(self._pod_changed)

    def _group_changed(self, change: Change) -> None:
        if change.new is not None and is_deleting(change.new):
            self.queue.add(key_of(change.new))

    def _pod_changed(self, change: Change) -> None:
        pod = change.new or change.old
        assert pod is not None
        key = group_key(pod)
        if key and (change.new is None or _over(change.new)):
            group = self._groups.objects.get(key)
            if group is not None and is_deleting(group):
                self.queue.add(key)

    async def _look(self, key: str) -> None:
        group = self._groups.objects.get(key)
        finalizers = group["metadata"].get("finalizers") or [] if group is not None else []
        if group is None or not is_deleting(group) or FINALIZER not in finalizers:
            return
        # Ask the server as well whether a pod names the group: the watch of pods may lag behind the watch of groups.
        if _is_named(key, self._pods.objects.values()) or _is_named(
            key, await self._calls.list(PODS, key.partition("/")[0])
        ):
            return
        meta = {"resourceVersion": group["metadata"]["resourceVersion"]}  # others may change finalizers, too
        rest = [one for one in finalizers if one != FINALIZER]
        try:
            await self._calls.patch(POD_GROUPS, group, {"metadata": {**meta, "finalizers": rest}})
        except ApiRefusal as refusal:
            if not gone(refusal):
                raise


def _is_named(key: str, pods: Iterable[Object]) -> bool:
    return any(group_key(pod) == key for pod in pods if not _over(pod))


def _over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _OVER


def group_key(pod: Object) -> str:
    """Return `namespace/name` of the PodGroup that a pod names; "" for none."""
    name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return f"{pod['metadata']['namespace']}/{name}" if name else ""
