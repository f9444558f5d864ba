"""Turn the events and decisions of a scheduler into the ledger's entries.

The accountant keeps the entries of live jobs in memory. It receives every event and every action in order, and collects
changed entries until the next `take`. It does no I/O. After a restart the first events describe all existing jobs. An
entry whose job these events do not mention belongs to a job that ended while no scheduler ran (`settle`).

Facts that events do not contain (exit codes, the kind of the object) are read from the objects, as `JobFacts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from phalanx.ledger.entry import MOST_REASONS, RESERVED, JobEntry, ReasonEntry, StartEntry, State
from phalanx.model.event import Adopted, Event, Finished, QueueGone, QueueSeen, Refused, Started, Submitted
from phalanx.model.job import Job, Outcome, Phase, Placement
from phalanx.model.plan import Action, Place, Preempt, Start, Wait
from phalanx.model.pod import PODS
from phalanx.model.reason import ReasonCode

# A job that is pending for one of these reasons could not start even if the cluster were empty. Slurm calls such a job
# not eligible.
_NOT_ELIGIBLE = {
    ReasonCode.BEGIN_TIME,
    ReasonCode.DEPENDENCY,
    ReasonCode.DEPENDENCY_NEVER,
    ReasonCode.HELD,
    ReasonCode.WAITING_FOR_MEMBERS,
}
GANG = "Gang"  # the kind of a job that consists of several objects
_ENDS = {Outcome.SUCCEEDED: State.COMPLETED, Outcome.FAILED: State.FAILED, Outcome.DELETED: State.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """Facts that are found only in the job's objects. `uid`: the uid of the oldest object. `outcome`: how the objects
    ended, if all have ended. `end_s`: the time of the end (seconds since the epoch), if the objects record it.
    `timed_out`: True if the time limit ended the job. `cause`: why the job ended, as text. `words`: labels and
    annotations for the ledger, by name."""

    uid: str
    kind: str = "Job"
    outcome: Outcome | None = None
    end_s: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    cause: str = ""
    number: int | None = None
    words: Mapping[str, str] = field(default_factory=dict)


Look = Callable[[str], JobFacts | None]  # job id -> the facts in its objects; None if no object was ever seen


class Accounts:
    """The accounts of queues. The account of a queue is its path in the tree of queues, such as `science/physics`."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}  # queue -> its parent; "" for none

    def add(self, queue: str, parent: str) -> None:
        self._parents[queue] = parent

    def remove(self, queue: str) -> None:
        self._parents.pop(queue, None)

    def path(self, queue: str) -> str:
        """Return the account of the queue. A queue whose parent is unknown is at the root."""
        path = [queue]
        while (above := self._parents.get(path[-1], "")) and above not in path:
            path.append(above)
        return "/".join(reversed(path))


class Accountant:
    """The entries of live jobs. `known`: the entries of live jobs that an earlier process wrote to the ledger."""

    def __init__(self, look: Look, now_s: Callable[[], float], known: Iterable[JobEntry] = ()) -> None:
        self._look, self._now_s = look, now_s
        self.live: dict[str, JobEntry] = {entry.job: entry for entry in known}
        self._inherited = set(self.live)
        self._sizes: dict[str, tuple[Mapping[str, int], ...]] = {}  # job id -> the requests of one pod, by role
        self._preempted: dict[str, tuple[str, str]] = {}  # preempted job -> (its preemptor, the rule that allowed it)
        self._accounts = Accounts()
        self._changed: dict[str, JobEntry] = {}  # uid -> changed entry

    def take(self) -> list[JobEntry]:
        """Return the entries that have changed since the last call."""
        changed, self._changed = list(self._changed.values()), {}
        return changed

    def heard(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case QueueSeen(queue):
                    self._accounts.add(queue.name, queue.parent)
                case QueueGone(name):
                    self._accounts.remove(name)
                case Submitted(job):
                    self._submitted(job)
                case Adopted():
                    self._adopted(event)
                case Started(job, _):
                    self._mark(job, State.RUNNING)
                case Refused():
                    self._refused(event)
                case Finished(job, outcome):
                    self._finished(job, outcome)

    def settle(self) -> None:
        """End the inherited entries whose jobs the first events did not mention: these jobs ended while no scheduler
        ran."""
        for job in sorted(self._inherited & set(self.live)):
            facts, entry = self._look(job), self.live[job]
            if facts is not None and _is(entry, facts) and facts.outcome is not None:
                self._end(entry, facts.outcome, facts)
            else:
                self._gone(entry)
        self._inherited = set()

    def planned(self, actions: Sequence[Action], first: str = "") -> bool:
        """Record the actions of a plan. Return True if any action starts a job; the caller must then write the entries
        to the ledger before it executes the plan. `first`: the job with the first reservation; empty if no job has
        one."""
        starts = False
        for action in actions:
            match action:
                case Start():
                    self._start(action)
                    starts = True
                case Place():
                    self._place(action.job, action.placements)
                case Preempt():
                    self._preempted[action.job] = action.by, str(action.reason.numbers.get("rule", ""))
                case Wait():
                    self._waits(action)
        self._reserved(first)
        return starts

    # --- events -----------------------------------------------------------------------------------------------------

    def _submitted(self, job: Job) -> None:
        entry = self._entry(job)
        now_s = self._now_s()
        if entry.eligible_s is None and job.blocked is None and not job.after and (job.begin_s or 0.0) <= now_s:
            entry = replace(entry, eligible_s=job.submitted_s)
        if entry.starts and entry.starts[-1].end_s is None:  # the start was undone while no scheduler ran
            ran = entry.starts[-1].state is State.RUNNING
            state = State.REQUEUED if ran else State.LAUNCH_FAILED
            entry = _ended_start(entry, state, now_s, "undone while no scheduler ran")
        self._keep(replace(entry, state=State.PENDING))

    def _adopted(self, told: Adopted) -> None:
        entry = self._entry(told.job)
        state = State.RUNNING if told.phase in (Phase.RUNNING, Phase.STOPPING) else State.CONFIGURING
        known = next((start for start in entry.starts if start.at_s == told.started_s), None)
        if known is None:
            before = [start if start.end_s is not None else _lost(start, told.started_s) for start in entry.starts]
            entry = replace(entry, starts=(*before, StartEntry(at_s=told.started_s, state=state)))
        entry = replace(entry, state=state, starts=(*entry.starts[:-1], replace(entry.starts[-1], state=state)))
        eligible_s = entry.eligible_s if entry.eligible_s is not None else told.job.submitted_s
        self._keep(self._allocated(replace(entry, eligible_s=eligible_s), told.placements, replaces=True))

    def _refused(self, event: Refused) -> None:
        entry = self.live.get(event.job)
        if entry is None or not entry.starts or entry.starts[-1].end_s is not None:
            return
        ran = entry.starts[-1].state is State.RUNNING
        state = State.REQUEUED if ran else State.LAUNCH_FAILED
        if event.job in self._preempted or event.reason.code is ReasonCode.PREEMPTED:
            state = State.PREEMPTED
        by, rule = self._preempted.pop(event.job, ("", ""))
        why = f"{event.reason.code}: {event.reason.text}"
        entry = _ended_start(entry, state, self._now_s(), why, by, rule)
        self._keep(self._waiting(replace(entry, state=State.PENDING), event.reason.code))

    def _finished(self, job: str, outcome: Outcome) -> None:
        entry = self.live.get(job)
        if entry is None:
            return
        facts = self._look(job)
        self._end(entry, outcome, facts if facts is not None and _is(entry, facts) else None)

    def _mark(self, job: str, state: State) -> None:
        entry = self.live.get(job)
        if entry is not None and entry.starts and entry.state is not state:
            starts = (*entry.starts[:-1], replace(entry.starts[-1], state=state))
            self._keep(replace(entry, state=state, starts=starts))

    # --- decisions --------------------------------------------------------------------------------------------------

    def _start(self, action: Start) -> None:
        entry = self.live.get(action.job)
        if entry is None:
            return
        eligible_s = entry.eligible_s if entry.eligible_s is not None else action.at_s
        limit_s = entry.limit_s if action.limit_s is None else action.limit_s
        entry = replace(entry, eligible_s=eligible_s, limit_s=limit_s, state=State.CONFIGURING, waits_for="")
        starts = (*entry.starts, StartEntry(at_s=action.at_s, state=State.CONFIGURING, backfilled=action.backfilled))
        self._keep(self._allocated(replace(entry, starts=starts), action.placements, replaces=True))

    def _place(self, job: str, placements: Sequence[Placement]) -> None:
        entry = self.live.get(job)
        if entry is not None and entry.starts:
            self._keep(self._allocated(entry, placements, replaces=False))

    def _waits(self, action: Wait) -> None:
        entry = self.live.get(action.job)
        code = action.reason.code
        if entry is None or entry.state is not State.PENDING or entry.waits_for == code:
            return
        eligible_s = entry.eligible_s
        if eligible_s is None and code not in _NOT_ELIGIBLE:
            eligible_s = self._now_s()
        self._keep(self._waiting(replace(entry, eligible_s=eligible_s), code))

    def _reserved(self, job: str) -> None:
        """Record that the job has the first backfill reservation. A reservation is recorded at most once until the job
        starts."""
        entry = self.live.get(job)
        if entry is None or entry.state is not State.PENDING:
            return
        since_s = entry.starts[-1].at_s if entry.starts else entry.submit_s
        if not any(each.code == RESERVED and each.at_s >= since_s for each in entry.reasons):
            reasons = (*entry.reasons, ReasonEntry(at_s=self._now_s(), code=RESERVED))[-MOST_REASONS:]
            self._keep(replace(entry, reasons=reasons))

    def _waiting(self, entry: JobEntry, code: ReasonCode) -> JobEntry:
        """Return the entry with `code` added as the reason for which the job waits from now on."""
        reasons = (*entry.reasons, ReasonEntry(at_s=self._now_s(), code=str(code)))[-MOST_REASONS:]
        return replace(entry, waits_for=str(code), reasons=reasons)

    # --- entries ----------------------------------------------------------------------------------------------------

    def _entry(self, job: Job) -> JobEntry:
        """Return the entry for a job: the known entry with the job's present description, or a new entry."""
        facts = self._look(job.id)
        entry = self.live.get(job.id)
        if entry is not None and facts is not None and not _is(entry, facts):
            self._gone(entry)  # the job is a new object with the name of an earlier job
            entry = None
        self._inherited.discard(job.id)
        self._sizes[job.id] = tuple(dict(role.shape.requests) for role in job.roles)
        if entry is None:
            uid = facts.uid if facts is not None else f"{job.id}@{job.submitted_s}"
            entry = JobEntry(uid=uid, job=job.id, submit_s=job.submitted_s)
        if facts is not None:
            words = {**entry.words, **facts.words}
            entry = replace(entry, kind=facts.kind, number=facts.number, words=words)
        return replace(
            entry,
            user=job.user,
            group=job.group,
            queue=job.queue,
            account=self._accounts.path(job.queue),
            qos=job.qos,
            priority=job.priority,
            limit_s=job.limit_s if job.limit_s is not None else entry.limit_s,
            pods=sum(role.count for role in job.roles) or entry.pods,
            requested=_sum((role.shape.requests, role.count) for role in job.roles) or entry.requested,
        )

    def _allocated(self, entry: JobEntry, placements: Sequence[Placement], *, replaces: bool) -> JobEntry:
        """Return the entry after the nodes and amounts of these placements are recorded in its last start. `replaces`:
        True to replace the earlier nodes and amounts of the start, False to add to them."""
        sizes, start = self._sizes.get(entry.job, ()), entry.starts[-1]
        placed = [one for one in placements if one.role < len(sizes)]
        found = _sum((tuple(sizes[one.role].items()), 1) for one in placed)
        nodes = [one.node for one in placements]
        if not replaces:
            found = _sum([(tuple(start.allocated.items()), 1), (tuple(found.items()), 1)])
            nodes += start.nodes
        start = replace(start, nodes=tuple(sorted(nodes)), allocated=found)
        return replace(entry, starts=(*entry.starts[:-1], start))

    def _end(self, entry: JobEntry, outcome: Outcome, facts: JobFacts | None, *, exact: bool = True) -> None:
        state, end_s = _ENDS[outcome], self._now_s()
        if facts is not None:
            state = State.TIMEOUT if facts.timed_out else state
            end_s = facts.end_s if facts.end_s is not None else end_s
            # which user cancelled a job is known only after the end of the job
            words = {**entry.words, **facts.words}
            code, number = facts.exit_code, facts.signal
            entry = replace(entry, exit_code=code, signal=number, cause=facts.cause, words=words)
        end_s = max(end_s, entry.submit_s, entry.start_s or 0.0)
        if entry.starts and entry.starts[-1].end_s is None:
            entry = _ended_start(entry, state, end_s, "")
        self._keep(replace(entry, state=state, end_s=end_s, exact_end=exact))
        self.live.pop(entry.job, None)
        self._sizes.pop(entry.job, None)
        self._preempted.pop(entry.job, None)

    def _gone(self, entry: JobEntry) -> None:
        self._end(entry, Outcome.DELETED, None, exact=False)

    def _keep(self, entry: JobEntry) -> None:
        if self.live.get(entry.job) != entry:
            self.live[entry.job] = entry
            self._changed[entry.uid] = entry


def _is(entry: JobEntry, facts: JobFacts) -> bool:
    """Return True if the entry and the facts are about the same job. For a gang of several objects, the uid is not
    compared. For a gang, the entry has the uid of the gang's oldest object, which may be deleted before the gang's
    other objects."""
    return entry.uid == facts.uid or entry.kind == facts.kind == GANG


def _ended_start(entry: JobEntry, state: State, end_s: float, why: str, by: str = "", rule: str = "") -> JobEntry:
    last = entry.starts[-1]
    start = replace(last, state=state, end_s=max(end_s, last.at_s), reason=why, by=by, rule=rule)
    return replace(entry, starts=(*entry.starts[:-1], start))


def _lost(start: StartEntry, next_s: float) -> StartEntry:
    """Return the start of a job with its end added. The start ended while no scheduler ran. `next_s`: the time of the
    job's next start, which is recorded as the end, because the exact end is unknown."""
    return replace(start, state=State.REQUEUED, end_s=max(start.at_s, next_s))


def _sum(pieces: Iterable[tuple[Sequence[tuple[str, int]], int]]) -> dict[str, int]:
    """Return the total amount of each resource except `pods`. `pieces`: pairs of resource amounts and the number of
    times that these amounts count."""
    found: dict[str, int] = {}
    for amounts, count in pieces:
        for name, amount in amounts:
            if name != PODS:
                found[name] = found.get(name, 0) + amount * count
    return found
