"""The record of a start and the mark of a preemption. A restarted scheduler reads both, and continues the start or the
preemption. The record is written on the objects before any pod is bound, and the mark is written before any pod ends.

The record is JSON in the annotation `phalanx.dev/admitted`. It is written on a Job by the same PATCH that resumes the
Job, and on a bare pod by the pod's Binding: the API server copies the annotations of a Binding to its pod. A record
that is no longer valid JSON is ignored: the job then counts as resumed by a user.

Any user who may edit a Job can write such an annotation and resume the Job. So a record is signed for its object, with
a key that only the scheduler can read (`RecordKey`). When the scheduler restarts, it accepts only signed records.

If a job was moved or sent from another cluster, its original submission time is in the annotation
`phalanx.dev/submitted`. This annotation is signed in the same way, because an earlier time of submission is an
advantage in the queue.

The mark of a preemption is the annotation `phalanx.dev/preempted`. It names the start that the preemption ends. The
mark of an earlier start is ignored.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from phalanx.dialects.schema.fields import LONGEST_S
from phalanx.kube.read.labels import ADMITTED, MOST, PREEMPTED, read_json

Moment: TypeAlias = Annotated[float, Meta(ge=0.0, le=253402300799.0)]  # until the year 9999


class StartRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a start in an annotation. `at_s`: the time of the decision (seconds since the epoch). `gang`: False
    if each pod is placed and bound separately. `flavors`: the flavor of each role, if the queue names flavors.
    `limit_s`: the run time after which the job is stopped. `count`: the number of pods that the gang needs. `placed`:
    the number of pods that the start has placed, which is not less than `count`. `cluster`: the other cluster that runs
    the job; "" for this cluster. `mac`: the message authentication code of all other fields and of the object's uid, in
    hexadecimal digits."""

    attempt: Annotated[int, Meta(ge=1, le=MOST)]
    queue: str
    count: Annotated[int, Meta(ge=0, le=MOST)]
    priority: Annotated[int, Meta(ge=-MOST, le=MOST)] = 0
    at_s: Moment = 0.0
    gang: bool = True
    flavors: tuple[str, ...] = ()
    limit_s: Annotated[float, Meta(gt=0.0, le=LONGEST_S)] | None = None
    placed: Annotated[int, Meta(ge=0, le=MOST)] = 0
    cluster: Annotated[str, Meta(max_length=253)] = ""
    mac: str = ""

    @property
    def seats(self) -> int:
        """Return the number of pods that the start has placed. Records of older versions of Phalanx do not contain this
        number. For such a record, return the minimum (`count`)."""
        return max(self.count, self.placed)

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class SubmissionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of when a job was submitted to the cluster from which it was moved or sent. `at_s`: the time of the
    submission (seconds since the epoch). `mac`: the message authentication code of the time and of the uid of the
    object that has the annotation."""

    at_s: Moment
    mac: str = ""

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class PreemptionMark(msgspec.Struct, frozen=True, kw_only=True):
    """The mark of a preemption. `by`: the preemptor; empty if the job is preempted because its queue is above its
    limit. `start_s`: the decision time of the start that the preemption ends (the field `at_s` of its record)."""

    by: str
    start_s: Moment

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKey:
    """The secret key with which the scheduler signs its records, and recognizes them later (HMAC-SHA256, RFC 2104).
    `since_s`: the time of the key's creation, in seconds since the epoch."""

    secret: bytes = field(repr=False)
    since_s: float

    def sign(self, record: StartRecord, uid: str) -> StartRecord:
        """Return the record with the authentication code for the object with this uid."""
        return msgspec.structs.replace(record, mac=self._mac(record, uid))

    def verify(self, record: StartRecord, uid: str, created_s: float) -> bool:
        """Return whether the record was signed for the object of this uid. A record without a code is valid if both the
        start and the object are older than the key, because older versions of Phalanx wrote no codes."""
        if record.mac:
            return hmac.compare_digest(record.mac.encode(), self._mac(record, uid).encode())
        return max(record.at_s, created_s) < self.since_s

    def submission(self, at_s: float, bearer: str) -> SubmissionRecord:
        """Return the signed record of an object's submission. `bearer`: the uid of the object."""
        return SubmissionRecord(at_s=at_s, mac=self._code(f"submitted\n{at_s!r}\n{bearer}"))

    def vouches(self, said: SubmissionRecord, bearer: str) -> bool:
        """Return whether the record of the submission is signed for the object with the uid `bearer`."""
        return hmac.compare_digest(said.mac.encode(), self.submission(said.at_s, bearer).mac.encode())

    def _mac(self, record: StartRecord, uid: str) -> str:
        said = f"{uid}\n{msgspec.structs.replace(record, mac='').text()}"
        return self._code(said)

    def _code(self, said: str) -> str:
        return hmac.new(self.secret, said.encode(), hashlib.sha256).hexdigest()


def submitted_s(text: str | None, uid: str, created_s: float, key: RecordKey | None) -> float:
    """Return when an object was submitted (seconds since the epoch). This is the time of its creation, or an earlier
    time if it was submitted in another cluster first. `text`: the object's annotation with that earlier time, if it has
    one. `key`: the key with which the annotation must be signed; None to accept annotations without a signature."""
    if text is None:
        return created_s
    try:
        said = read_json(text, SubmissionRecord)
    except ValueError:
        return created_s
    return min(created_s, said.at_s) if key is None or key.vouches(said, uid) else created_s


def read_records(annotations: dict[str, str] | None) -> tuple[StartRecord | None, PreemptionMark | None]:
    """Return the record of the start and the mark of the preemption in the annotations of an object."""
    if not annotations:
        return None, None
    return read_start_record(annotations), read_preemption_mark(annotations)


def read_start_record(annotations: dict[str, str] | None) -> StartRecord | None:
    if not annotations or ADMITTED not in annotations:
        return None
    try:
        return read_json(annotations[ADMITTED], StartRecord)
    except ValueError:
        return None


def read_preemption_mark(annotations: dict[str, str] | None) -> PreemptionMark | None:
    if not annotations or PREEMPTED not in annotations:
        return None
    try:
        return read_json(annotations[PREEMPTED], PreemptionMark)
    except ValueError:
        return None
