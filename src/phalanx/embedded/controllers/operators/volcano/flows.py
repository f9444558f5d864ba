"""Run JobFlows (flow.volcano.sh/v1alpha1). A JobFlow creates a Job from each of its JobTemplates, once the Jobs on
which this Job depends are Completed.

The Job of a template is `<flow>-<template>`. As in Volcano v1.15.1, the fields `probe` and `patch` have no effect: only
the completion of a Job satisfies a dependency, and the spec of a JobTemplate is used unchanged. The phase of a failed
flow never changes.

Source: pkg/controllers/jobflow of Volcano v1.15.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.informer import Change
from phalanx.embedded.controllers.operators.volcano.decide import FINISHED
from phalanx.embedded.controllers.operators.volcano.kinds import (
    COMPONENT,
    CREATED_BY_FLOW,
    CREATED_BY_TEMPLATE,
    CRON_JOBS,
    CRON_SCHEDULED_AT,
    JOB_FLOWS,
    JOB_TEMPLATES,
    JOBS,
)
from phalanx.embedded.controllers.runtime.pod_state import controller_of, is_deleting, owner_reference, uid_of
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler
from phalanx.embedded.controllers.workloads.cron_job import CronKind

_LISTS = {
    "Pending": "pendingJobs",
    "Running": "runningJobs",
    "Failed": "failedJobs",
    "Completed": "completedJobs",
    "Terminated": "terminatedJobs",
}
_TEMPLATE_WAIT_S = 5.0


def job_phase(job: Object) -> str:
    """Return the phase of a Job; a Job without a status is Pending."""
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")


def _ended_well(job: Object) -> bool | None:
    return job_phase(job) == "Completed" if job_phase(job) in FINISHED else None


def _completed_at(job: Object) -> str:
    return str(job["status"]["state"].get("lastTransitionTime", "")) if job_phase(job) == "Completed" else ""


CRONS = CronKind(
    crons=CRON_JOBS,
    jobs=JOBS,
    component=COMPONENT,
    scheduled_at=CRON_SCHEDULED_AT,
    ended_well=_ended_well,
    completed_at=_completed_at,
)


class JobFlowController(Reconciler):
    kind, component, owns = JOB_FLOWS, COMPONENT, (JOBS,)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._jobs, self._templates = self._calls.cache(JOBS), self._calls.cache(JOB_TEMPLATES)
        self._templates.subscribe(self._template_changed)

    def _template_changed(self, change: Change) -> None:
        """Reconcile the flows that wait for the changed template."""
        if change.new is not None and change.old is None:
            space, name = change.new["metadata"]["namespace"], change.new["metadata"]["name"]
            for key, flow in self.objects.items():
                named = {one.get("name") for one in (flow.get("spec") or {}).get("flows") or ()}
                if key.startswith(f"{space}/") and name in named:
                    self.queue.add(key)

    async def reconcile(self, flow: Object) -> None:
        name, flows = flow["metadata"]["name"], (flow.get("spec") or {}).get("flows") or ()
        jobs = {one["name"]: self._job(flow, f"{name}-{one['name']}") for one in flows}
        status = flow_status(flow, jobs)
        if status["state"]["phase"] == "Succeed" and (flow.get("spec") or {}).get("jobRetainPolicy") == "delete":
            for job in jobs.values():
                if job is not None and not is_deleting(job):
                    await self._calls.remove(JOBS, job)
        elif status["state"]["phase"] not in ("Succeed", "Failed"):
            for one in flows:
                targets = (one.get("dependsOn") or {}).get("targets") or ()
                done = all((job := jobs.get(each)) is not None and job_phase(job) == "Completed" for each in targets)
                if jobs[one["name"]] is None and done:
                    await self._make(flow, one["name"])
        await self.write_status(flow, status)

    def _job(self, flow: Object, name: str) -> Object | None:
        job: Object | None = self._jobs.objects.get(f"{flow['metadata']['namespace']}/{name}")
        owner = controller_of(job) if job is not None else None
        return job if owner is not None and owner["uid"] == uid_of(flow) else None

    async def _make(self, flow: Object, template_name: str) -> None:
        meta = flow["metadata"]
        template = self._templates.objects.get(f"{meta['namespace']}/{template_name}")
        if template is None:
            text = f"the JobTemplate {template_name} does not exist: create it"
            self.tell(flow, "Warning", "FailedCreate", text)
            return
        name = f"{meta['name']}-{template_name}"
        made_by = {
            CREATED_BY_TEMPLATE: f"{meta['namespace']}.{template_name}",
            CREATED_BY_FLOW: f"{meta['namespace']}.{meta['name']}",
        }
        body = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.name,
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "labels": made_by,
                "annotations": made_by,
                "ownerReferences": [owner_reference(JOB_FLOWS, flow)],
            },
            "spec": template.get("spec") or {},  # the server refuses an empty spec
        }
        try:
            await self._calls.create(JOBS, body, meta["namespace"])
        except ApiRefusal as refusal:
            self.tell(flow, "Warning", "FailedCreate", f"job {name}: {refusal}")
            if refusal.reason != "AlreadyExists":
                raise
            # a Job of another flow has this name: wait until that Job is deleted
            self.look_after(flow, _TEMPLATE_WAIT_S)
        else:
            self.tell(flow, "Normal", "Created", f"create a job named {name}!")


def flow_status(flow: Object, jobs: Mapping[str, Object | None]) -> dict[str, Any]:
    """Return the status of a flow. `jobs`: name of a template -> its Job, or None if it does not exist. `unKnowJobs` is
    spelt as in Volcano."""
    there = [job for job in jobs.values() if job is not None]
    old = ((flow.get("status") or {}).get("state") or {}).get("phase") or "Pending"
    lists: dict[str, list[str]] = {}
    for job in there:
        lists.setdefault(_LISTS.get(job_phase(job), "unKnowJobs"), []).append(job["metadata"]["name"])
    failed = bool(lists.get("failedJobs") or lists.get("terminatedJobs"))
    done = len(lists.get("completedJobs", ()))
    phase = old
    if old not in ("Failed", "Succeed"):
        if failed:
            phase = "Failed"
        elif jobs and done == len(jobs):
            phase = "Succeed"
        elif lists.get("runningJobs") or done:
            phase = "Running"
    elif old == "Succeed" and not there:  # the policy of the flow required the deletion of the Jobs
        return dict(flow["status"])
    status: dict[str, Any] = {name: sorted(names) for name, names in lists.items()}
    status["state"] = {"phase": phase}
    if there:
        status["jobStatusList"] = [_one(job) for job in there]
        status["conditions"] = {job["metadata"]["name"]: _condition(job) for job in there}
    return status


def _one(job: Object) -> dict[str, Any]:
    said = job.get("status") or {}
    state = said.get("state") or {}
    found: dict[str, Any] = {"name": job["metadata"]["name"], "state": job_phase(job)}
    found["startTimestamp"] = job["metadata"]["creationTimestamp"]
    if job_phase(job) in FINISHED and state.get("lastTransitionTime"):
        found["endTimestamp"] = state["lastTransitionTime"]
    return found | ({"restartCount": said["retryCount"]} if said.get("retryCount") else {})


def _condition(job: Object) -> dict[str, Any]:
    said = job.get("status") or {}
    found = {"phase": job_phase(job), "createTime": job["metadata"]["creationTimestamp"]}
    kept = {key: said[key] for key in ("runningDuration", "taskStatusCount") if said.get(key)}
    return found | kept
