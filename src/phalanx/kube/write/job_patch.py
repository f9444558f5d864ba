"""The writes to Jobs: resume a Job with the record of its start, suspend a Job again, and change the size of an elastic
Job. Each write is one PATCH with a resourceVersion.

`JobWrites` carries out the writes to Jobs that gangs request. The object that the API server returns is treated like an
object from the watch: it is put into the caches, unless the caches already have a newer version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phalanx.client.connection import ApiError, Connection, Object
from phalanx.client.informer import Informer
from phalanx.client.kind import EVENTS, JOBS, Kind
from phalanx.dialects.frame.dialect import PodUpdate
from phalanx.kube.gang.effects import NO_UPDATE, Answered, RoleStart, WriteOutcome
from phalanx.kube.read import labels
from phalanx.kube.read.labels import REASON
from phalanx.kube.read.records import PreemptionMark, RecordKey, StartRecord, read_start_record
from phalanx.kube.read.workload.adapter import BATCH_JOB, Annotations, WorkloadChange, adapters, merge_changes
from phalanx.kube.read.workload.batch_job import (
    BatchJob,
    is_finished,
    original_template,
    parallelism_annotation,
    template_annotation,
    time_limit_annotation,
)
from phalanx.kube.write.binding import with_gate
from phalanx.kube.write.writer import Verdict, Write, Writer
from phalanx.model.node import Flavor, joined_flavor
from phalanx.model.reason import Reason


class JobPatch(Write):
    """A merge patch of one Job, or of the object that an `adapter` presents as this Job. The patch is not applied if
    the Job was changed after the decision to patch it. `self.whole`: the newest known state of the object. `self.obj`:
    the same state in the form of a Job."""

    def __init__(self, job: BatchJob, obj: Object) -> None:
        self.key = f"{job.adapter.kind.group}/{job.adapter.kind.plural}/{job.key}"
        self.job, self.whole = job, obj
        self.obj = self.shown(obj) or job.adapter.read(job.source)
        self.version = job.resource_version

    async def read(self, api: Connection) -> Object:
        return await api.get(self.job.adapter.kind, self.job.name, self.job.namespace)

    async def patch(self, api: Connection, *changes: WorkloadChange) -> Object:
        """Patch the object. `changes`: the change of each role, in the form of a change of a Job."""
        spec, words = merge_changes(self.whole, changes)
        meta = {"resourceVersion": self.version, "uid": self.job.object_uid, "annotations": words}
        body, at = {"metadata": meta, "spec": spec}, self.job
        return await api.patch(at.adapter.kind, at.name, body, at.namespace, fieldManager=labels.FIELD_MANAGER)

    def shown(self, obj: Object) -> Object | None:
        """Return `obj` in the form of this Job; None if a new object of the same name has replaced the object, or if it
        no longer has this role. If `obj` is invalid, return the Job's last valid state with the metadata of `obj`, and
        suspended if `obj` is suspended."""
        own = self.job.adapter
        if obj["metadata"]["uid"] != self.job.object_uid:
            return None
        if self.is_readable(obj):
            return own.read(obj) if own in adapters(own.kind, obj, own.made) else None
        return own.read(own.with_state_of(obj, self.job.source))

    def is_readable(self, obj: Object) -> bool:
        """Return False if `obj` is invalid."""
        own = self.job.adapter
        try:
            for each in adapters(own.kind, obj, own.made):
                each.read(obj)
        except Exception:  # the error is reported when the object is read from the watch
            return False
        return True

    def rebase(self, shown: Object, obj: Object) -> Verdict:
        """Use `obj`, a newer state of the object, for the next attempt of the patch. `shown`: the state `obj` in the
        form of a Job. Return AGAIN."""
        self.version, self.obj, self.whole = shown["metadata"]["resourceVersion"], shown, obj
        return Verdict.AGAIN

    def change(self, spec: Object, words: Annotations) -> WorkloadChange:
        return WorkloadChange(self.job.adapter, spec, words)


class ResumeJob(JobPatch):
    """The PATCH that starts a Job. It sets `suspend: false` and the record of the start in one write. So a Job has a
    record if and only if Phalanx has started it. It removes the reason for waiting. An elastic Job gets the number of
    placed pods as its `parallelism`. The time limit of the start is written into the Job's field activeDeadlineSeconds,
    so that the Job controller stops the Job.

    The same write changes the template, because only a suspended Job's template may change (KEP-2926). If another
    scheduler binds the pods, the write adds Phalanx's scheduling gate. The pods get the labels and tolerations of their
    flavor, and the further fields that a dialect sets for the gang. Before Kubernetes 1.36, the template of a Job that
    has already run may change only if `status.startTime` is removed (the resume sets it again). From 1.36 on, the Job
    controller may first have to observe the suspension, so a refusal with code 422 is retried.

    `other_roles`: the patches for the object's other roles, which are sent as part of the same write. `why_there`: a
    text for users about why the chosen cluster was preferred to others; "" if the Job starts in this cluster.
    """

    begins = True

    def __init__(
        self,
        job: BatchJob,
        record: StartRecord,
        obj: Object,
        *,
        parallelism: int | None = None,
        flavor: Flavor | None = None,
        update: PodUpdate = NO_UPDATE,
        other_roles: Sequence[ResumeJob] = (),
        why_there: str = "",
    ) -> None:
        super().__init__(job, obj)
        self.record, self.flavor, self.update, self.other_roles = record, flavor, update, other_roles
        self.why_there = why_there
        self.parallelism = job.requested_parallelism if parallelism is None else parallelism

    async def send(self, api: Connection) -> Object:
        changes = [each.resumption() for each in (self, *self.other_roles)]
        if "template" in changes[0].spec and self.job.adapter is BATCH_JOB:
            self.retried |= {422}
            if (self.obj.get("status") or {}).get("startTime"):
                await self._forget_start(api)
        return await self.patch(api, *changes)

    async def _forget_start(self, api: Connection) -> None:
        """Remove the start time from the Job's status, so that its template may change as if the Job had never run."""
        meta = {"resourceVersion": self.version, "uid": self.job.object_uid}
        body = {"metadata": meta, "status": {"startTime": None}}
        at = self.job
        shown = await api.patch(JOBS, at.name, body, at.namespace, "status", fieldManager=labels.FIELD_MANAGER)
        self.rebase(shown, shown)

    def resumption(self) -> WorkloadChange:
        spec: dict[str, Any] = {"suspend": False}
        words: dict[str, str | None] = {labels.ADMITTED: self.record.text(), labels.REASON: None}
        words |= {name: None for name in (labels.PREEMPTED, labels.REASON_NUMBERS) if name in self._words}
        if self.record.cluster:
            before = self._words.get(labels.SENT_TO, "").split()
            words[labels.SENT_TO] = " ".join(dict.fromkeys((*before, self.record.cluster)))
        if self.why_there:
            words[labels.CLUSTER_CHOICE] = self.why_there
        if self.parallelism != self.job.parallelism or labels.PARALLELISM in self._words:
            spec |= _counts(self.job, self.parallelism)
            words[labels.PARALLELISM] = parallelism_annotation(self.parallelism, self.job.requested_parallelism)
        self._limit(spec, words)
        template = self._template(words)
        return self.change({**spec, **({"template": template} if template else {})}, words)

    def _limit(self, spec: Object, words: dict[str, str | None]) -> None:
        """Write the user's activeDeadlineSeconds of the Job, or the limit of this start if that limit is shorter."""
        own, limit_s = self.job.active_s, self.record.limit_s
        active_s = own if limit_s is None or (own is not None and own <= limit_s) else max(1, round(limit_s))
        if active_s != self.obj["spec"].get("activeDeadlineSeconds") or labels.LIMITED in self._words:
            spec["activeDeadlineSeconds"] = active_s
            words[labels.LIMITED] = time_limit_annotation(active_s, own)

    def judge(self, obj: Object) -> Verdict:
        if (shown := self.shown(obj)) is None:
            return Verdict.GONE
        meta = shown["metadata"]
        if not shown["spec"].get("suspend") and read_start_record(meta.get("annotations")) == self.record:
            return Verdict.ACHIEVED
        if _asked(shown) != _asked(self.obj) or not self.is_readable(obj):
            return Verdict.LOST  # another client has edited the Job since the decision
        for each in self.other_roles:
            if (other := each.shown(obj)) is None or _asked(other) != _asked(each.obj):
                return Verdict.LOST  # another client has changed another role of the same object
            each.rebase(other, obj)
        return self.rebase(shown, obj)

    @property
    def _words(self) -> dict[str, str]:
        found: dict[str, str] = self.obj["metadata"].get("annotations") or {}
        return found

    def _template(self, words: dict[str, str | None]) -> Object:
        """Return the changes of the template, and add the annotation with the template's original values to `words`. If
        the template gets its original values again, the annotation is removed instead."""
        template, change = self.obj["spec"]["template"], dict[str, Any]()
        gates = list(template["spec"].get("schedulingGates") or ())
        if self.job.pinned and (wanted := with_gate(gates)) != gates:
            change["schedulingGates"] = wanted
        given = not self.record.cluster and (self.flavor is not None or self.update != NO_UPDATE)
        if not given and labels.TEMPLATE not in self._words:
            return {"spec": change} if change else {}
        own = original_template(self.obj["metadata"], template)
        words[labels.TEMPLATE] = template_annotation(own, self.update) if given else None
        change |= _flavored(own["spec"], template["spec"], self.flavor, self.update)
        return {"spec": change, **_worded(own, template, self.update)}


def _flavored(own: Object, now: Object, flavor: Flavor | None, update: PodUpdate) -> Object:
    """Return the merge patch for the present pod spec `now`. The patched spec is the original spec `own` with the
    additions of the node flavor and of `update`."""
    selector = {**(own.get("nodeSelector") or {}), **dict(flavor.labels if flavor else ()), **update.node_selector}
    gone = {key: None for key in now.get("nodeSelector") or {} if key not in selector}
    tolerations = list(own.get("tolerations") or ())
    for each in (*(flavor.tolerations if flavor else ()), *update.tolerations):
        words = {"key": each.key, "operator": each.operator, "value": each.value, "effect": each.effect}
        if (toleration := {name: text for name, text in words.items() if text}) not in tolerations:
            tolerations.append(toleration)
    return {"nodeSelector": {**gone, **selector} or None, "tolerations": tolerations or None}


def _worded(own: Object, now: Object, update: PodUpdate) -> Object:
    """Return the changes of the template's labels and annotations that `update` requires."""
    found: Object = {}
    for field, given in (("labels", update.labels), ("annotations", update.annotations)):
        before, present = ((each.get("metadata") or {}).get(field) or {} for each in (own, now))
        wanted = {**before, **given}
        changed = {key: text for key, text in wanted.items() if present.get(key) != text}
        if changed := {**{key: None for key in present if key not in wanted}, **changed}:
            found[field] = changed
    return {"metadata": found} if found else {}


class SuspendJob(JobPatch):
    """The PATCH that undoes a start. It sets `suspend: true` and removes the record. Before the PATCH, the Job
    controller's last error is read, so that the reason can quote the error (`quote`). `mark`: the mark of a preemption;
    with a mark, no error is read. `hold`: why a user must release the Job before it may start again."""

    def __init__(
        self, job: BatchJob, reason: Reason, obj: Object, mark: PreemptionMark | None = None, hold: str = ""
    ) -> None:
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
        words: Annotations = {labels.ADMITTED: None, labels.REASON: text, labels.REASON_NUMBERS: None, **mark, **hold}
        return await self.patch(api, self.change({"suspend": True}, words))

    def judge(self, obj: Object) -> Verdict:
        if (shown := self.shown(obj)) is None or is_finished(shown):
            return Verdict.GONE
        if shown["spec"].get("suspend") and read_start_record(shown["metadata"].get("annotations")) is None:
            return Verdict.ACHIEVED
        return self.rebase(shown, obj)


class AnnotateJob(JobPatch):
    """The write of an annotation on a Job, even if the Job has ended."""

    def __init__(self, job: BatchJob, obj: Object, word: str, text: str) -> None:
        super().__init__(job, obj)
        self.word, self.text = word, text

    async def send(self, api: Connection) -> Object:
        return await self.patch(api, self.change({}, {self.word: self.text}))

    def judge(self, obj: Object) -> Verdict:
        if (shown := self.shown(obj)) is None:
            return Verdict.GONE
        said = labels.option(shown["metadata"], self.word)
        return Verdict.ACHIEVED if said == self.text else self.rebase(shown, obj)


class ResizeJob(JobPatch):
    """The PATCH that changes the `parallelism` of a running elastic Job."""

    def __init__(self, job: BatchJob, obj: Object, parallelism: int) -> None:
        super().__init__(job, obj)
        self.parallelism = parallelism

    async def send(self, api: Connection) -> Object:
        said = {labels.PARALLELISM: parallelism_annotation(self.parallelism, self.job.requested_parallelism)}
        return await self.patch(api, self.change(_counts(self.job, self.parallelism), said))

    def judge(self, obj: Object) -> Verdict:
        if (shown := self.shown(obj)) is None:
            return Verdict.GONE
        spec = shown["spec"]
        if spec.get("parallelism") == self.parallelism:
            return Verdict.ACHIEVED
        if spec.get("suspend") or spec.get("parallelism") != self.job.parallelism or not self.is_readable(obj):
            return Verdict.LOST  # another writer has set the parallelism, so the gang is reconciled again
        return self.rebase(shown, obj)


def _counts(job: BatchJob, parallelism: int) -> Object:
    """Return the fields that set the number of a Job's pods. The completions may change only together with the
    parallelism (KEP-3715)."""
    return {"parallelism": parallelism, **({"completions": parallelism} if job.completions_follow else {})}


def _asked(job: Object) -> tuple[object, ...]:
    """Return the parts of a Job that must be the same at the decision to start it and at the write. These are all parts
    except the status and the annotations that Phalanx writes on a pending Job."""
    meta = job["metadata"]
    own_keys = (labels.REASON, labels.REASON_NUMBERS, labels.AFTER_OUTCOMES)
    said = {key: text for key, text in (meta.get("annotations") or {}).items() if key not in own_keys}
    return job["spec"], meta.get("labels") or {}, said, "deletionTimestamp" in meta


async def failed_create(api: Connection, job: BatchJob) -> str:
    """Return the Job controller's last error about pods of this Job that it could not create; "" if there is none."""
    reason = "FailedCreatePod" if job.adapter.role else "FailedCreate"
    fields = f"involvedObject.name={job.name},involvedObject.uid={job.object_uid},reason={reason}"
    try:
        listing = await api.list(EVENTS, job.namespace, fieldSelector=fields)
    except ApiError:
        return ""
    found = [event.get("message") or "" for event in listing["items"] if event.get("reason") == reason]
    return found[-1] if found else ""


log = logging.getLogger(__name__)


class JobWrites:
    """The writes to Jobs that gangs request. This class implements the protocol `JobEffects`. `conclude`: a function
    that gets the id of a gang and reconciles the gang after the answer to a write."""

    def __init__(
        self,
        writer: Writer,
        informers: Callable[[Kind], Informer],
        flavors: Mapping[str, Flavor],
        conclude: Callable[[str], None],
        key: RecordKey | None,
    ) -> None:
        self._writer, self._informers, self._flavors, self._conclude = writer, informers, flavors, conclude
        self._key = key

    def resume(self, gang: str, roles: Sequence[RoleStart], record: StartRecord, answered: Answered) -> None:
        other_roles: list[ResumeJob] = []
        for role in reversed(roles):
            obj, flavor = self._known(role.job), joined_flavor(role.flavor, self._flavors)
            with_all = tuple(other_roles) if role is roles[0] else ()
            own = record if self._key is None else self._key.sign(record, role.job.object_uid)
            other_roles.append(
                ResumeJob(
                    role.job,
                    own,
                    obj,
                    parallelism=role.parallelism,
                    flavor=flavor,
                    update=role.update,
                    other_roles=with_all,
                    why_there=role.why_there,
                )
            )
        self._writer.put(other_roles[-1], self._done(gang, roles[0].job, answered))

    def suspend(
        self, gang: str, job: BatchJob, why: Reason, mark: PreemptionMark | None, hold: str, answered: Answered
    ) -> None:
        write = SuspendJob(job, why, self._known(job), mark, hold)

        def quoted(answer: WriteOutcome, text: str) -> None:
            if answer is WriteOutcome.REFUSED:
                log.warning("Job %s could not be suspended again: %s", job.key, text)
            answered(answer, text if answer is WriteOutcome.REFUSED else write.quote)

        self._writer.put(write, self._done(gang, job, quoted))

    def resize(self, gang: str, job: BatchJob, parallelism: int, answered: Answered) -> None:
        def logged(answer: WriteOutcome, text: str) -> None:
            if answer is WriteOutcome.REFUSED:
                log.warning("the parallelism of Job %s could not be set to %d: %s", job.key, parallelism, text)
            answered(answer, text)

        self._writer.put(ResizeJob(job, self._known(job), parallelism), self._done(gang, job, logged))

    def explain(self, job: BatchJob, text: str) -> None:
        self.annotate(job, REASON, text)

    def annotate(self, job: BatchJob, word: str, text: str) -> None:
        """Write an annotation of Phalanx on the Job."""
        kind = job.adapter.kind
        if (obj := self._informers(kind).objects.get(job.key)) is not None:
            self._writer.put(AnnotateJob(job, obj, word, text), lambda answer, found, _: self._observe(kind, found))

    # --- private ---------------------------------------------------------------------------------------------------

    def _done(self, gang: str, job: BatchJob, answered: Answered) -> Callable[[WriteOutcome, Object | None, str], None]:
        def done(answer: WriteOutcome, obj: Object | None, text: str) -> None:
            self._observe(job.adapter.kind, obj)
            answered(answer, text)
            self._conclude(gang)

        return done

    def _known(self, job: BatchJob) -> Object:
        return self._informers(job.adapter.kind).objects[job.key]

    def _observe(self, kind: Kind, obj: Object | None) -> None:
        if obj is not None:
            self._informers(kind).observe(obj)
