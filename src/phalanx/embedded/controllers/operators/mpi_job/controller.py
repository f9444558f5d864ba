"""Run MPIJobs (kubeflow.org/v2beta1) like the Kubeflow MPI operator, for one machine.

The controller is level-triggered. In each step it reads the MPIJob, its launcher Job and its pods, creates missing
objects, removes surplus objects, and writes the status if it changed. Every object has a fixed name, so a step can be
repeated without harm.

A suspended MPIJob has a suspended launcher Job and no workers. With `launcherCreationPolicy: WaitForWorkersReady` the
launcher is created when all workers are ready.

`judge` computes the status of an MPIJob from its launcher and its workers, without side effects. An MPIJob succeeds or
fails together with its launcher Job. It is running when the launcher's pod and all workers run. Source:
kubeflow/mpi-operator caa3c47f, pkg/controller/mpi_job_controller_status.go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import CONFIG_MAPS, JOBS, MPI_JOBS, PODS, SECRETS, SERVICES, Kind
from phalanx.client.moment import write_moment
from phalanx.embedded.controllers.operators.conditions import Condition, is_true, with_condition
from phalanx.embedded.controllers.operators.mpi_job.objects import (
    COMPONENT,
    OPERATOR,
    config,
    launcher_name,
    launcher_template,
    make_config,
    make_launcher,
    make_secret,
    make_service,
    make_worker,
    worker_count,
    worker_name,
)
from phalanx.embedded.controllers.runtime.calls import create_owned
from phalanx.embedded.controllers.runtime.pod_state import (
    controller_of,
    is_controlled_by,
    is_deleting,
    is_ready,
    phase,
    seconds,
)
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler

_NAME = "MPIJob"


def finished(job: Object) -> bool:
    return is_true(job, "Succeeded") or is_true(job, "Failed")


def judge(
    job: Object, launcher: Object | None, launchers: Sequence[Object], workers: Sequence[Object], now: str
) -> dict[str, object]:
    """Return the status of an MPIJob. `launchers`: the pods of its launcher Job; `now`: the time as a metav1.Time."""
    old = job.get("status") or {}
    status: dict[str, Any] = {**old}
    where = f"{_NAME} {job['metadata']['namespace']}/{job['metadata']['name']}"
    said = with_condition(
        list(old.get("conditions") or ()), "Created", True, f"{_NAME}Created", f"{where} is created.", now
    )
    suspended = bool((job["spec"].get("runPolicy") or {}).get("suspend"))
    if suspended:
        said = _denied(with_condition(said, "Suspended", True, f"{_NAME}Suspended", f"{where} is suspended.", now), now)
        status |= {"conditions": said, "replicaStatuses": {"Launcher": {}, "Worker": {}}}
        status.pop("startTime", None)
        return status
    if any(one["type"] == "Suspended" for one in said):
        said = with_condition(said, "Suspended", False, f"{_NAME}Resumed", f"{where} is resumed.", now)
    status.setdefault("startTime", now)
    ended = _end(launcher)
    counted = _counted(launcher, launchers, ended)
    status["replicaStatuses"] = {"Launcher": counted, "Worker": _phases(workers)}
    if ended is not None:
        kind, reason, text = ended
        message = f"{where} successfully completed." if kind == "Succeeded" else text or f"{where} has failed"
        said = with_condition(_denied(said, now), kind, True, reason, message, now)
        status["completionTime"] = (launcher or {}).get("status", {}).get("completionTime") or now
    elif counted.get("active") and status["replicaStatuses"]["Worker"].get("active", 0) >= worker_count(job):
        said = with_condition(said, "Running", True, f"{_NAME}Running", f"{where} is running.", now)
    status["conditions"] = said
    return status


def _denied(said: list[Condition], now: str) -> list[Condition]:
    """Return the conditions, with Running set to False if it was True."""
    running = next((one for one in said if one["type"] == "Running" and one["status"] == "True"), None)
    return (
        said if running is None else with_condition(said, "Running", False, running["reason"], running["message"], now)
    )


def _end(launcher: Object | None) -> tuple[str, str, str] | None:
    """Return the end of the launcher Job: condition, reason, message; None if the Job has not ended."""
    for one in ((launcher or {}).get("status") or {}).get("conditions") or ():
        if one["status"] == "True" and one["type"] == "Complete":
            return "Succeeded", f"{_NAME}Succeeded", ""
        if one["status"] == "True" and one["type"] == "Failed":
            reason = f"{_NAME}Evicted" if one.get("reason") == "Evicted" else f"{_NAME}Failed"
            return "Failed", reason, f"{one.get('reason') or 'Failed'}: {one.get('message') or ''}"
    return None


def _counted(launcher: Object | None, pods: Iterable[Object], ended: tuple[str, str, str] | None) -> dict[str, int]:
    found = (launcher or {}).get("status") or {}
    active = 0 if ended else sum(phase(pod) == "Running" for pod in pods)
    numbers = {"active": active, "succeeded": found.get("succeeded") or 0, "failed": found.get("failed") or 0}
    return {name: number for name, number in numbers.items() if number}


def _phases(workers: Iterable[Object]) -> dict[str, int]:
    found: dict[str, int] = {}
    names = {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
    for pod in workers:
        if (name := names.get(phase(pod))) is not None:
            found[name] = found.get(name, 0) + 1
    return found


_MUTABLE = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"), ("spec", "tolerations"))


class MPIJobController(Reconciler):
    kind, component, owns = MPI_JOBS, COMPONENT, (PODS, JOBS)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._jobs = self._calls.cache(JOBS)
        # uid of an MPIJob -> the data that was last written to its ConfigMap
        self._told: dict[str, dict[str, str]] = {}
        self._calls.cache(PODS).subscribe(lambda change: self._launcher_changed(change.new))

    def _launcher_changed(self, pod: Object | None) -> None:
        """Reconcile the MPIJob after a change of its launcher's pod, because the state of the MPIJob depends on this
        pod. The pod is controlled by the launcher Job, which is controlled by the MPIJob."""
        owner = controller_of(pod) if pod is not None else None
        if pod is not None and owner is not None and owner["kind"] == JOBS.name:
            job = self._jobs.objects.get(f"{pod['metadata']['namespace']}/{owner['name']}")
            above = controller_of(job) if job is not None else None
            if above is not None and above["kind"] == MPI_JOBS.name:
                self.queue.add(f"{pod['metadata']['namespace']}/{above['name']}")

    async def reconcile(self, job: Object) -> None:
        policy = job["spec"].get("runPolicy") or {}
        if (policy.get("managedBy") or OPERATOR) != OPERATOR:
            return
        job = {**job, "apiVersion": MPI_JOBS.api_version, "kind": MPI_JOBS.name}
        workers = self._index.owned_by(job["metadata"]["uid"])
        if finished(job):
            await self._after_end(job, workers)
            return
        launcher = self._launcher(job)
        if not _ended(launcher):
            await self._make(job, launcher, workers, suspended=bool(policy.get("suspend")))
            launcher = self._launcher(job)
        pods = self._index.owned_by(launcher["metadata"]["uid"]) if launcher is not None else []
        await self.write_status(job, judge(job, launcher, pods, workers, write_moment(self._clock())))

    async def _make(self, job: Object, launcher: Object | None, workers: Sequence[Object], *, suspended: bool) -> None:
        wanted = 0 if suspended else worker_count(job)
        await self._furnish(job, workers)
        names = {pod["metadata"]["name"] for pod in workers}
        for pod in workers:
            if not is_deleting(pod) and _number(job, pod) >= wanted:
                await self._calls.remove(PODS, pod)
        for index in range(wanted):
            if worker_name(job, index) not in names:
                await self._create(job, PODS, make_worker(job, index))
        if launcher is None:
            late = job["spec"].get("launcherCreationPolicy") == "WaitForWorkersReady" and not suspended
            if not late or sum(is_ready(pod) for pod in workers) >= wanted:
                await self._create(job, JOBS, make_launcher(job))
        elif bool(launcher["spec"].get("suspend")) != suspended:
            await self._switch(job, launcher, suspended=suspended)

    async def _switch(self, job: Object, launcher: Object, *, suspended: bool) -> None:
        """Suspend the launcher Job, or resume it with the present template of the MPIJob."""
        if suspended:
            await self._calls.patch(JOBS, launcher, {"spec": {"suspend": True}})
            return
        change = _template_patch(launcher_template(job), launcher["spec"]["template"])
        if change and (launcher.get("status") or {}).get("startTime"):
            launcher = await self._calls.patch(JOBS, launcher, {"status": {"startTime": None}}, subresource="status")
        spec: Object = {"suspend": False, **({"template": change} if change else {})}
        await self._calls.patch(JOBS, launcher, {"spec": spec})

    async def _furnish(self, job: Object, workers: Sequence[Object]) -> None:
        """Create the Service, the Secret with the key, and the ConfigMap with the list of hosts. Update the list from
        the pods. Objects that a user deletes later are not created again."""
        uid, data = job["metadata"]["uid"], config(job, [pod["metadata"]["name"] for pod in workers if _runs(pod)])
        if self._told.get(uid) == data:
            return
        if uid not in self._told:
            await self._create(job, SERVICES, make_service(job))
            await self._create(job, SECRETS, make_secret(job))
        there = await self._create(job, CONFIG_MAPS, make_config(job, data))
        if there.get("data") != data:
            await self._calls.patch(CONFIG_MAPS, there, {"data": data})
        self._told[uid] = data

    async def _after_end(self, job: Object, workers: Sequence[Object]) -> None:
        self._told.pop(job["metadata"]["uid"], None)
        policy = job["spec"].get("runPolicy") or {}
        cleans = policy.get("cleanPodPolicy") or "None"
        for pod in workers:
            live = phase(pod) in ("Pending", "Running")
            if not is_deleting(pod) and (cleans == "All" or (cleans == "Running" and live)):
                await self._calls.remove(PODS, pod)
        if (ttl_s := policy.get("ttlSecondsAfterFinished")) is not None:
            left_s = seconds((job.get("status") or {})["completionTime"]) + float(ttl_s) - self._clock()
            if left_s > 0:
                self.look_after(job, left_s)
            else:
                await self._calls.remove(MPI_JOBS, job)

    def _launcher(self, job: Object) -> Object | None:
        found = self._jobs.objects.get(f"{job['metadata']['namespace']}/{launcher_name(job)}")
        return found if found is not None and is_controlled_by(found, job) else None

    async def _create(self, job: Object, kind: Kind, body: Object) -> Object:
        """Create the object if it does not exist, and return the object that then exists. Raises ApiError, after which
        the step is retried, and ValueError if a foreign object has the name."""
        name = body["metadata"]["name"]
        try:
            return (await create_owned(self._calls, kind, body, job))[0]
        except ApiRefusal as refusal:
            if refusal.reason == "AlreadyExists":
                text = f"there is a {kind.name} {name} that it did not create: delete one of the two"
                raise ValueError(text) from refusal
            text = f"{kind.name} {name} could not be created: {refusal}"
            self.tell(job, "Warning", "MPIJobFailed", text)
            raise


def _ended(launcher: Object | None) -> bool:
    conditions = ((launcher or {}).get("status") or {}).get("conditions") or ()
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def _runs(pod: Object) -> bool:
    return phase(pod) == "Running"


def _number(job: Object, pod: Object) -> int:
    """Return the index of a worker among all workers of the job."""
    return int(pod["metadata"]["name"].removeprefix(worker_name(job, 0)[:-1]))


def _template_patch(wanted: Object, now: Object) -> Object:
    """Return a merge patch with the changes of a pod template that are allowed while its Job is suspended."""
    found: Object = {}
    for outer, name in _MUTABLE:
        new, old = (wanted.get(outer) or {}).get(name), (now.get(outer) or {}).get(name)
        if new and new != old:
            found.setdefault(outer, {})[name] = new
    return found
