"""Read from a job's objects the facts that the ledger records: the user, how the job ended, and its exit code.

The scheduler's events contain a job's requests and its nodes. All other facts are only in the objects, and disappear
with them. So this module watches the objects. After the objects of a job were deleted, it keeps the facts about the job
for a while, so that the ledger can record the end of the job.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from phalanx.cli.cluster.jobs.attending import ending_cause
from phalanx.cli.cluster.jobs.finding import controller_of, reference_text
from phalanx.client.connection import Object
from phalanx.client.informer import Change, Informer
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.client.moment import MomentError, read_moment
from phalanx.kube.read.labels import ARRAY, DEFAULT_SCHEDULER, JOB, OURS, QUEUE, option
from phalanx.kube.read.template.admission import Words
from phalanx.kube.read.workload.adapter import TRAINING_KINDS
from phalanx.ledger.accountant import GANG, JobFacts
from phalanx.ledger.entry import ARRAY as TASK_OF
from phalanx.ledger.entry import OBJECT
from phalanx.model.job import Outcome

WORDS = "slurm.phalanx.dev/"  # annotations with this prefix are stored in the ledger
NUMBER = "number"
# the annotation with the user who cancelled the job; such a job also gets the exit code of its deleted pods
CANCELLED = "cancelled-by"
_GONE_KEPT = 10_000
# the maximum number of annotations and of characters that are stored for one object; users can write any number of them
_WORDS_KEPT, _WORDS_CHARS = 256, 1 << 18
_CAUSE_CHARS = 4096
_SIGNALS = range(129, 193)  # the exit codes that a shell returns for programs that a signal ended


@dataclass(slots=True, kw_only=True)
class _Seen:
    """The facts about one job from its objects. `members`: uid of a Job, training job or bare pod -> (time of creation,
    kind, outcome). `ends`: uid of a pod -> (exit code, signal, time of the end). `causes`: uid -> the text that
    explains why the object ended. `words`: the annotations that the ledger stores, without their prefix."""

    members: dict[str, tuple[str, str, tuple[Outcome, float | None, bool] | None]] = field(default_factory=dict)
    ends: dict[str, tuple[int, int, float | None]] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    # True if labels or annotations of the objects name the job; such a job may have several objects
    named: bool = False


class Objects:
    """Collects the facts about jobs from their objects; the ledger calls `look`. `words`: a function that translates
    labels and annotations of other schedulers to Phalanx's."""

    def __init__(self, words: Words = lambda kind, meta, scheduler: {}) -> None:
        self._words = words
        self._seen: dict[str, _Seen] = {}
        self._gone: OrderedDict[str, JobFacts] = OrderedDict()
        self._job_of: dict[str, str] = {}  # uid of a Job or training job -> the id of the job

    def follow(self, informers: Callable[[Kind], Informer], served: Iterable[Kind]) -> None:
        for kind in (JOBS, *(kind for kind in TRAINING_KINDS if kind in served)):
            informers(kind).subscribe(self.on_owner)
        informers(PODS).subscribe(self.on_pod)

    def look(self, job: str) -> JobFacts | None:
        seen = self._seen.get(job)
        return self._gone.get(job) if seen is None else _facts(seen)

    # --- changes ----------------------------------------------------------------------------------------------------

    def on_owner(self, change: Change) -> None:
        """Update what is stored about a job, because its Job or training job has changed."""
        obj = change.new or change.old
        assert obj is not None
        meta = obj["metadata"]
        named = option(meta, JOB)
        if named is None and (QUEUE not in (meta.get("labels") or {})):
            return
        job = f"{meta['namespace']}/{named or meta['name']}"
        if change.new is None:
            self._note(job, meta["uid"], obj, outcome=_ending(obj) or (Outcome.DELETED, None, False))
            self._lose(job, meta["uid"])
            self._job_of.pop(meta["uid"], None)
            return
        self._job_of[meta["uid"]] = job
        self._note(job, meta["uid"], obj, outcome=_ending(obj))
        self._seen[job].named |= named is not None

    def on_pod(self, change: Change) -> None:
        obj = change.new or change.old
        assert obj is not None
        meta = obj["metadata"]
        owner = controller_of(obj)
        job = self._job_of.get(owner["uid"]) if owner is not None else None
        bare = job is None and self._is_bare(obj, owner)
        if bare:
            job = self._job_of_pod(meta, obj["spec"].get("schedulerName") or DEFAULT_SCHEDULER)
        if job is None or (job not in self._seen and not bare):
            return
        end = _exit(obj)
        if bare:
            outcome = _pod_outcome(obj, end)
            self._note(job, meta["uid"], obj, outcome)
            self._seen[job].named |= not job.endswith(f"/pod:{meta['name']}")
            if owner is not None:
                self._seen[job].words[OBJECT] = reference_text(owner)
        if end is not None and (_counts(obj) or self._seen[job].words.get(CANCELLED)):
            self._seen[job].ends[meta["uid"]] = end
        if change.new is None and bare:
            self._lose(job, meta["uid"])

    def _is_bare(self, obj: Object, owner: Object | None) -> bool:
        """Return True if Phalanx reads the pod's job from the pod itself and not from its controller. There are two
        such cases: no controller created the pod, or the pod's labels name a gang of another scheduler, such as
        Volcano."""
        scheduler = obj["spec"].get("schedulerName")
        if owner is None:
            return scheduler in OURS
        return bool(self._words("Pod", obj["metadata"], scheduler or DEFAULT_SCHEDULER).get(JOB))

    def _job_of_pod(self, meta: Object, scheduler: str) -> str:
        """Return the id of the job to which a pod without a controlling Job belongs."""
        named = option(meta, JOB) or self._words("Pod", meta, scheduler).get(JOB)
        return f"{meta['namespace']}/{named or 'pod:' + meta['name']}"

    def _note(self, job: str, uid: str, obj: Object, outcome: tuple[Outcome, float | None, bool] | None) -> None:
        seen = self._seen.setdefault(job, _Seen())
        meta = obj["metadata"]
        seen.members[uid] = (meta.get("creationTimestamp") or "", str(obj.get("kind") or "Job"), outcome)
        annotations: Mapping[str, str] = meta.get("annotations") or {}
        if cause := ending_cause(obj):
            seen.causes[uid] = cause[:_CAUSE_CHARS]
        told = {key.removeprefix(WORDS): text for key, text in annotations.items() if key.startswith(WORDS)}
        left = _WORDS_CHARS
        for key, text in list(told.items())[:_WORDS_KEPT]:
            # a text is stored completely or not at all, because an incomplete JSON text cannot be read
            if len(text) <= left:
                seen.words[key] = text
                left -= len(text)
        if array := option(meta, ARRAY):
            seen.words[TASK_OF] = array

    def _lose(self, job: str, uid: str) -> None:
        """Remove a deleted object from the facts about its job. If it was the job's last object, move the facts to
        `_gone`, which keeps them for a while."""
        seen = self._seen[job]
        if len(seen.members) == 1:
            self._gone[job] = _facts(seen)
            self._gone.move_to_end(job)
            del self._seen[job]
            if len(self._gone) > _GONE_KEPT:
                self._gone.popitem(last=False)
        else:
            seen.members.pop(uid, None)


def _facts(seen: _Seen) -> JobFacts:
    members = sorted(seen.members.items(), key=lambda one: (one[1][0], one[0]))
    (uid, (_, kind, _)) = members[0]
    outcomes = [outcome for _, (_, _, outcome) in members if outcome is not None]
    over = len(outcomes) == len(members)
    exit_code, signal, _ = max(seen.ends.values(), key=lambda end: (end[0], end[1]), default=(None, None, None))
    words = {name: text for name, text in seen.words.items() if name != NUMBER}
    number = seen.words.get(NUMBER, "")
    return JobFacts(
        uid=uid,
        kind=GANG if seen.named else kind,
        outcome=_together([outcome for outcome, _, _ in outcomes]) if over else None,
        end_s=max((end for _, end, _ in outcomes if end is not None), default=None) if over else None,
        exit_code=exit_code,
        signal=signal,
        timed_out=any(timed_out for _, _, timed_out in outcomes),
        cause=next(iter(seen.causes.values()), ""),
        number=int(number) if number.isascii() and number.isdigit() and len(number) < 12 else None,
        words=words,
    )


def _together(outcomes: list[Outcome]) -> Outcome:
    """Return the outcome of a job from the outcomes of its objects: FAILED if one of them failed, else SUCCEEDED if one
    of them succeeded, else DELETED."""
    return next((end for end in (Outcome.FAILED, Outcome.SUCCEEDED) if end in outcomes), Outcome.DELETED)


def _ending(obj: Object) -> tuple[Outcome, float | None, bool] | None:
    """Return (outcome, time of the end, True if the time limit was reached) for a Job or a training job; None if it has
    not ended."""
    status = obj.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition["type"] in ("Complete", "Failed", "Succeeded"):
            outcome = Outcome.FAILED if condition["type"] == "Failed" else Outcome.SUCCEEDED
            at_s = _moment(status.get("completionTime") or condition.get("lastTransitionTime"))
            return outcome, at_s, condition.get("reason") == "DeadlineExceeded"
    return None


def _pod_outcome(obj: Object, end: tuple[int, int, float | None] | None) -> tuple[Outcome, float | None, bool] | None:
    status = obj.get("status") or {}
    match status.get("phase"):
        case "Succeeded":
            return Outcome.SUCCEEDED, end and end[2], False
        case "Failed":
            return Outcome.FAILED, end and end[2], status.get("reason") == "DeadlineExceeded"
        case _:
            return None


def _counts(obj: Object) -> bool:
    """Return True if the program ended by itself, so that the pod's exit code counts; False if the deletion of the pod
    ended it."""
    return "deletionTimestamp" not in obj["metadata"] or (obj.get("status") or {}).get("phase") == "Succeeded"


def _exit(obj: Object) -> tuple[int, int, float | None] | None:
    """Return (the highest exit code of the pod's containers, the signal that ended the container with this exit code,
    the time when the last container ended); None while a container runs."""
    statuses: list[Any] = (obj.get("status") or {}).get("containerStatuses") or []
    ends = [one["state"]["terminated"] for one in statuses if (one.get("state") or {}).get("terminated")]
    if not ends or len(ends) < len(statuses):
        return None
    worst = max(ends, key=lambda end: int(end.get("exitCode") or 0))
    code = int(worst.get("exitCode") or 0)
    signal = int(worst.get("signal") or 0) or (code - 128 if code in _SIGNALS else 0)
    moments = [at_s for end in ends if (at_s := _moment(end.get("finishedAt"))) is not None]
    return code, signal, max(moments, default=None)


def _moment(text: object) -> float | None:
    if text:
        with suppress(MomentError):
            return read_moment(text)
    return None
