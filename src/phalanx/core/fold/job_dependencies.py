"""Check the conditions for a job's start that do not depend on capacity: its begin time and its deadline, other jobs,
and the cap of its array.

The rules are those of Slurm's --begin, --deadline, --dependency and --array=...%cap (man sbatch). If a job may not
start, the result of the check is a `NotEligible` with the reason. If the job only waits for a known time, the result
has this time, and the job is checked again at this time. In all other cases only an event about another job can change
the result. The function `affected_jobs` lists the jobs that such an event concerns.

- *begin*: the job does not start before `begin_s`.
- *deadline*: a job that cannot end by its deadline, even if it started now, is never started. A job without a time
  limit is assumed to end at once.
- *dependencies*: all dependencies in `after` must be met; with `requires_any`, one met dependency is enough. A
  dependency on an unknown job counts as not yet met, because the unknown job may still be submitted (objects may be
  created in any order). If a dependency can never be met, for example because dependencies form a circle, the job's
  reason states this. The job stays pending until its owner changes or deletes it.
- *singleton*: of a user's live jobs with the same name, only one runs at a time, in the order of submission.
- *array*: at any time, at most `array_cap` jobs of an array run or are candidates for a start, the earliest first.
  Candidates count against the cap, because one cycle could start several candidates. A job that can never start, or
  that also waits for another condition, does not count against the cap."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from phalanx.model.job import Dependency, DependencyType, Job, Outcome, Phase
from phalanx.model.reason import NEVER, NotEligible, Reason, ReasonCode, format_time
from phalanx.state.cluster import Cluster, JobRecord
from phalanx.state.dependencies import JobFamily
from phalanx.state.pending.request_class import Request

# A circle of dependencies with more steps than this is not found. The reason of its jobs then names the unmet
# dependency.
CIRCLE_STEPS = 1000


class DependencyState(Enum):
    """The state of a dependency: met, not yet met, or impossible to meet."""

    YES = auto()
    NOT_YET = auto()
    NEVER = auto()


def not_eligible(
    cluster: Cluster, record: JobRecord, now_s: float, cleared: dict[JobFamily, int] | None = None
) -> NotEligible | None:
    """Return why the queued job may not be a candidate for a start at `now_s`; None if it may be one.

    `cleared`: job array -> the number of its jobs that have passed this check, but do not count as active in the state
        yet. When a job of an array passes the check, the function increases this number by 1."""
    job = record.job
    if job.deadline_s is not None and now_s > latest_start_s(job):
        return NotEligible(deadline_missed(job, now_s))
    unmet = dependencies(cluster, job) if job.after else None
    is_hopeless = unmet is not None and unmet.code is ReasonCode.DEPENDENCY_NEVER
    if not is_hopeless and job.begin_s is not None and now_s < job.begin_s:
        return NotEligible(begins_later(job.begin_s, now_s), job.begin_s)
    if unmet is not None:
        return NotEligible(unmet)
    if job.singleton and (first := singleton(cluster, job)):
        return NotEligible(first)
    if job.array_cap is not None and (full := array_full(cluster, job, {} if cleared is None else cleared)):
        return NotEligible(full)
    return None


def cleared(cluster: Cluster) -> dict[JobFamily, int]:
    """Return a mapping: job array -> the number of its jobs that an earlier cycle has received, but that do not count
    as active in the state yet. This happens if the memory of that cycle was not applied."""
    found: dict[JobFamily, int] = {}
    for request in cluster.pending.unreported:
        job = cluster.jobs[request.job].job
        if request.slot is None and job.array_cap is not None and not cluster.dependencies.contends(job):
            found[job.user, job.array] = found.get((job.user, job.array), 0) + 1
    return found


def latest_start_s(job: Job) -> float:
    """Return the latest time at which the job can start and still end by its deadline (seconds since the epoch);
    infinity if it has no deadline."""
    return float("inf") if job.deadline_s is None else job.deadline_s - max(0.0, job.limit_s or 0.0)


def affected_jobs(cluster: Cluster, job: Job) -> Iterator[str]:
    """Yield the other pending jobs that the next cycle must check again, because `job` is new, has started, has ended,
    or waits again."""
    relations = cluster.dependencies
    yield from (name for name in relations.dependents.get(job.id, ()) if queued(cluster, name))
    if members := relations.singletons.get((job.user, job.singleton)) if job.singleton else None:
        yield from (name for _, name in members[:1] if queued(cluster, name))
    if job.array_cap is not None and (after := next_of_array(cluster, job)):
        yield after


def displaced_by(cluster: Cluster, job: Job) -> str | None:
    """Return the queued job that is no longer the first job of its singleton, because `job` was submitted earlier; None
    if there is no such job. Jobs with the same singleton start in the order of their submission."""
    members = cluster.dependencies.singletons[job.user, job.singleton]
    if len(members) > 1 and members[0][1] == job.id and queued(cluster, members[1][1]):
        return members[1][1]
    return None


def next_of_array(cluster: Cluster, job: Job) -> str | None:
    """Return the first job of the same array that only waits because of the array's cap; None if there is no such
    job."""
    for _, name in cluster.dependencies.arrays.get((job.user, job.array), ()):
        if name != job.id and waits_idly(cluster, name) and waits_for_turn(cluster.jobs[name]):
            return name
    return None


def waits_for_turn(record: JobRecord) -> bool:
    """Return whether the job has reported that it waits because of the cap of its array."""
    return record.reason is not None and record.reason.code is ReasonCode.ARRAY_LIMIT


def contends(record: JobRecord) -> bool:
    """Return False if the reason of the job states that it can never start; otherwise True. Precondition: the job is in
    a request class."""
    return record.reason is None or record.reason.code not in NEVER


def queued(cluster: Cluster, name: str) -> bool:
    """Return whether the job exists and is queued."""
    record = cluster.jobs.get(name)
    return record is not None and record.phase is Phase.QUEUED


def waits_idly(cluster: Cluster, name: str) -> bool:
    """Return whether the job is queued, and the next cycle need not check it. (It checks all jobs
    in `Pending.fresh`.)"""
    return queued(cluster, name) and Request(name) not in cluster.pending.fresh


def deadline_missed(job: Job, now_s: float) -> Reason:
    """Return the reason that a job reports if it can no longer end by its deadline."""
    deadline_s, limit_s = job.deadline_s or 0.0, max(0.0, job.limit_s or 0.0)
    runs = f"it may run {limit_s:.15g} s, and " if limit_s else ""
    return Reason(
        code=ReasonCode.DEADLINE,
        text=f"{runs}it was to end by {format_time(deadline_s, now_s)}: it cannot any more, and is not started",
        numbers={"deadline_s": deadline_s, "limit_s": limit_s, "latest_start_s": latest_start_s(job)},
    )


def begins_later(begin_s: float, now_s: float) -> Reason:
    """Return the reason that a job reports if its begin time is in the future."""
    text = f"it asks not to begin before {format_time(begin_s, now_s)}"
    return Reason(code=ReasonCode.BEGIN_TIME, text=text, numbers={"begin_s": begin_s})


def dependencies(cluster: Cluster, job: Job) -> Reason | None:
    """Check the dependencies of the job. Return the reason why it must wait, or why it can never start; None if enough
    dependencies are met."""
    states = [met(cluster, dependency) for dependency in job.after]
    enough = any if job.requires_any else all
    if enough(state is DependencyState.YES for state in states):
        return None
    gone = [each for each, state in zip(job.after, states, strict=True) if state is DependencyState.NEVER]
    if len(gone) == len(states) if job.requires_any else gone:
        return never_satisfied(cluster, gone[0])
    if circle := dependency_cycle(cluster, job):
        return Reason(
            code=ReasonCode.DEPENDENCY_NEVER,
            text=f"it waits for itself: {' waits for '.join(circle)}",
            numbers={"circle": list(circle)},
        )
    missing = [each for each, state in zip(job.after, states, strict=True) if state is DependencyState.NOT_YET]
    return Reason(
        code=ReasonCode.DEPENDENCY,
        text="waits "
        + (" or " if job.requires_any else " and ").join(dependency_text(cluster, each) for each in missing),
        numbers={"jobs": [each.job for each in missing], "after": [str(each.after) for each in missing]},
    )


def met(cluster: Cluster, dependency: Dependency) -> DependencyState:
    """Return the state of the dependency."""
    record = cluster.jobs.get(dependency.job)
    if record is not None:
        started = record.phase is not Phase.QUEUED or record.attempt > 0 or record.preempted > 0
        return DependencyState.YES if dependency.after is DependencyType.START and started else DependencyState.NOT_YET
    outcome = cluster.dependencies.outcomes.get(dependency.job)
    if outcome is None:
        return DependencyState.NOT_YET
    match dependency.after:
        case DependencyType.START | DependencyType.ANY:
            return DependencyState.YES
        case DependencyType.OK:
            return DependencyState.YES if outcome is Outcome.SUCCEEDED else DependencyState.NEVER
        case DependencyType.NOT_OK:
            return DependencyState.NEVER if outcome is Outcome.SUCCEEDED else DependencyState.YES


def never_satisfied(cluster: Cluster, dependency: Dependency) -> Reason:
    """Return the reason that a job reports if its dependency can never be met."""
    outcome = cluster.dependencies.outcomes[dependency.job]
    wanted = "succeeded" if dependency.after is DependencyType.OK else "failed or was deleted"
    return Reason(
        code=ReasonCode.DEPENDENCY_NEVER,
        text=f"it was to start after {dependency.job} {wanted}, but that {ended_text(outcome)}",
        numbers={"job": dependency.job, "after": str(dependency.after), "outcome": str(outcome)},
    )


def ended_text(outcome: Outcome) -> str:
    """Return the words for the outcome of a job in the text of a reason."""
    return "was deleted" if outcome is Outcome.DELETED else str(outcome)


def dependency_text(cluster: Cluster, dependency: Dependency) -> str:
    """Return the words for the dependency in the text of a reason."""
    event = {
        DependencyType.START: "to start",
        DependencyType.OK: "to succeed",
        DependencyType.NOT_OK: "to fail or be deleted",
        DependencyType.ANY: "to be over",
    }[dependency.after]
    known = "" if dependency.job in cluster.jobs else ", which is not known yet"
    return f"for {dependency.job} {event}{known}"


def dependency_cycle(cluster: Cluster, job: Job) -> tuple[str, ...]:
    """Return the jobs of a circle of dependencies: each job depends on the next one, and the last one is `job` again.
    Return an empty tuple if there is no circle. If one of several dependencies is enough for a job (`requires_any`),
    the search does not follow its dependencies."""
    came_from: dict[str, str] = {}
    reached = [] if job.requires_any and len(job.after) > 1 else [(each.job, job.id) for each in job.after]
    while reached and len(came_from) < CIRCLE_STEPS:
        name, by = reached.pop()
        if name in came_from or not queued(cluster, name):
            continue
        came_from[name] = by
        if name == job.id:
            return path_back(came_from, name)
        other = cluster.jobs[name].job
        if not other.requires_any or len(other.after) == 1:
            reached.extend(
                (each.job, name) for each in reversed(other.after) if met(cluster, each) is DependencyState.NOT_YET
            )
    return ()


def path_back(came_from: dict[str, str], name: str) -> tuple[str, ...]:
    """Return the jobs of the circle, in order, beginning and ending with the job `name`. `came_from`: job -> the job
    from which the search in `dependency_cycle` reached it."""
    way = [name]
    while (by := came_from[way[-1]]) != name:
        way.append(by)
    return (name, *reversed(way[1:]), name)


def singleton(cluster: Cluster, job: Job) -> Reason | None:
    """Return the reason why the job must wait if another job with the same singleton runs or comes first; None if no
    such job exists."""
    members = cluster.dependencies.singletons[job.user, job.singleton]
    first = members[0][1] == job.id
    if first and all(queued(cluster, name) for _, name in members):
        return None
    whose = f" of {job.user}" if job.user else ""
    return Reason(
        code=ReasonCode.DEPENDENCY,
        text=f"one job{whose} named {job.singleton} at a time, and another comes before it",
        numbers={"singleton": job.singleton, "user": job.user},
    )


def array_full(cluster: Cluster, job: Job, cleared: dict[JobFamily, int]) -> Reason | None:
    """Return the reason why the job must wait if the cap of its array is reached; otherwise None. `cleared`: as
    in `not_eligible`."""
    kin, cap = (job.user, job.array), max(0, job.array_cap or 0)
    if cluster.dependencies.contends(job):
        return None
    if len(cluster.dependencies.active.get(kin, ())) + cleared.get(kin, 0) < cap:
        cleared[kin] = cleared.get(kin, 0) + 1
        return None
    return Reason(
        code=ReasonCode.ARRAY_LIMIT,
        text=f"at most {cap} of the array {job.array} run at a time",
        numbers={"array": job.array, "cap": cap},
    )
