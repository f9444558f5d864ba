"""The writes to Jobs: resume with the record of the start, suspend again, and give an elastic one another size. One
PATCH each, with resourceVersion."""

from __future__ import annotations

from typing import Any

import msgspec

from phalanx.client.connection import ApiError, Connection, Object
from phalanx.client.kind import EVENTS, JOBS
from phalanx.kube import labels
from phalanx.kube.job import BatchJob, given, limited, original
from phalanx.kube.pin import with_gate
from phalanx.kube.record import Mark, Record, read_record
from phalanx.kube.write import Verdict, Write
from phalanx.model.flavor import Flavor
from phalanx.model.reason import Reason


class JobPatch(Write):
    """A merge patch of one Job that holds only for the version it was decided on. `obj` is its newest known state."""

    def __init__(self, job: BatchJob, obj: Object) -> None:
        self.key = f"jobs/{job.key}"
        self.job, self.obj = job, obj
        self.version = job.resource_version

    async def read(self, api: Connection) -> Object:
        return await api.get(JOBS, self.job.name, self.job.namespace)

    async def patch(self, api: Connection, spec: Object, annotations: dict[str, str | None]) -> Object:
        meta = {"resourceVersion": self.version, "uid": self.job.uid, "annotations": annotations}
        body = {"metadata": meta, "spec": spec}
        return await api.patch(JOBS, self.job.name, body, self.job.namespace, fieldManager=labels.FIELD_MANAGER)

    def rebase(self, obj: Object) -> Verdict:
        self.version, self.obj = obj["metadata"]["resourceVersion"], obj
        return Verdict.AGAIN


class Resume(JobPatch):
    """`suspend: false` and the record of the start, in one write: a Job that runs without the record was not started by
    us, and one with it was. What kept it waiting is no longer true and goes. An elastic Job gets the `parallelism` that
    was placed, and the time limit of the start becomes the Job's own, so that its controller stops it.

    The same write changes the template, for only that of a suspended Job may change (KEP-2926): where another scheduler
    binds the pods, our gate goes in; and pods that are given a flavor get its labels and tolerations."""

    begins = True

    def __init__(
        self,
        job: BatchJob,
        record: Record,
        obj: Object,
        *,
        parallelism: int | None = None,
        flavor: Flavor | None = None,
    ) -> None:
        super().__init__(job, obj)
        self.record, self.flavor = record, flavor
        self.parallelism = job.wished if parallelism is None else parallelism

    async def send(self, api: Connection) -> Object:
        spec: dict[str, Any] = {"suspend": False}
        words: dict[str, str | None] = {labels.ADMITTED: self.record.text(), labels.REASON: None}
        words |= {name: None for name in (labels.PREEMPTED,) if name in self._words}
        if self.parallelism != self.job.parallelism or labels.PARALLELISM in self._words:
            spec["parallelism"] = self.parallelism
            words[labels.PARALLELISM] = given(self.parallelism, self.job.wished)
        self._limit(spec, words)
        template = self._template(words)
        return await self.patch(api, {**spec, **({"template": {"spec": template}} if template else {})}, words)

    def _limit(self, spec: Object, words: dict[str, str | None]) -> None:
        """Its own activeDeadlineSeconds, or the limit of this start if that is shorter."""
        own, limit_s = self.job.active_s, self.record.limit_s
        active_s = own if limit_s is None or (own is not None and own <= limit_s) else max(1, round(limit_s))
        if active_s != self.obj["spec"].get("activeDeadlineSeconds") or labels.LIMITED in self._words:
            spec["activeDeadlineSeconds"] = active_s
            words[labels.LIMITED] = limited(active_s, own)

    def judge(self, obj: Object) -> Verdict:
        meta = obj["metadata"]
        if meta["uid"] != self.job.uid:
            return Verdict.GONE
        if not obj["spec"].get("suspend") and read_record(meta.get("annotations")) == self.record:
            return Verdict.ACHIEVED
        if labels.held(meta) or bool(obj["spec"].get("suspend")) != self.job.suspended:
            return Verdict.LOST
        return self.rebase(obj)

    @property
    def _words(self) -> dict[str, str]:
        found: dict[str, str] = self.obj["metadata"].get("annotations") or {}
        return found

    def _template(self, words: dict[str, str | None]) -> Object:
        """What of the pods' spec is to change; `words` remembers what it said before, or forgets it."""
        now, change = self.obj["spec"]["template"]["spec"], dict[str, Any]()
        gates = list(now.get("schedulingGates") or ())
        if self.job.pinned and (wanted := with_gate(gates)) != gates:
            change["schedulingGates"] = wanted
        if self.flavor is None and labels.TEMPLATE not in self._words:
            return change
        own = original(self.obj["metadata"], now)
        said = {name: own.get(name) for name in ("nodeSelector", "tolerations")}
        words[labels.TEMPLATE] = msgspec.json.encode(said).decode() if self.flavor else None
        return change | _flavored(said, now, self.flavor)


def _flavored(own: Object, now: Object, flavor: Flavor | None) -> Object:
    """A merge patch from what the pods' spec says `now` to its `own` words and those of the flavor."""
    selector = {**(own["nodeSelector"] or {}), **dict(flavor.labels if flavor else ())}
    gone = {key: None for key in now.get("nodeSelector") or {} if key not in selector}
    tolerations = list(own["tolerations"] or ())
    for each in flavor.tolerations if flavor else ():
        words = {"key": each.key, "operator": each.operator, "value": each.value, "effect": each.effect}
        if (toleration := {name: text for name, text in words.items() if text}) not in tolerations:
            tolerations.append(toleration)
    return {"nodeSelector": {**gone, **selector} or None, "tolerations": tolerations or None}


class Suspend(JobPatch):
    """`suspend: true`, without a record: the start is taken back. Its Job controller is asked what went wrong first,
    so that the reason can quote it (`quote`). With a `mark` it gives way to another, and nothing went wrong. With a
    `hold` it is not to be started again before somebody removes that."""

    def __init__(self, job: BatchJob, reason: Reason, obj: Object, mark: Mark | None = None, hold: str = "") -> None:
        super().__init__(job, obj)
        self.reason, self.mark, self.hold = reason, mark, hold
        self.quote = ""

    async def send(self, api: Connection) -> Object:
        if self.mark is None:
            self.quote = self.quote or await failed_create(api, self.job)
        text = f"{self.reason.code}: {self.reason.text}" + (f" ({self.quote})" if self.quote else "")
        mark: dict[str, str] = {}
        if self.mark is not None:
            mark = {labels.PREEMPTED: self.mark.text(), labels.PREEMPTIONS: str(self.job.preempted + 1)}
        hold = {labels.HOLD: self.hold} if self.hold else {}
        return await self.patch(api, {"suspend": True}, {labels.ADMITTED: None, labels.REASON: text, **mark, **hold})

    def judge(self, obj: Object) -> Verdict:
        meta = obj["metadata"]
        if meta["uid"] != self.job.uid:
            return Verdict.GONE
        if obj["spec"].get("suspend") and read_record(meta.get("annotations")) is None:
            return Verdict.ACHIEVED
        return self.rebase(obj)


class Explain(JobPatch):
    """Say on a Job what went wrong with it, also when it is over."""

    def __init__(self, job: BatchJob, obj: Object, text: str) -> None:
        super().__init__(job, obj)
        self.text = text

    async def send(self, api: Connection) -> Object:
        return await self.patch(api, {}, {labels.REASON: self.text})

    def judge(self, obj: Object) -> Verdict:
        meta = obj["metadata"]
        if meta["uid"] != self.job.uid:
            return Verdict.GONE
        return Verdict.ACHIEVED if labels.said(meta, labels.REASON) == self.text else self.rebase(obj)


class Resize(JobPatch):
    """Another `parallelism` for an elastic Job that runs."""

    def __init__(self, job: BatchJob, obj: Object, parallelism: int) -> None:
        super().__init__(job, obj)
        self.parallelism = parallelism

    async def send(self, api: Connection) -> Object:
        said = {labels.PARALLELISM: given(self.parallelism, self.job.wished)}
        return await self.patch(api, {"parallelism": self.parallelism}, said)

    def judge(self, obj: Object) -> Verdict:
        meta, spec = obj["metadata"], obj["spec"]
        if meta["uid"] != self.job.uid:
            return Verdict.GONE
        if spec.get("parallelism") == self.parallelism:
            return Verdict.ACHIEVED
        if spec.get("suspend") or spec.get("parallelism") != self.job.parallelism:
            return Verdict.LOST  # somebody else has said how many since: looked at anew
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
