"""Carry out the writes to Jobs that gangs request. The object in an answer is as good as an object from the watch: it
goes to the caches, and the newer version counts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from phalanx.client.connection import Object
from phalanx.client.informer import Informer
from phalanx.client.kind import Kind
from phalanx.kube.gang.effects import Answered, RoleStart, WriteOutcome
from phalanx.kube.read.labels import REASON
from phalanx.kube.read.records import PreemptionMark, RecordKey, StartRecord
from phalanx.kube.read.workload.batch_job import BatchJob
from phalanx.kube.write.job_patch import AnnotateJob, ResizeJob, ResumeJob, SuspendJob
from phalanx.kube.write.writer import Writer
from phalanx.model.node import Flavor, joined_flavor
from phalanx.model.reason import Reason

log = logging.getLogger(__name__)


class JobWrites:
    """The writes to Jobs that gangs request: the implementation of the protocol `JobEffects`. `conclude`: called with
    the id of a gang, to reconcile it after the answer to a write."""

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
        beside: list[ResumeJob] = []
        for role in reversed(roles):
            obj, flavor = self._known(role.job), joined_flavor(role.flavor, self._flavors)
            with_all = tuple(beside) if role is roles[0] else ()
            own = record if self._key is None else self._key.sign(record, role.job.object_uid)
            beside.append(
                ResumeJob(
                    role.job,
                    own,
                    obj,
                    parallelism=role.parallelism,
                    flavor=flavor,
                    update=role.update,
                    beside=with_all,
                    why_there=role.why_there,
                )
            )
        self._writer.put(beside[-1], self._done(gang, roles[0].job, answered))

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
                log.warning("Job %s could not be given parallelism %d: %s", job.key, parallelism, text)
            answered(answer, text)

        self._writer.put(ResizeJob(job, self._known(job), parallelism), self._done(gang, job, logged))

    def explain(self, job: BatchJob, text: str) -> None:
        self.annotate(job, REASON, text)

    def annotate(self, job: BatchJob, word: str, text: str) -> None:
        """Write an annotation of Phalanx on the Job."""
        kind = job.adapter.kind
        if (obj := self._informers(kind).objects.get(job.key)) is not None:
            self._writer.put(AnnotateJob(job, obj, word, text), lambda answer, found, _: self._observe(kind, found))

    # --- inside ---------------------------------------------------------------------------------------------------

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
