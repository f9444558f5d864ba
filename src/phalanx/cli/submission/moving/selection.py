"""Choose the jobs of a cluster that move, and give the reasons why the other jobs stay.

Only waiting jobs move. If a dependency of a job is already met, it is removed from the copy of the job, because the
target cluster does not have the ended job that met it. If a job stays, all jobs that depend on it stay too, and so do
the waiting jobs on which it depends. So no dependency ever connects jobs in two clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from phalanx.cli.cluster.jobs.finding import FoundJob, Member
from phalanx.cli.cluster.jobs.standing import COMPLETE, FAILED, OVER, RUNNING, member_state
from phalanx.client.connection import Object
from phalanx.client.kind import JOBS, PODS, Kind
from phalanx.dialects.job_kinds.supported import FRAMEWORKS
from phalanx.kube.gang.spec.declared_roles import GangSpecError
from phalanx.kube.gang.spec.job_options import dependencies, flag
from phalanx.kube.read.labels import ADMITTED, AFTER, AFTER_ANY, AFTER_OUTCOMES, MOVING, SENT_TO, option, read_json
from phalanx.model.job import Dependency, DependencyType, Outcome

RUNS = "it runs in this cluster and ends here (--requeue stops and moves it); move again when it has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A job that moves. `after`: the dependencies of the copy: None for those of the original, "" for no dependencies.
    `needs`: the waiting jobs that the job depends on."""

    job: FoundJob
    after: str | None = None
    needs: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return scheduled_name(self.job)


@dataclass(slots=True, kw_only=True)
class MoveChoice:
    """The choice of jobs. `moves`: the jobs that move. `stays`: the jobs that stay, with the reasons. `runs`: the
    running jobs among those that stay. `over`: the number of ended jobs."""

    moves: list[Move] = field(default_factory=list)
    stays: list[tuple[FoundJob, str]] = field(default_factory=list)
    runs: list[FoundJob] = field(default_factory=list)
    over: int = 0


class _Is(Enum):
    """The state of a dependency: met, impossible to meet, or open because of a running, a waiting, or an unknown
    job."""

    MET = "met"
    NEVER = "never met"
    HERE = "of a job that runs here"
    OTHER = "of a job that waits here"
    UNKNOWN = "of a job that is not known"


def choose(
    jobs: Sequence[FoundJob], obstacle: Callable[[FoundJob], str], copied: Collection[str] = frozenset()
) -> MoveChoice:
    """Choose the jobs that move. `obstacle`: a function that returns the reason why a waiting job cannot move; "" if it
    can move.
    `copied`: the uids of the objects of which the target has marked copies. A job with copies of all its objects
    continues to move. Its dependencies are not checked, because the jobs on which it depends may have moved before, and
    then look like deleted jobs."""
    states = {scheduled_name(job): state_here(job) for job in jobs}
    found = MoveChoice(over=sum(state in OVER for state in states.values()))
    moves: dict[str, Move] = {}
    why: dict[str, str] = {}
    others: dict[str, set[str]] = {}  # job -> the waiting jobs that it depends on
    by_name = {scheduled_name(job): job for job in jobs}
    for name, job in by_name.items():
        if states[name] in OVER:
            continue
        if states[name] == RUNNING:
            found.runs.append(job)
            why[name] = RUNS
            continue
        if all(member.obj["metadata"]["uid"] in copied for member in job.members):
            moves[name] = Move(job=job)
            continue
        text, needs, reason = _dependencies(job, states)
        others[name] = needs
        if reason := obstacle(job) or reason:
            why[name] = reason
        else:
            moves[name] = Move(job=job, after=text, needs=frozenset(needs))
    _keep_together(moves, why, others)
    found.moves = list(moves.values())
    found.stays = [(by_name[name], reason) for name, reason in why.items()]
    return found


def parted(moves: Sequence[Move], kept: Sequence[Move]) -> list[tuple[FoundJob, str]]:
    """Return (job, reason) for each job of `kept` that must stay because a dependency connects it with a job that
    failed to move. `moves`: the jobs before a step of the move. `kept`: the jobs for which the step succeeded."""
    left = {move.name: move for move in kept}
    why = {move.name: "" for move in moves if move.name not in left}
    _keep_together(left, why, {move.name: set(move.needs) for move in moves})
    return [(move.job, why[move.name]) for move in kept if move.name in why]


def scheduled_name(job: FoundJob) -> str:
    """Return the name by which dependencies refer to the job."""
    alone = len(job.members) == 1 and job.kind == "pod" and job.members[0].kind is PODS
    return f"{job.namespace}/pod:{job.name}" if alone else job.id


def state_here(job: FoundJob) -> str:
    """Return `running` if any object of the job has started or is starting; otherwise the state of the job."""
    states = {member_state(member) for member in job.members}
    if states <= OVER:
        return FAILED if FAILED in states else COMPLETE
    started = RUNNING in states or states & OVER or any(has_started(member) for member in job.members)
    return RUNNING if started else "queued"


def has_started(member: Member) -> bool:
    """Return True if the scheduler has decided to start the object, or if another program has started it."""
    notes = member.obj["metadata"].get("annotations") or {}
    if ADMITTED in notes or SENT_TO in notes or "deletionTimestamp" in member.obj["metadata"]:
        return True
    if member.kind is PODS:
        return bool(member.obj["spec"].get("nodeName"))
    return not is_suspended(member.kind, member.obj) or _has_pods(member.obj.get("status") or {})


def _has_pods(status: Object) -> bool:
    """Return True if a suspended Job still has pods that are ending."""
    return bool(status.get("active") or status.get("terminating"))


def is_suspended(kind: Kind, obj: Object) -> bool:
    spec, path = obj["spec"], ("suspend",) if kind is JOBS else FRAMEWORKS[kind].suspend if kind in FRAMEWORKS else ()
    for key in path:
        spec = (spec or {}).get(key)
    return bool(path) and bool(spec)


def is_marked(job: FoundJob) -> bool:
    """Return True if an unfinished move has marked the job."""
    return any(MOVING in (member.obj["metadata"].get("annotations") or {}) for member in job.members)


# --- dependencies -----------------------------------------------------------------------------------------------------


def _dependencies(job: FoundJob, states: Mapping[str, str]) -> tuple[str | None, set[str], str]:
    """Return three values: the dependencies of the copy as text (None if they are unchanged), the waiting jobs on which
    the job depends, and the reason why the job must stay ("" if it may move)."""
    metas = [member.obj["metadata"] for member in job.members]
    said = next((text for meta in metas if (text := option(meta, AFTER))), "")
    one_is_enough = next((text for meta in metas if (text := option(meta, AFTER_ANY))), "false")
    if not said:
        return None, set(), ""
    try:
        each, either = dependencies(said, job.namespace), flag(one_is_enough)
    except (GangSpecError, ValueError) as error:
        return None, set(), f"its dependencies cannot be read: {error}"
    known = _outcomes(metas)
    seen = [(one, _judge(one, states, known)) for one in each]
    kinds = {state for _, state in seen}
    needs = {one.job for one, state in seen if state is _Is.OTHER}
    if either and _Is.MET in kinds:
        return "", set(), ""
    if here := [one.job for one, state in seen if state is _Is.HERE]:
        return (
            None,
            needs,
            f"it waits for {', '.join(here)}, which runs here; move again when it has ended",
        )
    if _Is.NEVER in kinds and (not either or kinds == {_Is.NEVER}):
        never = ", ".join(one.job for one, state in seen if state is _Is.NEVER)
        return None, needs, f"it never starts: {never} ended in another way than its dependency requires. Cancel it"
    kept = [one for one, state in seen if state not in {_Is.MET, _Is.NEVER}]
    return (None if len(kept) == len(seen) else ",".join(map(_text, kept))), needs, ""


def _text(one: Dependency) -> str:
    return f"{one.job}:{one.after}"


def _judge(one: Dependency, states: Mapping[str, str], known: Mapping[str, str]) -> _Is:
    state = states.get(one.job)
    if state is None:
        if one.job not in known:
            return _Is.UNKNOWN
        return _met(one.after, known[one.job])
    if state in OVER:
        return _met(one.after, str(Outcome.SUCCEEDED if state == COMPLETE else Outcome.FAILED))
    if state == RUNNING:
        return _Is.MET if one.after is DependencyType.START else _Is.HERE
    return _Is.OTHER


def _met(after: DependencyType, outcome: str) -> _Is:
    match after:
        case DependencyType.START | DependencyType.ANY:
            met = True
        case DependencyType.OK:
            met = outcome == Outcome.SUCCEEDED
        case DependencyType.NOT_OK:
            met = outcome != Outcome.SUCCEEDED
    return _Is.MET if met else _Is.NEVER


def _outcomes(metas: Sequence[Object]) -> dict[str, str]:
    """Return the outcomes of dependencies that the scheduler has written on the job's objects: job -> outcome."""
    found: dict[str, str] = {}
    for meta in metas:
        try:
            found |= read_json((meta.get("annotations") or {}).get(AFTER_OUTCOMES, "{}"), dict[str, str])
        except ValueError:
            continue
    return found


def _keep_together(moves: dict[str, Move], why: dict[str, str], others: Mapping[str, set[str]]) -> None:
    """Move jobs from `moves` to `why` until no dependency connects a moving job with a staying job. `why`: staying job
    -> the reason. `others`: job -> the waiting jobs on which it depends."""
    asked_by: dict[str, set[str]] = {}
    for name, needs in others.items():
        for need in needs:
            asked_by.setdefault(need, set()).add(name)
    due = list(why)
    while due:
        stays = due.pop()
        for name in asked_by.get(stays, set()):
            if moves.pop(name, None) is not None:
                why[name] = f"it waits for {stays}, which stays in this cluster"
                due.append(name)
        for name in others.get(stays, set()):
            if moves.pop(name, None) is not None:
                why[name] = f"{stays} waits for it, and stays in this cluster"
                due.append(name)
