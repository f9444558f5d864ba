"""Run Volcano's Jobs (batch.volcano.sh/v1alpha1) like vc-controller-manager, for one machine.

The controller is level-triggered. In each step it reads the job, its pods and its PodGroup, calls `decide`, writes the
status, and performs the decided actions. The status is written first, and only if the job still has the resourceVersion
that was read. So no action happens twice. If the controller crashes after it has counted a restart in the status, the
next step performs the restart. The watch reports the deletion of a pod by another client only once, so the controller
stores the deletion until the next step.

The controller creates the pods as soon as the job exists, and the pods wait for the start of their gang. Volcano
creates the pods later, when the PodGroup has the phase Inqueue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change, key_of
from phalanx.client.kind import CONFIG_MAPS, PODS, PRIORITY_CLASSES, SECRETS, VOLUME_CLAIMS, Kind
from phalanx.embedded.controllers.job.pods import slow_start
from phalanx.embedded.controllers.operators.volcano.decide import FINISHED, Scene, VolcanoActions, decide
from phalanx.embedded.controllers.operators.volcano.job_spec import (
    JobFault,
    JobSpec,
    VolcanoTask,
    happenings,
    never_starts,
    read_job,
)
from phalanx.embedded.controllers.operators.volcano.kinds import COMPONENT, ELSEWHERE, JOBS, POD_GROUPS
from phalanx.embedded.controllers.operators.volcano.plugins import (
    PLUGINS,
    host_data,
    key_pair,
    key_secret,
    plugin_objects,
    secret_name,
)
from phalanx.embedded.controllers.operators.volcano.pods import group_name, make_group, make_pod
from phalanx.embedded.controllers.runtime.calls import create_owned
from phalanx.embedded.controllers.runtime.pod_state import controller_of, is_deleting, owner_reference, seconds, uid_of
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler

_CLAIM_CHARS = 12
# changes of pods within this time are handled together, because each reconciliation counts all pods of the Job
_GATHER_S = 0.1


class VolcanoJobController(Reconciler):
    kind, component, owns, gather_s = JOBS, COMPONENT, (PODS, POD_GROUPS), _GATHER_S

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._objects = VolcanoJobObjects(context, self.look_after)
        self._commands: dict[str, str] = {}  # job -> the action that a Command of its user requests
        # uid of a job -> name of a pod that another client deleted -> time of the deletion
        self._evicted: dict[str, dict[str, float]] = {}
        self._taking: set[str] = set()  # uids of pods that this controller deletes
        self._calls.cache(PODS).subscribe(self._pod_changed)
        self._calls.cache(JOBS).subscribe(self._job_changed)

    def command(self, key: str, action: str) -> None:
        """Store an action that a user requests for a job. The action is performed at most once."""
        self._commands[key] = action
        self.queue.add(key)

    def _job_changed(self, change: Change) -> None:
        if change.new is None and change.old is not None:
            self._commands.pop(key_of(change.old), None)
            self._evicted.pop(uid_of(change.old), None)
            self._objects.forget(uid_of(change.old))

    def _pod_changed(self, change: Change) -> None:
        """Record the deletion of a pod as an eviction if this controller did not delete it."""
        if change.new is not None or change.old is None:
            return
        uid, owner = uid_of(change.old), controller_of(change.old)
        if uid in self._taking:
            self._taking.discard(uid)
        elif owner is not None and owner["kind"] == JOBS.name and owner["apiVersion"] == JOBS.api_version:
            self._evicted.setdefault(owner["uid"], {})[change.old["metadata"]["name"]] = self._clock()

    async def reconcile(self, owner: Object) -> None:
        try:
            job = read_job(owner)
            if job.scheduler == ELSEWHERE:
                await self._expire(owner, job, owner.get("status") or {}, self._clock())
            else:
                await self._judge(owner, job)
        except JobFault as fault:
            self.tell(owner, "Warning", "PluginError", str(fault))

    async def _judge(self, owner: Object, job: JobSpec) -> None:
        key, uid = key_of(owner), uid_of(owner)
        status = owner.get("status") or {}
        pods, evicted = self._index.owned_by(uid), self._evicted.pop(uid, {})
        unknown_s = self._objects.unknown_since(job)
        happened = tuple(happenings(job, int(status.get("version") or 0), pods, evicted, unknown_s))
        command = self._commands.pop(key, "")
        now_s = self._clock()
        found = decide(Scene(owner=owner, job=job, pods=pods, now_s=now_s, happened=happened, command=command))
        if evicted and found.look_s > now_s:  # a policy of the Job delays the action after an eviction
            self._evicted[uid] = {**evicted, **self._evicted.get(uid, {})}
        for reason, message in found.told:
            self.tell(owner, "Normal", reason, message)
        if found.run:
            if (status.get("state") or {}).get("phase", "Pending") == "Pending" and (why := never_starts(job)):
                self._recorder.tell(COMPONENT, owner, "Warning", "NeverStarts", why)
            self._objects.report_waiting(owner, job, status)
            if not await self._objects.prepare(owner, job, found.status):
                found.status.pop("taskStatusCount", None)
                found.status.pop("pending", None)
                await self.write_status(owner, found.status)
                return
        if found.clear:
            _forget_plugins(found.status)
        if not await self.write_status(owner, found.status):
            if command:
                self._commands[key] = command
            return
        await self._do(owner, job, found)
        if found.look_s > now_s:
            self.look_after(owner, found.look_s - now_s)
        await self._expire(owner, job, found.status, now_s)

    async def _do(self, owner: Object, job: JobSpec, found: VolcanoActions) -> None:
        await asyncio.gather(*(self._kill(pod) for pod in found.kill))
        if found.clear:
            await self._objects.clear(owner, job)
        claims = [str(one.get("volumeClaimName") or "") for one in job.volumes]
        for batch in slow_start(list(range(len(found.create)))):
            chosen = [found.create[at] for at in batch if at is not None]
            await asyncio.gather(*(self._create_pod(owner, job, task, index, claims) for task, index in chosen))

    async def _kill(self, pod: Object) -> None:
        self._taking.add(uid_of(pod))
        await self._calls.remove(PODS, pod, policy=None)

    async def _create_pod(
        self, owner: Object, job: JobSpec, task: VolcanoTask, index: int, claims: Sequence[str]
    ) -> None:
        await self._objects.ensure(owner, PODS, make_pod(owner, job, task, index, claims))

    async def _expire(self, owner: Object, job: JobSpec, status: Mapping[str, Any], now_s: float) -> None:
        """Delete a finished job if its time to live is over. Otherwise reconcile the job again at the end of that
        time."""
        state = status.get("state") or {}
        if job.ttl_s is None or state.get("phase") not in FINISHED or not state.get("lastTransitionTime"):
            return
        due_s = seconds(state["lastTransitionTime"]) + job.ttl_s
        if due_s <= now_s:
            await self._calls.remove(JOBS, owner, policy="Foreground")
        else:
            self.look_after(owner, due_s - now_s)


class VolcanoJobObjects:
    """The objects of Volcano's Jobs other than pods: PodGroups, PersistentVolumeClaims, and the objects of plugins.
    `look_after`: a function that requests another reconciliation of a Job after some seconds."""

    def __init__(self, context: ControllerContext, look_after: Callable[[Object, float], None]) -> None:
        self._calls, self._recorder, self._look_after = context.calls, context.recorder, look_after
        self._groups, self._claims = self._calls.cache(POD_GROUPS), self._calls.cache(VOLUME_CLAIMS)
        self._priorities = self._calls.cache(PRIORITY_CLASSES)
        self._hosts: dict[str, int] = {}  # uid of a job -> the generation for which its ConfigMap was written

    def forget(self, uid: str) -> None:
        """Remove the stored data of a deleted job."""
        self._hosts.pop(uid, None)

    def _tell(self, owner: Object, type: str, reason: str, text: str) -> None:
        self._recorder.tell(COMPONENT, owner, type, reason, text)

    def group(self, job: JobSpec) -> Object | None:
        """Return the PodGroup of the job; None if it does not exist."""
        return self._groups.objects.get(f"{job.namespace}/{group_name(job)}")

    def unknown_since(self, job: JobSpec) -> float | None:
        """Return the time since which the job's PodGroup has the phase Unknown; None if it has another phase."""
        status = (self.group(job) or {}).get("status") or {}
        if status.get("phase") != "Unknown":
            return None
        times = [one["lastTransitionTime"] for one in status.get("conditions") or () if one.get("lastTransitionTime")]
        return max(map(seconds, times), default=0.0)

    def report_waiting(self, owner: Object, job: JobSpec, status: Mapping[str, Any]) -> None:
        """Record an Event with the reason why the PodGroup of a pending job does not start."""
        group = self.group(job)
        said = (group or {}).get("status") or {}
        if said.get("phase") != "Pending" or (status.get("state") or {}).get("phase") != "Pending":
            return
        for one in said.get("conditions") or ():
            if one.get("type") == "Unschedulable" and one.get("status") == "True":
                text = f"PodGroup {job.namespace}:{job.name} unschedulable, reason: {one.get('message', '')}"
                self._tell(owner, "Warning", "PodGroupPending", text)

    async def prepare(self, owner: Object, job: JobSpec, status: dict[str, Any]) -> bool:
        """Create the objects that the pods need, and record them in the status. Return True if all these objects
        exist."""
        if not await self._claim_volumes(owner, job, status):
            return False
        controlled = status.setdefault("controlledResources", {})
        for name in job.plugins:
            if name not in PLUGINS:
                raise JobFault(f"unable to find job plugin: {name}; there are {', '.join(PLUGINS)}")
            if controlled.get(f"plugin-{name}") != name:
                await self._add_plugin(owner, job, name)
                controlled[f"plugin-{name}"] = name
        if not controlled:
            del status["controlledResources"]
        await self._keep_hosts(owner, job)
        await self._keep_group(owner, job)
        return True

    async def _add_plugin(self, owner: Object, job: JobSpec, name: str) -> None:
        if name == "ssh":
            pair = await asyncio.to_thread(key_pair, job.plugins[name])
            await self.ensure(owner, SECRETS, key_secret(job, job.plugins[name], pair))
        if name in ("svc", "ray"):
            for kind, body in plugin_objects(job):
                await self.ensure(owner, kind, body)

    async def _keep_hosts(self, owner: Object, job: JobSpec) -> None:
        """Write the lists of hosts again, because the number of the job's pods may have changed since they were
        written."""
        generation = int(owner["metadata"].get("generation") or 1)
        if "svc" not in job.plugins or generation == 1 or self._hosts.get(job.uid) == generation:
            return
        config = {"metadata": {"name": f"{job.name}-svc", "namespace": job.namespace}}
        await self._calls.patch(CONFIG_MAPS, config, {"data": host_data(job)})
        self._hosts[job.uid] = generation

    async def _keep_group(self, owner: Object, job: JobSpec) -> None:
        values = {name: int(one.get("value") or 0) for name, one in self._priorities.objects.items()}
        wanted, there = make_group(owner, job, values), self.group(job)
        if there is None:
            await self.ensure(owner, POD_GROUPS, wanted)
            return
        said = there.get("spec") or {}
        changed = {key: value for key, value in wanted["spec"].items() if said.get(key) != value}
        if changed and not is_deleting(there):
            await self._calls.patch(POD_GROUPS, there, {"spec": changed})

    async def _claim_volumes(self, owner: Object, job: JobSpec, status: dict[str, Any]) -> bool:
        """Create a PersistentVolumeClaim for each volume without one, and write the name of the claim into the Job.
        Return True if all claims exist."""
        named = [dict(one) for one in job.volumes]
        for at, volume in enumerate(named):
            if volume.get("volumeClaimName"):
                continue
            tail = sha256(f"{job.uid}/{at}".encode()).hexdigest()[:_CLAIM_CHARS]
            volume["volumeClaimName"] = f"{job.name}-pvc-{tail}"
            body = {"metadata": {"name": volume["volumeClaimName"]}, "spec": volume.get("volumeClaim") or {}}
            await self.ensure(owner, VOLUME_CLAIMS, body)
        if named != [dict(one) for one in job.volumes]:
            await self._calls.patch(JOBS, owner, {"spec": {"volumes": named}})
            return False
        for volume in named:
            claim = volume["volumeClaimName"]
            if f"{job.namespace}/{claim}" not in self._claims.objects:
                text = f"pvc {claim} is not found, the job will be in the Pending state until the PVC is created"
                self._tell(owner, "Warning", "PVCError", text)
                self._look_after(owner, 1.0)
                return False
            status.setdefault("controlledResources", {})[f"volume-pvc-{claim}"] = claim
        return True

    async def ensure(self, owner: Object, kind: Kind, body: Object) -> None:
        """Create a pod or another object of the job, unless the job already has an object of this kind and name. Raises
        ApiError."""
        meta = {**body["metadata"], "ownerReferences": [owner_reference(JOBS, owner)]}
        full = {"apiVersion": kind.api_version, "kind": kind.name, **body, "metadata": meta}
        try:
            await create_owned(self._calls, kind, full, owner)
        except ApiRefusal as refusal:
            text = f"{kind.name} {body['metadata']['name']}: {refusal}"
            self._tell(owner, "Warning", "FailedCreate", text)
            raise

    async def clear(self, owner: Object, job: JobSpec) -> None:
        """Delete the PodGroup and the objects of the plugins."""
        if (group := self.group(job)) is not None and not is_deleting(group):
            await self._calls.remove(POD_GROUPS, group)
        if not any(key.startswith("plugin-") for key in (owner.get("status") or {}).get("controlledResources") or ()):
            return
        names = [(kind, body["metadata"]["name"]) for kind, body in plugin_objects(job)]
        if "ssh" in job.plugins:
            names.append((SECRETS, secret_name(job)))
        for kind, name in names:
            try:
                there = await self._calls.get(kind, name, job.namespace)
            except ApiRefusal as refusal:
                if refusal.code != 404:
                    raise
                continue
            if (of := controller_of(there)) is not None and of["uid"] == job.uid:
                await self._calls.remove(kind, there)


def _forget_plugins(status: dict[str, Any]) -> None:
    """Remove the plugins' objects from the status, because these objects have been deleted. The job's volumes stay in
    the status until the job is deleted."""
    kept = status.get("controlledResources") or {}
    kept = {key: value for key, value in kept.items() if not key.startswith("plugin-")}
    status.pop("controlledResources", None)
    if kept:
        status["controlledResources"] = kept
