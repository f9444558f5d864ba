"""Derive the state of a job from its objects. This works for the jobs of all operators, and needs no data of the
scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from phalanx.cli.cluster.jobs.attending import exit_code, failure, in_brief, pod_failure, timed_out, why_stuck
from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, PODS
from phalanx.kube.read.labels import REASON, held
from phalanx.kube.read.template.pod_shape import ODD
from phalanx.ledger.entry import JobEntry, State

QUEUED, HELD, RUNNING, COMPLETE, FAILED, DELETED = "queued", "held", "running", "complete", "failed", "deleted"
STUCK = "stuck"  # the job has started, but a pod cannot start its containers
OVER = frozenset({COMPLETE, FAILED, DELETED})
TIMED_OUT = 124  # the exit code of timeout(1)
_LOST = 1  # the exit code that is returned if the job has none
# The conditions, phases and states by which the operators report a failed or a complete job, in small letters.
_FAILED = frozenset({"failed", "aborted", "terminated", "submission_failed", "stopped"})
_COMPLETE = frozenset({"complete", "completed", "succeeded"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of a job. `state`: queued, held, running, stuck, complete, failed or deleted. `why`: the reason why the
    job waits, is stuck, failed or was deleted. `exit_code`: None until the job has ended."""

    state: str
    why: str = ""
    exit_code: int | None = None

    @property
    def over(self) -> bool:
        return self.state in OVER


def member_state(member: Member) -> str:
    """Return the state of one object of a job. The state of an object that cannot be read is `queued`."""
    obj = member.obj
    try:
        words = set(_words(obj.get("status") or {}))
    except ODD:
        return QUEUED
    if words & _FAILED:
        return FAILED
    if words & _COMPLETE:
        return COMPLETE
    if "running" in words or (member.kind is JOBS and _has_pods(obj)):
        return RUNNING
    return HELD if held(obj["metadata"]) else QUEUED


def standing(members: Sequence[Member], pods: Iterable[Object], stuck: Iterable[Object] = ()) -> Standing:
    """Return the state of the job with these objects; a job without objects was deleted. `pods`: the pods of the job,
    from which the exit code is read. `stuck`: the existing pods of the job that cannot start."""
    states = {member_state(member) for member in members}
    if not states:
        return Standing(state=DELETED, why="it was deleted", exit_code=_LOST)
    if states <= {COMPLETE}:
        return Standing(state=COMPLETE, exit_code=0)
    if states <= {COMPLETE, FAILED}:
        return _failed(members, list(pods))
    if cause := why_stuck(stuck):
        return Standing(state=STUCK, why=cause)
    if RUNNING in states:
        return Standing(state=RUNNING)
    why = next((text for one in members if (text := _reason(one.obj))), "")
    return Standing(state=QUEUED if QUEUED in states or not states <= {HELD} else HELD, why=why)


def recorded_standing(entry: JobEntry) -> Standing:
    """Return the state of a job whose objects were deleted, from its entry in the ledger."""
    match entry.state:
        case State.COMPLETED:
            return Standing(state=COMPLETE, exit_code=entry.exit_code or 0)
        case State.TIMEOUT:
            return Standing(state=FAILED, why=entry.cause, exit_code=TIMED_OUT)
        case State.CANCELLED:
            return Standing(state=DELETED, why=entry.cause or "it was deleted", exit_code=entry.exit_code or _LOST)
        case _:
            return Standing(state=FAILED, why=in_brief(entry.cause), exit_code=entry.exit_code or _LOST)


def state_of(job: FoundJob) -> str:
    """Return the state that the job had when it was found."""
    return recorded_standing(job.entry).state if job.entry is not None else standing(job.members, ()).state


def _failed(members: Sequence[Member], pods: Sequence[Object]) -> Standing:
    causes = [
        pod_failure(one.obj) if one.kind is PODS else failure(one.obj, pods)
        for one in members
        if member_state(one) == FAILED
    ]
    why = in_brief(next(filter(None, causes), ""))
    if any(timed_out(one.obj) for one in members):
        return Standing(state=FAILED, why=why, exit_code=TIMED_OUT)
    own = [one.obj for one in members if one.kind is PODS]
    code = max((exit_code(pod) for pod in (*pods, *own)), default=0)
    return Standing(state=FAILED, why=why, exit_code=code or _LOST)


def _words(status: Object) -> Iterator[str]:
    """Yield the conditions, phases and states in the status of an object, in small letters."""
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True":
            yield str(condition.get("type", "")).lower()
    state = status.get("state")
    found = (
        *(status.get(key) for key in ("phase", "jobStatus", "terminalState")),
        state.get("phase") if isinstance(state, dict) else state,
        (status.get("applicationState") or {}).get("state"),
    )
    yield from (word.lower() for word in found if isinstance(word, str))


def _has_pods(job: Object) -> bool:
    status = job.get("status") or {}
    return not job["spec"].get("suspend") and bool(status.get("active") or status.get("succeeded"))


def _reason(obj: Object) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(REASON, ""))
