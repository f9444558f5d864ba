"""The ledger's record of a job after each possible event."""

from __future__ import annotations

from dataclasses import replace

from phalanx.ledger.accountant import GANG, Accountant, JobFacts
from phalanx.ledger.entry import MOST_REASONS, RESERVED, JobEntry, ReasonEntry, State
from phalanx.model.event import Adopted, Event, Finished, QueueSeen, Refused, Started, Submitted
from phalanx.model.job import Dependency, Job, Outcome, Phase, Placement, Role
from phalanx.model.plan import Place, Plan, Preempt, Start, Wait
from phalanx.model.pod import Shape
from phalanx.model.queue import Queue
from phalanx.model.reason import Reason, ReasonCode

JOB = Job(
    id="ns/train",
    queue="vision",
    roles=(Role(name="w", count=2, minimum=2, shape=Shape((("cpu", 1500), ("memory", 7), ("pods", 1)))),),
    submitted_s=100.0,
    user="ada",
    limit_s=60.0,
)
NODES = (Placement(0, 0, "n2"), Placement(0, 1, "n1"))
WHY = Reason(code=ReasonCode.BACKOFF, text="a pod did not come")


class Books:
    """An accountant, its objects and its clock."""

    def __init__(self, known: tuple[JobEntry, ...] = ()) -> None:
        self.now_s = 100.0
        self.facts: dict[str, JobFacts] = {"ns/train": JobFacts(uid="u1", words={"comment": "x"}, number=7)}
        self.accountant = Accountant(self.facts.get, lambda: self.now_s, known)

    def hear(self, now_s: float, *events: Event) -> JobEntry:
        self.now_s = now_s
        self.accountant.heard(events)
        return self.entry()

    def plan(self, *actions: Start | Place | Preempt | Wait) -> JobEntry:
        self.accountant.planned(Plan(actions).actions)
        return self.entry()

    def entry(self) -> JobEntry:
        changed = self.accountant.take()
        return changed[-1] if changed else self.accountant.live["ns/train"]


def test_from_submission_to_its_end() -> None:
    books = Books()
    queued = books.hear(100.0, QueueSeen(Queue(name="vision", parent="research")), Submitted(JOB))
    assert (queued.uid, queued.state, queued.account, queued.pods) == ("u1", State.PENDING, "research/vision", 2)
    assert queued.requested == {"cpu": 3000, "memory": 14}
    assert (queued.number, queued.words, queued.eligible_s) == (7, {"comment": "x"}, 100.0)
    books.plan(Start("ns/train", 1, NODES, at_s=110.5))
    running = books.hear(111.0, Started("ns/train", 1))
    assert (running.state, running.nodes, running.allocated) == (
        State.RUNNING,
        ("n1", "n2"),
        {"cpu": 3000, "memory": 14},
    )
    books.facts["ns/train"] = JobFacts(
        uid="u1", outcome=Outcome.FAILED, end_s=130.0, exit_code=9, signal=0, words={"by": "me"}
    )
    ended = books.hear(131.0, Finished("ns/train", Outcome.FAILED))
    assert (ended.state, ended.exit_code, ended.end_s, ended.elapsed_s(999.0)) == (State.FAILED, 9, 130.0, 19.5)
    assert ended.resource_seconds("cpu", 999.0) == 3000 * 19.5
    assert ended.words == {"comment": "x", "by": "me"}
    assert books.accountant.live == {}


def test_a_time_limit_is_no_failure_of_its_own() -> None:
    books = Books()
    books.hear(100.0, Submitted(JOB))
    books.plan(Start("ns/train", 1, NODES, at_s=110.0))
    books.facts["ns/train"] = JobFacts(uid="u1", outcome=Outcome.FAILED, timed_out=True)
    assert books.hear(170.0, Finished("ns/train", Outcome.FAILED)).state is State.TIMEOUT


def test_a_start_that_came_to_nothing_a_preemption_and_a_third() -> None:
    books = Books()
    books.hear(100.0, Submitted(JOB))
    books.plan(Start("ns/train", 1, NODES, at_s=110.0))
    back = books.hear(112.0, Refused("ns/train", 1, WHY))
    assert (back.state, back.start_s) == (State.PENDING, None)
    books.plan(Start("ns/train", 2, NODES, at_s=120.0))
    books.hear(121.0, Started("ns/train", 2))
    books.plan(Preempt("ns/train", 2, "ns/big", replace(WHY, code=ReasonCode.PREEMPTED)))
    books.hear(130.0, Refused("ns/train", 2, WHY))
    books.plan(Start("ns/train", 3, NODES, at_s=140.0))
    books.hear(141.0, Started("ns/train", 3))
    ended = books.hear(150.0, Finished("ns/train"))
    assert [(start.state, start.end_s) for start in ended.starts] == [
        (State.LAUNCH_FAILED, 112.0),
        (State.PREEMPTED, 130.0),
        (State.COMPLETED, 150.0),
    ]
    assert ended.held_s(999.0) == 2 + 10 + 10


def test_the_preemptor_and_the_rule_of_a_preemption_are_fields() -> None:
    books = Books()
    books.hear(100.0, Submitted(JOB))
    books.plan(Start("ns/train", 1, NODES, at_s=110.0))
    books.hear(111.0, Started("ns/train", 1))
    rule = replace(WHY, code=ReasonCode.PREEMPTED, numbers={"rule": "reclaim"})
    books.plan(Preempt("ns/train", 1, "ns/big", rule))
    [start] = books.hear(130.0, Refused("ns/train", 1, rule)).starts
    assert (start.by, start.rule) == ("ns/big", "reclaim")
    books.plan(Start("ns/train", 2, NODES, at_s=140.0))
    again = books.hear(141.0, Refused("ns/train", 2, WHY)).starts[-1]
    assert (again.by, again.rule) == ("", ""), "this start was not preempted"


def test_each_change_of_the_reason_has_its_time_and_the_last_are_kept() -> None:
    books = Books()
    books.hear(100.0, Submitted(JOB))
    codes = [ReasonCode.NO_ROOM, ReasonCode.RESERVED] * MOST_REASONS
    for books.now_s, code in enumerate(codes, 101):
        entry = books.plan(Wait("ns/train", replace(WHY, code=code)))
    assert [change.code for change in entry.reasons] == [str(code) for code in codes[-MOST_REASONS:]]
    assert [change.at_s for change in entry.reasons][-2:] == [199.0, 200.0]
    books.accountant.planned([Wait("ns/train", replace(WHY, code=codes[-1], text="other numbers"))])
    assert books.accountant.take() == [], "the same reason, with other numbers, is no change"


def test_a_backfill_is_marked_and_a_reservation_has_its_time_once_in_each_wait() -> None:
    books = Books()
    books.hear(100.0, Submitted(JOB))
    for books.now_s, first in ((110.0, "ns/train"), (120.0, "ns/other"), (130.0, "ns/train")):
        books.accountant.planned([], first)
    assert books.entry().reasons == (ReasonEntry(at_s=110.0, code=RESERVED),)
    started = books.plan(Start("ns/train", 1, NODES, at_s=140.0, backfilled=True))
    books.accountant.planned([], "ns/train")
    assert [start.backfilled for start in started.starts] == [True]
    books.hear(150.0, Refused("ns/train", 1, WHY))
    books.now_s = 160.0
    books.accountant.planned([], "ns/train")
    times = [change.at_s for change in books.entry().reasons if change.code == RESERVED]
    assert times == [110.0, 160.0]


def test_it_is_eligible_when_only_room_is_missing() -> None:
    books = Books()
    waits = replace(JOB, after=(Dependency(job="ns/other"),))
    assert books.hear(100.0, Submitted(waits)).eligible_s is None
    assert books.plan(Wait("ns/train", replace(WHY, code=ReasonCode.DEPENDENCY))).eligible_s is None
    books.now_s = 150.0
    ready = books.plan(Wait("ns/train", replace(WHY, code=ReasonCode.NO_ROOM)))
    assert (ready.eligible_s, ready.waits_for) == (150.0, "NoRoom")


def test_pods_that_are_placed_later_are_charged_too() -> None:
    books = Books()
    books.hear(100.0, Submitted(JOB))
    books.plan(Start("ns/train", 1, NODES[:1], at_s=110.0))
    grown = books.plan(Place("ns/train", NODES[1:]))
    assert (grown.starts[-1].nodes, grown.allocated["cpu"]) == (("n1", "n2"), 3000)


def test_another_object_of_its_name_is_another_job() -> None:
    books = Books()
    books.hear(100.0, Submitted(JOB))
    books.facts["ns/train"] = JobFacts(uid="u2")
    books.now_s = 120.0
    books.accountant.heard([Submitted(replace(JOB, submitted_s=119.0))])
    old, new = books.accountant.take()
    assert (old.uid, old.state, old.end_s, old.exact_end) == ("u1", State.CANCELLED, 120.0, False)
    assert (new.uid, new.state) == ("u2", State.PENDING)


def test_a_gang_stays_itself_when_its_oldest_member_goes() -> None:
    books = Books()
    books.facts["ns/train"] = JobFacts(uid="u1", kind=GANG)
    books.hear(100.0, Submitted(JOB))
    books.facts["ns/train"] = JobFacts(uid="u2", kind=GANG)
    assert books.hear(110.0, Submitted(replace(JOB, priority=5))).uid == "u1"


class TestAfterARestart:
    def before(self) -> JobEntry:
        books = Books()
        books.hear(100.0, Submitted(JOB))
        books.plan(Start("ns/train", 1, NODES, at_s=110.0))
        return books.hear(111.0, Started("ns/train", 1))

    def settled(self, books: Books) -> JobEntry:
        books.now_s = 200.0
        books.accountant.settle()
        [entry] = books.accountant.take()
        return entry

    def test_what_runs_on_is_the_same_start(self) -> None:
        books = Books((before := self.before(),))
        books.accountant.heard([Adopted(JOB, 1, Phase.RUNNING, NODES, started_s=110.0)])
        books.accountant.settle()
        assert books.accountant.take() == []
        assert books.accountant.live["ns/train"] == before

    def test_what_ended_meanwhile_is_told_by_its_object(self) -> None:
        books = Books((self.before(),))
        books.facts["ns/train"] = JobFacts(uid="u1", outcome=Outcome.SUCCEEDED, end_s=150.0, exit_code=0)
        entry = self.settled(books)
        assert (entry.state, entry.end_s, entry.exact_end) == (State.COMPLETED, 150.0, True)

    def test_what_was_deleted_meanwhile_ended_nobody_knows_when(self) -> None:
        books = Books((self.before(),))
        books.facts.clear()
        entry = self.settled(books)
        assert (entry.state, entry.end_s, entry.exact_end) == (State.CANCELLED, 200.0, False)

    def test_a_start_that_was_never_carried_out_failed_to_launch(self) -> None:
        books = Books()
        books.hear(100.0, Submitted(JOB))
        begun = books.plan(Start("ns/train", 1, NODES, at_s=110.0))
        books = Books((begun,))
        entry = books.hear(120.0, Submitted(JOB))
        assert (entry.state, entry.starts[0].state, entry.starts[0].end_s) == (
            State.PENDING,
            State.LAUNCH_FAILED,
            120.0,
        )
