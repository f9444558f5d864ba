"""The writes to Jobs: resume with the record of the start, and suspend again. One PATCH each, with resourceVersion."""

from __future__ import annotations

from phalanx.client.connection import ApiError, Connection, Object
from phalanx.client.kind import EVENTS, JOBS
from phalanx.kube import labels
from phalanx.kube.job import BatchJob
from phalanx.kube.pin import with_gate
from phalanx.kube.record import Record, read_record
from phalanx.kube.write import Verdict, Write
from phalanx.model.reason import Reason


class JobPatch(Write):
    """A merge patch of one Job that holds only for the version it was decided on."""

    def __init__(self, job: BatchJob) -> None:
        self.key = f"jobs/{job.key}"
        self.job = job
        self.version = job.resource_version
        self.gates: list[Object] = [{"name": name} for name in job.gates]

    async def read(self, api: Connection) -> Object:
        return await api.get(JOBS, self.job.name, self.job.namespace)

    async def patch(
        self, api: Connection, suspend: bool, annotations: dict[str, str | None], template: Object | None = None
    ) -> Object:
        body = {
            "metadata": {"resourceVersion": self.version, "uid": self.job.uid, "annotations": annotations},
            "spec": {"suspend": suspend, **({"template": {"spec": template}} if template else {})},
        }
        return await api.patch(JOBS, self.job.name, body, self.job.namespace, fieldManager=labels.FIELD_MANAGER)

    def rebase(self, obj: Object) -> Verdict:
        self.version = obj["metadata"]["resourceVersion"]
        self.gates = list(obj["spec"]["template"]["spec"].get("schedulingGates") or ())
        return Verdict.AGAIN


class Resume(JobPatch):
    """`suspend: false` and the record of the start, in one write: a Job that runs without the record was not started by
    us, and one with it was. What kept it waiting is no longer true and goes. Where another scheduler binds the pods,
    our gate goes into their template in the same write: only the template of a suspended Job may change (KEP-2926)."""

    def __init__(self, job: BatchJob, record: Record) -> None:
        super().__init__(job)
        self.record = record

    async def send(self, api: Connection) -> Object:
        gates = with_gate(self.gates)
        template = {"schedulingGates": gates} if self.job.pinned and gates != self.gates else None
        return await self.patch(api, False, {labels.ADMITTED: self.record.text(), labels.REASON: None}, template)

    def judge(self, obj: Object) -> Verdict:
        meta = obj["metadata"]
        if meta["uid"] != self.job.uid:
            return Verdict.GONE
        if not obj["spec"].get("suspend") and read_record(meta.get("annotations")) == self.record:
            return Verdict.ACHIEVED
        if labels.held(meta) or bool(obj["spec"].get("suspend")) != self.job.suspended:
            return Verdict.LOST
        return self.rebase(obj)


class Suspend(JobPatch):
    """`suspend: true`, without a record: the start is taken back. Its Job controller is asked what went wrong first,
    so that the reason can quote it (`quote`)."""

    def __init__(self, job: BatchJob, reason: Reason) -> None:
        super().__init__(job)
        self.reason = reason
        self.quote = ""

    async def send(self, api: Connection) -> Object:
        self.quote = self.quote or await failed_create(api, self.job)
        text = f"{self.reason.code}: {self.reason.text}" + (f" ({self.quote})" if self.quote else "")
        return await self.patch(api, True, {labels.ADMITTED: None, labels.REASON: text})

    def judge(self, obj: Object) -> Verdict:
        meta = obj["metadata"]
        if meta["uid"] != self.job.uid:
            return Verdict.GONE
        if obj["spec"].get("suspend") and read_record(meta.get("annotations")) is None:
            return Verdict.ACHIEVED
        return self.rebase(obj)


async def failed_create(api: Connection, job: BatchJob) -> str:
    """What the Job controller last said about pods of this Job that it could not create, or nothing."""
    fields = f"involvedObject.name={job.name},involvedObject.uid={job.uid},reason=FailedCreate"
    try:
        listing = await api.list(EVENTS, job.namespace, fieldSelector=fields)
    except ApiError:
        return ""
    found = [event.get("message") or "" for event in listing["items"] if event.get("reason") == "FailedCreate"]
    return found[-1] if found else ""
