"""Write a trace as a scenario file, in the language of `tests/scenarios`, and shrink a trace that breaks a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

from phalanx.core.fold.transitions import IllegalTransition
from phalanx.model.event import (
    Adopted,
    Event,
    Finished,
    NodeGone,
    NodeSeen,
    Opened,
    QueueSeen,
    Refused,
    Released,
    Started,
    Submitted,
)
from phalanx.model.job import GangSize, Job, Outcome, Phase, Placement
from phalanx.model.pod import format_amount
from phalanx.model.policy import Policy
from phalanx.model.queue import Queue, QueuePreemption
from phalanx.state.cluster import Cluster

from .replay import Turn, first_fault

ROUNDS = 12  # passes over a trace


def written(turns: Sequence[Turn], policy: Policy, idea: str) -> str:
    """Return the trace as a scenario file. `idea`: the comment in its first line."""
    lines = [f"# {idea}"]
    if policy != Policy():
        lines.append(f"policy backfill={policy.backfill}")
    for turn in turns:
        lines += [line for event in turn.events for line in statement(event)]
        lines += [f"cycle at={turn.now_s:g}", ""]
    return "\n".join(lines)


def statement(event: Event) -> Iterator[str]:
    match event:
        case NodeSeen(node):
            yield f"node {node.name} {amounts_of(node.allocatable)}"
        case NodeGone(name):
            yield f"gone {name}"
        case QueueSeen(queue):
            if queue.name != "default":
                yield " ".join(["queue", queue.name, *queue_words(queue)])
        case Submitted(job):
            yield " ".join(["job", job.id, *job_words(job)])
        case Adopted(job, attempt, phase, placements, open_slots, started_s):
            where = [f"worker/{each.ordinal}@{each.node}" for each in placements]
            where += [f"worker/{slot.ordinal}@?" for slot in open_slots]
            words = [f"adopted {job.id}#{attempt} {phase}", *job_words(job), f"started={started_s:g}", *where]
            yield " ".join(words)
        case Started(job, attempt):
            yield f"started {job}#{attempt}"
        case Refused(job, attempt):
            yield f"refused {job}#{attempt} preempted"
        case Finished(job, outcome):
            yield f"finished {job}" + ("" if outcome is Outcome.SUCCEEDED else f" {outcome}")
        case Opened(job, slots):
            yield f"open {job} " + " ".join(f"worker/{slot.ordinal}" for slot in slots)
        case Released(job, slots):
            yield f"release {job} " + " ".join(f"worker/{slot.ordinal}" for slot in slots)


def amounts_of(amounts: Sequence[tuple[str, int]]) -> str:
    return " ".join(
        f"{name}={format_amount(name, amount)}" for name, amount in amounts if (name, amount) != ("pods", 110)
    )


def queue_words(queue: Queue) -> Iterator[str]:
    if queue.parent:
        yield f"parent={queue.parent}"
    if queue.order is not Queue(name="").order:
        yield f"order={queue.order}"
    if queue.strict:
        yield "strict"
    if queue.weight != 1:
        yield f"weight={queue.weight:g}"
    if queue.priority:
        yield f"priority={queue.priority}"
    if queue.fenced:
        yield "fenced"
    if queue.borrow is not Queue(name="").borrow:
        yield f"borrow={queue.borrow}"
    for quota in queue.quotas:
        for kind in ("guaranteed", "limit", "lend"):
            yield from (f"{kind}:{name}={format_amount(name, amount)}" for name, amount in getattr(quota, kind))
    yield from preemption_words(queue.preemption)


WORDS = {
    "within": "within",
    "reclaim": "reclaim",
    "down_to": "down-to",
    "strategy": "strategy",
    "victims": "victims",
    "min_run_s": "min-run",
    "hourly_budget": "budget",
    "delay_s": "delay",
    "grace_s": "grace",
    "excess_delay_s": "excess",
}


def preemption_words(settings: QueuePreemption) -> Iterator[str]:
    for name, word in WORDS.items():
        value = getattr(settings, name)
        if value != getattr(QueuePreemption(), name):
            yield f"{word}={value:g}" if isinstance(value, float) else f"{word}={value}"
    if settings.borrowing:
        yield "borrowing" + (f"={settings.borrowing_threshold}" if settings.borrowing_threshold is not None else "")


def job_words(job: Job) -> Iterator[str]:
    role = job.roles[0]
    yield f"queue={job.queue}"
    if job.priority:
        yield f"priority={job.priority}"
    if role.count != 1:
        yield f"pods={role.count}"
    if role.minimum != role.count:
        yield f"min={role.minimum}"
    yield amounts_of(role.shape.requests)
    yield f"at={job.submitted_s:g}"
    if job.limit_s is not None:
        yield f"limit={job.limit_s:g}"
    flags = {
        "fixed-at-start": job.size is GangSize.FIXED_AT_START,
        "not-preemptible": not job.preemptible,
        "preempts-not": not job.preempts,
    }
    yield from (word for word, is_set in flags.items() if is_set)


# Shrinking


def shrunk(turns: Sequence[Turn], policy: Policy, breaks: Callable[[Sequence[Turn], Policy], bool]) -> list[Turn]:
    """Return the smallest trace found that still `breaks`."""
    turns = list(turns)
    for _ in range(ROUNDS):
        smaller = next((each for each in smaller_traces(turns, policy) if breaks(each, policy)), None)
        if smaller is None:
            return turns
        turns = smaller
        while (
            again := next((each for each in smaller_traces(turns, policy) if breaks(each, policy)), None)
        ) is not None:
            turns = again
    return turns


def breaks_rule(rule: str) -> Callable[[Sequence[Turn], Policy], bool]:
    """Return a function that returns whether this rule is the first that a trace breaks."""

    def breaks(turns: Sequence[Turn], policy: Policy) -> bool:
        events = [event for turn in turns for event in turn.events]
        counts = {event.job.id: event.job.roles[0].count for event in events if isinstance(event, Submitted | Adopted)}
        opened = [(event.job, slot) for event in events if isinstance(event, Opened) for slot in event.slots]
        if any(slot.ordinal >= counts.get(job, 0) for job, slot in opened):
            return False
        queues = {event.queue.name for event in events if isinstance(event, QueueSeen)}
        if any(event.job.queue not in queues for event in events if isinstance(event, Submitted | Adopted)):
            return False
        try:
            found = first_fault(turns, policy)
        except (IllegalTransition, KeyError, ValueError, StopIteration):
            return False
        return found is not None and found[1].rule == rule

    return breaks


def smaller_traces(turns: list[Turn], policy: Policy) -> Iterator[list[Turn]]:
    """Yield traces that are a step smaller. A step cuts, restates or merges cycles, removes events, or makes values
    plainer."""
    for at in range(len(turns) - 1, 0, -1):
        yield turns[:at]
        if (restated := restate(turns[:at], policy)) is not None:
            first = Turn([*restated, *turns[at].events], turns[at].now_s)
            yield [first, *turns[at + 1 :]]
    for at in range(len(turns) - 1):
        merged = Turn([*turns[at].events, *turns[at + 1].events], turns[at + 1].now_s)
        yield [*turns[:at], merged, *turns[at + 2 :]]
    for at, turn in enumerate(turns):
        for number in range(len(turn.events)):
            yield changed(turns, at, [*turn.events[:number], *turn.events[number + 1 :]])
    for at, turn in enumerate(turns):
        for number, event in enumerate(turn.events):
            for plainer in plainer_events(event):
                yield changed(turns, at, [*turn.events[:number], plainer, *turn.events[number + 1 :]])


def changed(turns: list[Turn], at: int, events: list[Event]) -> list[Turn]:
    return [*turns[:at], Turn(events, turns[at].now_s), *turns[at + 1 :]]


def restate(turns: Sequence[Turn], policy: Policy) -> list[Event] | None:
    """Return events that lead to the state after the trace; None if no events can state it (nominations, terminating
    pods)."""
    from .replay import Played

    if len(turns) < 2:
        return None
    played = Played(policy)
    try:
        for turn in turns:
            played.cycle(turn)
    except (IllegalTransition, KeyError, ValueError, StopIteration):
        return None
    return stated(played.cluster)


def stated(cluster: Cluster) -> list[Event] | None:
    """Return events that build the state again; None if no events can."""
    events: list[Event] = [NodeSeen(node) for node in cluster.columns.nodes if node is not None]
    events += [QueueSeen(queue) for queue in cluster.queues.values()]
    for record in cluster.jobs.values():
        if record.nominated or record.leaving or record.preempted or record.phase is Phase.STOPPING or record.size:
            return None
        if record.phase is Phase.QUEUED:
            events.append(Submitted(record.job))
        else:
            placements = tuple(Placement(slot.role, slot.ordinal, node) for slot, node in record.placements.items())
            events.append(
                Adopted(record.job, record.attempt, record.phase, placements, tuple(record.open), record.started_s)
            )
    return events


def plainer_events(event: Event) -> Iterator[Event]:
    match event:
        case QueueSeen(queue):
            for each in fields(Queue):
                default = getattr(Queue(name=queue.name), each.name)
                if getattr(queue, each.name) != default:
                    yield QueueSeen(replace(queue, **{each.name: default}))
            for each in fields(QueuePreemption):
                default = getattr(QueuePreemption(), each.name)
                if getattr(queue.preemption, each.name) != default:
                    yield QueueSeen(replace(queue, preemption=replace(queue.preemption, **{each.name: default})))
            for quota in queue.quotas:
                for plain in (replace(quota, guaranteed=()), replace(quota, limit=()), replace(quota, lend=())):
                    if plain != quota:
                        yield QueueSeen(replace(queue, quotas=(plain,)))
        case Submitted(job):
            yield from (Submitted(each) for each in plainer_jobs(job))
        case Adopted(job):
            for plainer in plainer_jobs(job):
                if plainer.roles[0].count > max(_ordinals(event)):
                    yield replace(event, job=plainer)
            if event.open:
                yield replace(event, open=())
            if event.phase is Phase.STARTING:
                yield replace(event, phase=Phase.RUNNING)
        case Opened(job, slots) if len(slots) > 1:
            yield Opened(job, slots[:-1])


def _ordinals(event: Adopted) -> list[int]:
    return [*(each.ordinal for each in event.placements), *(slot.ordinal for slot in event.open)]


def plainer_jobs(job: Job) -> Iterator[Job]:
    role = job.roles[0]
    if job.limit_s is not None:
        yield replace(job, limit_s=None)
    if job.priority:
        yield replace(job, priority=0)
    if not job.preemptible:
        yield replace(job, preemptible=True)
    if not job.preempts:
        yield replace(job, preempts=True)
    if job.size is not GangSize.ELASTIC:
        yield replace(job, size=GangSize.ELASTIC)
    if role.count > 1:
        yield replace(job, roles=(replace(role, count=role.count - 1, minimum=min(role.minimum, role.count - 1)),))
    if role.minimum < role.count:
        yield replace(job, roles=(replace(role, minimum=role.count),))
    if len(role.shape.requests) > 1:
        only = tuple(each for each in role.shape.requests if each[0] == "cpu")
        yield replace(job, roles=(replace(role, shape=replace(role.shape, requests=only)),))
    asks = dict(role.shape.requests)
    if asks.get("cpu", 0) > 1000:
        less = tuple((name, amount - 1000 if name == "cpu" else amount) for name, amount in role.shape.requests)
        yield replace(job, roles=(replace(role, shape=replace(role.shape, requests=less)),))
