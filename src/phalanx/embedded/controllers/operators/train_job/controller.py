"""Run TrainJobs (trainer.kubeflow.org/v1alpha1) like the Kubeflow Trainer, for one machine.

The controller immediately creates a JobSet with the name of the TrainJob. While the TrainJob is suspended, the JobSet
is suspended as well, and changes of the TrainJob also change the JobSet. The TrainJob ends when the JobSet ends, with
the same result.
"""

from __future__ import annotations

from typing import Any

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import CONFIG_MAPS, JOB_SETS, TRAIN_JOBS, Kind
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.operators.conditions import is_true, with_condition
from phalanx.embedded.controllers.operators.train_job.job_set import RuntimeFault, make_job_set
from phalanx.embedded.controllers.operators.train_job.mpi import companions
from phalanx.embedded.controllers.runtime.calls import create_owned
from phalanx.embedded.controllers.runtime.pod_state import controller_of, seconds
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler

COMPONENT = "trainjob-controller"
OPERATOR = "trainer.kubeflow.org/trainjob-controller"  # the value of managedBy
_GROUP, _VERSION = TRAIN_JOBS.group, TRAIN_JOBS.version
RUNTIMES: dict[str, Kind] = {
    "TrainingRuntime": Kind(group=_GROUP, version=_VERSION, plural="trainingruntimes", name="TrainingRuntime"),
    "ClusterTrainingRuntime": Kind(
        group=_GROUP,
        version=_VERSION,
        plural="clustertrainingruntimes",
        name="ClusterTrainingRuntime",
        namespaced=False,
    ),
}
_AGAIN_S = 5.0  # the pause before a missing runtime is looked up again
_ENDED = {"Completed": "Complete", "Failed": "Failed"}


class TrainJobController(Reconciler):
    kind, component, owns = TRAIN_JOBS, COMPONENT, (JOB_SETS,)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._job_sets = self._calls.cache(JOB_SETS)
        self._runtimes = {name: self._calls.cache(kind) for name, kind in RUNTIMES.items()}
        # uid of a TrainJob -> the data that was last written to its ConfigMap
        self._told: dict[str, dict[str, str]] = {}

    async def reconcile(self, job: Object) -> None:
        if (job["spec"].get("managedBy") or OPERATOR) != OPERATOR:
            return
        job = {**job, "apiVersion": TRAIN_JOBS.api_version, "kind": TRAIN_JOBS.name}
        status: dict[str, Any] = dict(job.get("status") or {})
        if not any(is_true(job, kind) for kind in _ENDED.values()):
            fault = await self._follow(job)
            status["conditions"] = self._conditions(job, fault)
            if fault:
                self.look_after(job, _AGAIN_S)
        else:
            self._told.pop(job["metadata"]["uid"], None)
        made = self._made(job)
        if made is not None:
            status["jobsStatus"] = (made.get("status") or {}).get("replicatedJobsStatus") or []
        await self.write_status(job, status)

    async def _follow(self, job: Object) -> str:
        """Create or update the JobSet of a TrainJob. Return an error message for the user, or ""."""
        try:
            runtime = self._runtime(job)
            wanted = make_job_set(job, runtime)
            await self._furnish(job, runtime, wanted)
        except RuntimeFault as fault:
            return str(fault)
        made, space = self._made(job), job["metadata"]["namespace"]
        if made is None:
            if f"{space}/{job['metadata']['name']}" in self._job_sets.objects:
                return f"there is a JobSet {job['metadata']['name']} that it did not create: delete one of the two"
            return await self._begin(job, wanted)
        if made["spec"].get("suspend"):
            patches = {"spec": {key: wanted["spec"][key] for key in ("suspend", "replicatedJobs")}}
            now = {"spec": {key: made["spec"].get(key) for key in ("suspend", "replicatedJobs")}}
            if now != patches:
                await self._calls.patch(JOB_SETS, made, patches)
        elif wanted["spec"]["suspend"]:
            await self._calls.patch(JOB_SETS, made, {"spec": {"suspend": True}})
        return await self._end_in_time(job)

    async def _begin(self, job: Object, wanted: Object) -> str:
        """Create the JobSet of a TrainJob. If the server refuses the JobSet, return the server's message, otherwise
        ""."""
        try:
            await self._calls.create(JOB_SETS, wanted, job["metadata"]["namespace"])
        except ApiRefusal as refusal:
            if refusal.code not in (400, 403, 422):
                raise
            return f"its JobSet could not be created: {refusal}"
        return await self._end_in_time(job)

    async def _furnish(self, job: Object, runtime: Object, wanted: Object) -> None:
        """Create the objects that pods of an MPI runtime mount, if they do not exist. While the job is suspended, keep
        its list of hosts up to date. Raises RuntimeFault if a foreign object has the name of one of these objects."""
        policy, made = (runtime["spec"].get("mlPolicy") or {}).get("mpi"), self._made(job)
        if policy is None or (made is not None and not made["spec"].get("suspend")):
            return
        uid, bodies = job["metadata"]["uid"], companions(job, policy, wanted)
        data = next(body["data"] for kind, body in bodies if kind is CONFIG_MAPS)
        if self._told.get(uid) == data:
            return
        for kind, body in bodies:
            there = await self._create(job, kind, body)
            if kind is CONFIG_MAPS and there.get("data") != data:
                await self._calls.patch(kind, there, {"data": data})
        self._told[uid] = data

    async def _create(self, job: Object, kind: Kind, body: Object) -> Object:
        """Create the object if it does not exist, and return it. Raises RuntimeFault if a foreign object has its
        name."""
        try:
            return (await create_owned(self._calls, kind, body, job))[0]
        except ApiRefusal as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            text = f"there is a {kind.name} {body['metadata']['name']} that it did not create"
            raise RuntimeFault(f"{text}: delete one of the two") from refusal

    async def _end_in_time(self, job: Object) -> str:
        limit_s, made = job["spec"].get("activeDeadlineSeconds"), self._made(job)
        if limit_s is None or made is None or job["spec"].get("suspend"):
            return ""
        began = [one for one in self._said(job) if one["type"] == "Suspended" and one["status"] == "False"]
        since = began[0]["lastTransitionTime"] if began else job["metadata"]["creationTimestamp"]
        left_s = seconds(since) + float(limit_s) - self._clock()
        if left_s > 0:
            self.look_after(job, left_s)
            return ""
        await self._calls.remove(JOB_SETS, made)
        return "DeadlineExceeded"

    def _conditions(self, job: Object, fault: str) -> list[dict[str, object]]:
        now, said = write_moment(self._clock()), self._said(job)
        made = self._made(job)
        if job["spec"].get("suspend"):
            said = with_condition(said, "Suspended", True, "Suspended", "TrainJob is suspended", now)
        elif any(one["type"] == "Suspended" for one in said):
            said = with_condition(said, "Suspended", False, "Resumed", "TrainJob is resumed", now)
        if fault == "DeadlineExceeded":
            text = "TrainJob was active longer than specified deadline"
            return with_condition(said, "Failed", True, "DeadlineExceeded", text, now)
        if fault:
            return with_condition(said, "Failed", False, "TrainingRuntimeNotSupported", fault, now)
        for one in (made or {}).get("status", {}).get("conditions") or ():
            if one["status"] == "True" and one["type"] in _ENDED:
                said = with_condition(said, _ENDED[one["type"]], True, one["reason"], one["message"], now)
        return said

    def _said(self, job: Object) -> list[dict[str, object]]:
        return list((job.get("status") or {}).get("conditions") or ())

    def _made(self, job: Object) -> Object | None:
        meta = job["metadata"]
        found = self._job_sets.objects.get(f"{meta['namespace']}/{meta['name']}")
        owner = controller_of(found) if found is not None else None
        return found if owner is not None and owner["uid"] == meta["uid"] else None

    def _runtime(self, job: Object) -> Object:
        """Return the training runtime that the TrainJob names. Raises RuntimeFault if it does not exist."""
        said = job["spec"].get("runtimeRef") or {}
        kind, name = str(said.get("kind") or "ClusterTrainingRuntime"), str(said.get("name"))
        key = name if kind == "ClusterTrainingRuntime" else f"{job['metadata']['namespace']}/{name}"
        found = self._runtimes[kind].objects.get(key) if kind in self._runtimes else None
        if found is None:
            raise RuntimeFault(f"there is no {kind} {name}: apply it, or name another in runtimeRef")
        return found
