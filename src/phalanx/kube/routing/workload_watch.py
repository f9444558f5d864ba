"""Route changed Jobs and pods to the gangs that they belong to.

Each changed object is read once, and then routed. A pod whose Job is not in the cache yet belongs to no gang until the
Job arrives. Foreign pods are passed to `foreign_pods`, which tracks their usage. Objects that were created for a
framework's job (`ancestors`) belong to that job. So a Job that was created for a JobSet is not a gang member itself,
and its pods count as pods of the JobSet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from phalanx.client.connection import Object
from phalanx.client.informer import Change
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.kube.capacity.foreign_pods import ForeignPods
from phalanx.kube.capacity.node_allocations import NodeAllocations
from phalanx.kube.gang.lifecycle.gang import GangLifecycle
from phalanx.kube.read import labels
from phalanx.kube.read.fault_log import fault_text
from phalanx.kube.read.pod import Pod, read_changed_pod, read_pod
from phalanx.kube.read.workload.ancestors import Ancestor, Ancestors
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.kube.routing.caches import ObjectCaches
from phalanx.kube.routing.fence import Take
from phalanx.kube.routing.volume_users import VolumeUsers
from phalanx.model.pod import Amounts


class WorkloadWatch:
    """The routing of Jobs and pods to their gangs. `takes`: a map from a kind (Job or pod) to the function that reads
    an object of that kind again. `gangs`: all gangs, by id. `new_gang`: a function that creates a gang. `changed`: a
    function that is called with the gang of a changed object. `as_defined`: a function that returns a pod with
    everything that the definitions of dialects add to it."""

    def __init__(
        self,
        caches: ObjectCaches,
        storage: VolumeUsers,
        allocations: NodeAllocations,
        takes: Mapping[Kind, Take],
        *,
        gangs: dict[str, GangLifecycle],
        new_gang: Callable[[str], GangLifecycle],
        changed: Callable[[str], None],
        as_defined: Callable[[Pod, Object], Pod],
    ) -> None:
        self._caches, self._storage, self._allocations = caches, storage, allocations
        self._takes, self._gangs, self._new_gang = takes, gangs, new_gang
        self._changed, self._as_defined = changed, as_defined
        self._ancestors = Ancestors(lambda: caches.job_kinds, caches.objects)
        self._members: dict[str, tuple[str, ...]] = {}  # uid of an object -> its gang members
        self._job_gang: dict[str, GangLifecycle] = {}  # Job uid -> its gang
        self._pods: dict[str, Pod] = {}
        self._pod_gang: dict[str, GangLifecycle] = {}  # pod uid -> its gang
        self._pods_of: dict[str, set[str]] = {}  # Job uid -> its pods
        self._selecting = 0  # how many keys of `selecting` (see `read_again`) are already in use
        self.foreign_pods = ForeignPods(self._pods, self._excess)

    def read_again(self) -> Iterator[None]:
        """Read the pods and Jobs again whose shape changes because a pod's affinity or spread selects by a new label.
        (The shape of a pod contains only labels that these selectors use.) The generator yields after each object, so
        that other tasks can run in between."""
        selecting = self._caches.admission.shapes.selecting
        while new := list(selecting)[self._selecting :]:
            self._selecting += len(new)
            for kind in (*self._caches.job_kinds, PODS):
                objects, take = self._caches.objects(kind), self._takes[PODS if kind is PODS else JOBS]
                for key in list(objects):
                    yield
                    obj = objects.get(key)
                    if obj is not None and (kind is not PODS or _carries(obj, new)):
                        take(Change(kind=kind, old=obj, new=obj))

    # --- Jobs -----------------------------------------------------------------------------------------------------

    def on_job(self, change: Change) -> None:
        """Route a Job, or a framework's job. Each role of a framework's job is a member of the gang."""
        new, jobs = change.new, dict[str, BatchJob]()
        uid = (new or change.old or {})["metadata"]["uid"]
        if new is not None:
            above = self._ancestors.queued(new["metadata"], self._caches.admission)
            if above is None:
                jobs = {job.uid: job for job in self._jobs(change.kind, new)}
                self._note_claims(new, jobs.values())
            else:
                self._hand_over(change.kind, new, above)
        before = self._members.pop(uid, ())
        if jobs:
            self._members[uid] = tuple(jobs)
        for member in (*(member for member in before if member not in jobs), *jobs):
            self._see_job(member, jobs.get(member))

    def _jobs(self, kind: Kind, obj: Object) -> list[BatchJob]:
        """Return the gang members of an object. If the object is invalid, store the error in its present members, so
        that they do not start, and raise the error."""
        try:
            return self._ancestors.jobs(kind, obj, self._caches.admission)
        except Exception as error:  # whatever the error is, the members must not start; the fence reports it
            for member in self._members.get(obj["metadata"]["uid"], ()):
                if (gang := self._job_gang.get(member)) is not None:
                    gang.note_fault(member, fault_text(error))
                    self._changed(gang.id)
            raise

    def _hand_over(self, kind: Kind, obj: Object, above: Ancestor) -> None:
        """Record that `obj` belongs to the framework's job `above`: read this job again, and read the pods of `obj`
        again as pods of this job."""
        if kind is not JOBS:
            self.on_job(Change(kind=above.kind, old=above.obj, new=above.obj))
        members = self._ancestors.members(kind, obj)
        pods = self._caches.objects(PODS)
        for pod in [self._pods[one] for member in members for one in self._pods_of.get(member, ())]:
            if (known := pods.get(pod.key)) is not None and known["metadata"]["uid"] == pod.uid:
                self.on_pod(Change(kind=PODS, old=known, new=known))

    def _note_claims(self, obj: Object, jobs: Iterable[BatchJob]) -> None:
        for job in jobs:
            if job.requirements.claims and job.ours:
                self._storage.job(job, job.adapter.read(obj)["spec"]["template"]["spec"])

    def _see_job(self, uid: str, job: BatchJob | None) -> None:
        before = self._job_gang.get(uid)
        name = _gang_of_job(job) if job is not None else None
        if before is not None and before.id != name:
            before.lose_job(uid)
            del self._job_gang[uid]
            self._changed(before.id)
            if name is None:
                for pod_uid in self._pods_of.get(uid, ()):
                    self._route(self._pods[pod_uid])
        if job is None or name is None:
            for pod_uid in self._pods_of.get(uid, ()) if job is not None else ():
                self._route(self._pods[pod_uid])  # the Job is in no gang any more; its pods may be in another one
            return
        gang = self._job_gang[uid] = self._gangs.get(name) or self._add(name)
        gang.see_job(job)
        self._changed(gang.id)
        if before is not gang:
            for pod_uid in self._pods_of.get(uid, ()):
                self._route(self._pods[pod_uid])

    # --- pods -----------------------------------------------------------------------------------------------------

    def gang_of_pod(self, uid: str) -> str | None:
        """Return the gang of a pod, even if the pod has finished; None if the pod was deleted or belongs to no gang."""
        gang = self._pod_gang.get(uid)
        return gang.id if gang is not None else None

    def on_pod(self, change: Change) -> None:
        if change.new is None:
            assert change.old is not None
            self._lose_pod(change.old["metadata"]["uid"])
            return
        before = self._pods.get(change.new["metadata"]["uid"])
        pod = self._pods[change.new["metadata"]["uid"]] = self._read(change.old, change.new)
        if before is not None and before.owner is not None and before.owner != pod.owner:
            self._pods_of.get(before.owner[1], set()).discard(pod.uid)
        self.foreign_pods.touched[pod.uid] = None
        if pod.charged:
            self._allocations.allocate(pod.uid, pod.where, pod.requests)
        elif pod.over or not pod.ours:
            self._allocations.release(pod.uid)
        if pod.ours or pod.uid in self._pod_gang:
            if pod.owner is not None:
                self._pods_of.setdefault(pod.owner[1], set()).add(pod.uid)
            self._route(pod)

    def _read(self, old: Object | None, new: Object) -> Pod:
        known = self._pods.get(new["metadata"]["uid"]) if old is not None else None
        if known is not None and old is not None and (same := read_changed_pod(known, old, new)) is not None:
            return same
        admission = self._caches.admission
        owner = self._ancestors.owner(new["metadata"], admission)
        pod = read_pod(new, admission.shapes, admission.answers_to, owner, admission.words, admission.alone)
        return self._as_defined(self._storage.pod(pod) if pod.claims else pod, new)

    def _lose_pod(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        self._allocations.release(uid)
        self.foreign_pods.touched[uid] = None
        self._storage.gone(pod)
        if pod.owner is not None and (siblings := self._pods_of.get(pod.owner[1])) is not None:
            siblings.discard(uid)
            if not siblings:
                del self._pods_of[pod.owner[1]]
        if (gang := self._pod_gang.pop(uid, None)) is not None:
            gang.lose_pod(pod, gone=True)
            self._changed(gang.id)

    def _route(self, pod: Pod) -> None:
        """Pass the pod to the gang to which it belongs."""
        before, name = self._pod_gang.get(pod.uid), self._named_gang(pod)
        if before is not None and before.id != name:
            before.lose_pod(pod)
            self.foreign_pods.touched[pod.uid] = None  # the pod's usage is now charged to no gang
            del self._pod_gang[pod.uid]
            self._changed(before.id)
        if name is not None:
            gang = self._pod_gang[pod.uid] = self._gangs.get(name) or self._add(name)
            gang.see_pod(pod)
            self._changed(gang.id)

    def _add(self, name: str) -> GangLifecycle:
        gang = self._gangs[name] = self._new_gang(name)
        return gang

    def _named_gang(self, pod: Pod) -> str | None:
        if pod.owner is not None:
            if (gang := self._job_gang.get(pod.owner[1])) is not None:
                return gang.id
            if pod.pinned or not self._exists(f"{pod.namespace}/{pod.owner[0]}", pod.owner[1].partition("/")[0]):
                return None
        name = pod.options.get(labels.JOB)
        return f"{pod.namespace}/{name}" if name else f"{pod.namespace}/pod:{pod.name}"

    def _exists(self, key: str, uid: str) -> bool:
        """Return whether an object with this name and uid exists, of any kind that is read as a Job."""
        found = (self._caches.objects(kind).get(key) for kind in self._caches.job_kinds)
        return any(obj is not None and obj["metadata"]["uid"] == uid for obj in found)

    def _excess(self, pod: Pod) -> Amounts | None:
        gang = self._pod_gang.get(pod.uid)
        return gang.state.parts.seating.excess(pod) if gang is not None and gang.state.parts is not None else None


def _gang_of_job(job: BatchJob) -> str | None:
    return f"{job.namespace}/{job.options.get(labels.JOB, job.name)}" if job.ours else None


def _carries(pod: Object, keys: Iterable[str]) -> bool:
    """Return whether the pod has one of these labels."""
    found = pod["metadata"].get("labels")
    return bool(found) and any(key in found for key in keys)
