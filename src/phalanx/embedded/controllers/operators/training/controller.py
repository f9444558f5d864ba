"""Run PyTorchJobs (kubeflow.org/v1) like the Kubeflow training operator, for one machine.

Level-triggered like the Job controller: read the job and its pods, let `status` decide, carry that out, and write the
status if it changed. Pods are created and deleted by name, so that repeated steps are harmless.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from phalanx.client.connection import ApiError, ApiRefusal, Object
from phalanx.client.informer import key_of
from phalanx.client.kind import PODS, SERVICES, Kind
from phalanx.embedded.controllers.operators.training.definition import PYTORCH_JOBS
from phalanx.embedded.controllers.operators.training.pods import OPERATOR, make_pod, make_service, replicas
from phalanx.embedded.controllers.operators.training.status import TrainingActions, broken_status, finished, judge
from phalanx.embedded.controllers.runtime.calls import create_owned
from phalanx.embedded.controllers.runtime.reconciler import ControllerContext, Reconciler
from phalanx.embedded.controllers.runtime.recorder import BROKEN, broken_message

log = logging.getLogger(__name__)

_MANAGER = "kubeflow.org/training-operator"


class TrainingController(Reconciler):
    kind, component = PYTORCH_JOBS, OPERATOR

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.queue.on_defect = self._mark
        # Running tasks; they are referenced here because the event loop does not keep them alive.
        self._marks: set[asyncio.Task[None]] = set()

    async def reconcile(self, job: Object) -> None:
        policy = job["spec"].get("runPolicy") or {}
        if (policy.get("managedBy") or _MANAGER) != _MANAGER:
            return
        now_s = self._clock()
        found = judge(job, self._index.owned_by(job["metadata"]["uid"]), now_s)
        if finished(job) and policy.get("ttlSecondsAfterFinished") is not None and found.look_s <= now_s:
            await self._calls.remove(PYTORCH_JOBS, job)
            return
        await self._do(job, found)
        if found.look_s:
            self.look_after(job, found.look_s - now_s)

    def _mark(self, key: str, error: Exception) -> None:
        """Report on the job, by an Event and in its status, that it cannot be reconciled."""
        job = self.objects.get(key)
        if job is None:
            return
        message = broken_message(error)
        self.tell(job, "Warning", BROKEN, message)
        task = asyncio.ensure_future(self._write_mark(job, message))
        self._marks.add(task)
        task.add_done_callback(self._marks.discard)

    async def _write_mark(self, job: Object, message: str) -> None:
        try:
            body = {"status": broken_status(job, message, self._clock())}
            await self._calls.patch(PYTORCH_JOBS, job, body, subresource="status")
        except ApiError as refusal:
            log.info("pytorchjob %s: %s", key_of(job), refusal)

    async def _do(self, job: Object, found: TrainingActions) -> None:
        for pod in found.delete:
            await self._calls.remove(PODS, pod)
        for replica in found.create:
            await self._create(job, SERVICES, make_service(job, replica))
            await self._create(job, PODS, make_pod(job, replica))
        if not found.create and found.delete and not replicas_wanted(job):
            await self._delete_services(job)
        if found.status != (job.get("status") or {}):
            await self._calls.patch(PYTORCH_JOBS, job, {"status": found.status}, subresource="status")

    async def _create(self, job: Object, kind: Kind, body: Object) -> None:
        """Create the object, unless the job's own exists. Raises ApiError, after which the step is retried."""
        try:
            _, created = await create_owned(self._calls, kind, body, job)
        except ApiRefusal as refusal:
            text = f"Error creating: {refusal}"
            self.tell(job, "Warning", f"FailedCreate{kind.name}", text)
            raise
        if created:
            told = f"Created {kind.name.lower()}: {body['metadata']['name']}"
            self.tell(job, "Normal", f"SuccessfulCreate{kind.name}", told)

    async def _delete_services(self, job: Object) -> None:
        for replica in replicas(job):
            known: dict[str, Any] | None = self._calls.cache(SERVICES).objects.get(
                f"{job['metadata']['namespace']}/{replica.name}"
            )
            if known is not None:
                await self._calls.remove(SERVICES, known)


def replicas_wanted(job: Object) -> bool:
    """Return True if the job should have pods now: it is not suspended and not finished."""
    return not (job["spec"].get("runPolicy") or {}).get("suspend") and not finished(job)
