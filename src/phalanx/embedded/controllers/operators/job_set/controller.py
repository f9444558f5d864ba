"""Run JobSets (jobset.x-k8s.io/v1alpha2) like their operator, for one machine.

Level-triggered: read the JobSet and its Jobs, let `judge` decide, carry that out, and write the status if it changed.
Jobs are created and deleted by name, so that repeated steps are harmless.
"""

from __future__ import annotations

from phalanx.client.connection import ApiRefusal, Object
from phalanx.client.kind import JOB_SETS, JOBS, SERVICES, Kind
from phalanx.embedded.controllers.operators.job_set.jobs import (
    COMPONENT,
    OPERATOR,
    Replica,
    make_job,
    make_service,
    template_patch,
)
from phalanx.embedded.controllers.operators.job_set.judge import JobSetActions, judge
from phalanx.embedded.controllers.runtime.calls import create_owned
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler


class JobSetController(Reconciler):
    kind, component, owns = JOB_SETS, COMPONENT, (JOBS,)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._index = context.jobs

    async def reconcile(self, job_set: Object) -> None:
        if (job_set["spec"].get("managedBy") or OPERATOR) != OPERATOR:
            return
        job_set = {**job_set, "apiVersion": JOB_SETS.api_version, "kind": JOB_SETS.name}
        now_s = self._clock()
        found = judge(job_set, self._index.owned_by(job_set["metadata"]["uid"]), now_s)
        if found.over:
            await self._calls.remove(JOB_SETS, job_set)
            return
        await self._do(job_set, found)
        await self.write_status(job_set, found.status)
        if found.look_s:
            self.look_after(job_set, found.look_s - now_s)

    async def _do(self, job_set: Object, found: JobSetActions) -> None:
        for job in found.delete:
            await self._calls.remove(JOBS, job)
        if found.create and (service := make_service(job_set)) is not None:
            await self._create(job_set, SERVICES, service)
        suspended = bool(job_set["spec"].get("suspend"))
        for replica in found.create:
            await self._create(job_set, JOBS, make_job(job_set, replica, suspended=suspended))
        for job in found.suspend:
            await self._calls.patch(JOBS, job, {"spec": {"suspend": True}})
        for replica, job in found.resume:
            await self._resume(job_set, replica, job)

    async def _resume(self, job_set: Object, replica: Replica, job: Object) -> None:
        """Resume the Job with the JobSet's present template. A Job that has run before loses its start time first."""
        change = template_patch(job_set, replica, job)
        if change and (job.get("status") or {}).get("startTime"):
            job = await self._calls.patch(JOBS, job, {"status": {"startTime": None}}, subresource="status")
        spec: Object = {"suspend": False, **({"template": change} if change else {})}
        await self._calls.patch(JOBS, job, {"spec": spec})

    async def _create(self, job_set: Object, kind: Kind, body: Object) -> None:
        """Raises ApiError, after which the step is retried."""
        try:
            await create_owned(self._calls, kind, body, job_set)
        except ApiRefusal as refusal:
            if refusal.reason == "AlreadyExists" and kind == SERVICES:
                return  # JobSets may share a subdomain
            text = f"{kind.name} {body['metadata']['name']} could not be created: {refusal}"
            self.tell(job_set, "Warning", f"{kind.name}CreationFailed", text)
            raise
