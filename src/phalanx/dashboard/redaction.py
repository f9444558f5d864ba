"""Remove from the state of a cluster the names that a viewer may not see.

If the viewer may not list the jobs of a namespace, the viewer sees only the queues, amounts and times of these jobs.
Users, arrays and messages are removed, and each job's name is replaced by a stand-in, which differs between sessions.
The sentence of a reason may contain names of other jobs, so such a sentence is replaced by a fixed sentence for its
reason code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b

from msgspec.structs import replace

from phalanx.dashboard.rows import Facts, JobRow, PageState, PastRow, PlayedRow, ReasonRow, ReservationRow

OTHER = "other"  # the namespace of every stand-in

# The codes of reasons whose sentences name neither other jobs nor other users.
_OWN = {
    *("NeverFits", "NoNodeMatches", "WaitingForMembers", "NamespaceQuota", "Held", "QueueHeld", "QueueClosed"),
    *("NeverWithinLimit", "BeginTime", "DeadlineMissed", "ArrayLimit", "QueueUnknown", "Backoff", "Invalid"),
    *("WaitingForVolumes", "Unsupported", "QueueMisconfigured"),
}
_SENTENCES: Mapping[str, str] = {
    "NoRoom": "the nodes that it may use do not have enough free capacity",
    "NoDomain": "no topology domain has enough free nodes",
    "QueueLimit": "its queue, or a queue above it, is at its limit",
    "QueueQuota": "its queue uses its whole guarantee, and cannot borrow more",
    "UserLimit": "its user, or group, is at a limit",
    "BehindHead": "its queue is strict, and an earlier job in it is pending",
    "Reserved": "the nodes on which it would fit are reserved for an earlier job",
    "Dependency": "another job that it depends on has not ended",
    "DependencyNeverSatisfied": "the job that it depends on did not end as required",
    "Preempting": "it is nominated to nodes that other jobs are leaving",
    "WaitingForNodes": "nodes were requested for it, and do not exist yet",
    "Preempted": "it was preempted by another job",
}
_UNNAMED = "it is pending; the reason names jobs that you may not list"
# The numbers of a reason that are amounts, times or resources. All other values in the numbers of a reason may be names
# of jobs or users.
_PLAIN = {
    *("placed", "pods", "resource", "asked_per_pod", "left_on_one_node", "asked", "free", "enough_s"),
    *("held_by_others", "until_s", "start_s", "limit_s", "begin_s", "deadline_s", "latest_start_s", "cap", "attempt"),
    *("not_before_s", "used", "allowed", "flavor", "queue", "rule", "fit", "hold", "nodes", "state", "since_s"),
}
_NAMES = ("holders", "jobs", "queues", "waits_for", "for", "job", "by", "head", "circle")


def unnamed(code: str, text: str, numbers: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Return the sentence and the numbers of a reason without names of jobs and users."""
    plain = {key: value for key, value in numbers.items() if key in _PLAIN}
    return (text if code in _OWN else _SENTENCES.get(code, _UNNAMED)), plain


class Redaction:
    """The redaction of one session. `visible`: a function that returns whether the viewer may list the jobs of a
    namespace. `salt`: random bytes, so that a job has a different stand-in in each session."""

    def __init__(self, visible: Callable[[str], bool], salt: bytes) -> None:
        self._visible, self._salt = visible, salt

    def name(self, job: str) -> str:
        """Return the id of the job, or its stand-in if the viewer may not list the job."""
        if not job or self._visible(job.partition("/")[0]):
            return job
        digest = blake2b(job.encode(errors="replace"), key=self._salt, digest_size=4).hexdigest()
        return f"{OTHER}/job-{digest}"

    def state(self, state: PageState) -> PageState:
        """Return a copy of the state without the names that the viewer may not see."""
        own = {row.reason for row in state.jobs.values() if row.reason and self._sees(row.id)}
        shared = {row.reason for row in state.jobs.values() if row.reason and not self._sees(row.id)}
        reasons = {_of_others(key): self.reason(row, own=False) for key, row in state.reasons.items() if key in shared}
        reasons |= {key: self.reason(row, own=True) for key, row in state.reasons.items() if key in own}
        jobs = {self.name(key): self.job(row) for key, row in state.jobs.items()}
        played = {self.name(key): self.played(row) for key, row in state.played.items()}
        booked = {key: self.reservation(row) for key, row in state.reservations.items()}
        return PageState(
            facts=self.facts(state.facts),
            jobs=jobs,
            queues=state.queues,
            nodes=state.nodes,
            reasons=reasons,
            reservations=booked,
            played=played,
        )

    def facts(self, facts: Facts) -> Facts:
        return replace(facts, head=self.name(facts.head))

    def job(self, row: JobRow) -> JobRow:
        by = self.name(row.preempted_by)
        if self._sees(row.id):
            return replace(row, preempted_by=by)
        reason = _of_others(row.reason) if row.reason else ""
        bare: dict[str, object] = {"user": "", "array": "", "array_cap": None, "message": ""}
        return replace(row, id=self.name(row.id), preempted_by=by, reason=reason, **bare)

    def played(self, row: PlayedRow) -> PlayedRow:
        return replace(row, job=self.name(row.job))

    def reservation(self, row: ReservationRow) -> ReservationRow:
        """Return the reservation without the names of users."""
        return replace(row, whom="some jobs" if row.whom and not row.whom.startswith("queue ") else row.whom)

    def past(self, row: PastRow) -> PastRow:
        by = self.name(row.by)
        if self._sees(row.job):
            return replace(row, by=by, why="" if by != row.by else row.why)
        return replace(row, job=self.name(row.job), user="", why="", by=by)

    def reason(self, row: ReasonRow, *, own: bool) -> ReasonRow:
        """Return the reason with stand-ins for the jobs that the viewer may not list. `own`: True if it is the reason
        of a job that the viewer may list."""
        numbers = {key: value for key, value in row.numbers.items() if key in _PLAIN}
        numbers |= {key: self._renamed(value) for key, value in row.numbers.items() if key in _NAMES}
        key = row.key if own else _of_others(row.key)
        if own and row.code in _OWN:
            return replace(row, numbers=numbers)
        return replace(row, key=key, text=_SENTENCES.get(row.code, _UNNAMED), numbers=numbers)

    def _sees(self, job: str) -> bool:
        return self._visible(job.partition("/")[0])

    def _renamed(self, value: object) -> object:
        """Return the value with stand-ins for job ids. Every string with a slash counts as a job id, also in a list or
        as a key."""
        match value:
            case str():
                return self.name(value) if "/" in value else ""
            case Mapping():
                return {self._renamed(key): amount for key, amount in value.items()}
            case list() | tuple():
                return [self._renamed(each) for each in value]
            case _:
                return value


def _of_others(key: str) -> str:
    """Return the key under which the viewer gets the reason `key` of jobs that the viewer may not list."""
    return f"{key}-other"
