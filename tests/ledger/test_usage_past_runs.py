"""How long jobs ran is learned from the ledger when a scheduler starts, though their objects are gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from phalanx.core.fold.fold import fold
from phalanx.ledger.accounted import Accounted
from phalanx.ledger.entry import JobEntry, StartEntry, State, url_of
from phalanx.ledger.store import Ledger
from phalanx.ledger.usage import past_runs
from phalanx.model.event import Event, Finished, QueueSeen, RunTold, Started, Submitted
from phalanx.model.job import Job, Outcome, Role
from phalanx.model.plan import Plan, Start
from phalanx.model.pod import Shape, amounts
from phalanx.model.queue import Limits, Queue
from phalanx.state.cluster import Cluster
from tests.ledger.test_accountant import JOB, NODES, JobFacts


def entry(number: int, run_s: float, **others: object) -> JobEntry:
    end_s = 1000.0 * number + run_s
    start = StartEntry(at_s=1000.0 * number, state=State.COMPLETED, end_s=end_s)
    found = JobEntry(
        uid=f"u{number}",
        job=f"ns/train-{number}",
        user="ada",
        queue="vision",
        limit_s=600.0,
        pods=2,
        requested={"cpu": 3000},
        state=State.COMPLETED,
        submit_s=1.0,
        end_s=end_s,
        starts=(start,),
    )
    return replace(found, **others)  # type: ignore[arg-type]  # as an entry has them


class Told:
    """A world that tells these events at first."""

    def __init__(self, *events: Event) -> None:
        self.first: Sequence[Event] = events

    def events(self) -> Sequence[Event]:
        found, self.first = self.first, ()
        return found

    def apply(self, plan: Plan) -> None: ...

    async def wait(self, timeout_s: float | None) -> None: ...


def first_events(file: Path, *events: Event) -> Sequence[Event]:
    with Ledger.open(url_of(file)) as ledger:
        accounted = Accounted(Told(*events), ledger, lambda job: None, lambda: 9e9)
        try:
            found = accounted.events()
            assert not accounted.events()  # told once
        finally:
            accounted.close()
    return found


def like(name: str) -> Job:
    role = Role(name="w", count=2, minimum=2, shape=Shape(requests=amounts({"cpu": 1500, "pods": 1})))
    return Job(id=name, queue="vision", roles=(role,), user="ada", limit_s=600.0)


def test_a_job_is_expected_to_run_as_those_of_its_kind_did_whose_objects_are_gone(tmp_path: Path) -> None:
    with Ledger.open(url_of(tmp_path / "l.sqlite3")) as ledger:
        ledger.put([entry(number, 60.0) for number in range(1, 6)])
        ledger.put([entry(9, 400.0, requested={"cpu": 1000}, pods=1)])  # of the user, of another kind
    cluster = Cluster()
    fold(cluster, first_events(tmp_path / "l.sqlite3", QueueSeen(Queue(name="vision"))))
    assert cluster.ends.run_times.expected_s(like("ns/train-77"), 600.0, 0.0, [0.5]) == [60.0]
    [of_user_s] = cluster.ends.run_times.expected_s(like("ns/other"), 600.0, 0.0, [0.95])
    assert of_user_s > 300.0


def test_what_the_accountant_writes_is_what_is_learned_from(tmp_path: Path) -> None:
    """The same as if the scheduler had not been started anew."""
    with Ledger.open(url_of(tmp_path / "l.sqlite3")) as ledger:
        world, now = Told(Submitted(JOB)), [100.0]
        accounted = Accounted(world, ledger, {JOB.id: JobFacts(uid="u1")}.get, lambda: now[0])
        accounted.events()
        accounted.apply(Plan((Start(JOB.id, 1, NODES, at_s=110.0),)))
        now[0], world.first = 150.0, (Started(JOB.id, 1), Finished(JOB.id, Outcome.SUCCEEDED))
        accounted.events()
        accounted.close()
        [told] = past_runs(ledger.ended(10))
    assert (told.run_s, told.job.user, told.job.limit_s) == (40.0, JOB.user, JOB.limit_s)
    assert [(role.count, role.shape.requests) for role in told.job.roles] == [
        (role.count, role.shape.requests) for role in JOB.roles
    ]


def test_runs_are_told_when_queues_are_known_and_before_those_of_the_world(tmp_path: Path) -> None:
    with Ledger.open(url_of(tmp_path / "l.sqlite3")) as ledger:
        ledger.put([entry(2, 20.0), entry(1, 10.0), entry(3, 30.0)])
    queue = QueueSeen(Queue(name="vision", per_job=Limits(wall_s=50.0)))
    known = RunTold(like("ns/train-3"), 30.0)
    found = first_events(tmp_path / "l.sqlite3", queue, known)
    assert found[0] == queue
    assert [event.job.id for event in found if isinstance(event, RunTold)] == [f"ns/train-{n}" for n in (1, 2, 3)]


def test_only_ends_that_were_seen_count() -> None:
    never = entry(1, 10.0, starts=(), state=State.CANCELLED)
    unseen = entry(2, 10.0, exact_end=False)
    taken_back = entry(3, 10.0)
    taken_back = replace(taken_back, starts=(replace(taken_back.starts[0], state=State.PREEMPTED),))
    assert list(past_runs([never, unseen, taken_back])) == []
    assert [told.run_s for told in past_runs([entry(4, 10.0)])] == [10.0]


def test_the_last_to_end_are_read(tmp_path: Path) -> None:
    with Ledger.open(url_of(tmp_path / "l.sqlite3")) as ledger:
        ledger.put([entry(number, 1.0) for number in (3, 1, 2)])
        ledger.put([entry(9, 1.0, end_s=None, state=State.PENDING)])
        assert [found.job for found in ledger.ended(2)] == ["ns/train-2", "ns/train-3"]
        assert len(ledger.ended(10)) == 3
