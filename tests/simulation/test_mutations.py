"""Plant bugs, one at a time, to test the checks. Each bug must be caught within a few seeds, or by the scenario that
specifies the broken behavior (docs/benchmarks/planted-bugs.md lists the bugs).

A bug is tested by seeds if at least one seed in ten notices it, perhaps in worlds that have many of the conditions that
it needs. So a change of the world, which changes every seed, does not hide the bug from all seeds. All other bugs break
a scenario, which always gives the same result.

Checks of safety alone (no node over capacity, no partial gang) would miss bugs that only waste capacity. Checks for
work conservation find these bugs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from phalanx.core.backfill.reservation import BackfillForecast
from phalanx.core.cycle import known, plan, report, steps
from phalanx.core.cycle.intake import receive
from phalanx.core.cycle.preempt import evict
from phalanx.core.fold import fold, job_dependencies, transitions
from phalanx.core.fold.transitions import LATE
from phalanx.core.order.next_job import Tournament
from phalanx.core.placement import capacity, gang, packing, packing_order
from phalanx.core.placement.draft import Draft
from phalanx.core.placement.filters import matching
from phalanx.core.preemption import policy
from phalanx.core.quota import ledger
from phalanx.model.plan import Nominate
from phalanx.model.reason import ReasonCode
from phalanx.state.queues.bounds import Rule
from phalanx.state.queues.tree import QueueTree
from tests.scenarios.language import read
from tests.scenarios.test_scenarios import FOLDER, play

from .simulate import HELD, Weather, simulate

SEEDS = 200  # if one seed in ten notices a bug, the chance that none of 200 does is 1 in 10^9
PLAIN = Weather()
LATE_ANSWERS = Weather(chances={"late": 1.0, "twice": 0.9, "start_refused": 0.5, "pod_refused": 0.3})
CROWDED = Weather(crowded=True)


def refused_job_keeps_its_room(patch: pytest.MonkeyPatch) -> None:
    def refused(cluster, event):
        if record := fold.answering(cluster, event):
            record.phase, record.reason = fold.Phase.QUEUED, event.reason
            cluster.pending.refresh(fold.Request(event.job))

    patch.setitem(fold.TAKEN_IN_BY, fold.Refused, refused)


def fit_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    take = Draft.take
    patch.setattr(Draft, "take", lambda self, at, asks, count: take(self, at, asks, max(1, count - 1)))


def gang_starts_partly(patch: pytest.MonkeyPatch) -> None:
    def fill_what_goes(draft, crew, order, within, shares):
        for role in order:
            packing.fill(draft, crew.demands[role], role, crew.roles[role].minimum, shares, within)

    patch.setattr(packing, "try_in_order", fill_what_goes)


def draft_is_not_rewound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Draft, "rewind", lambda self, mark: None)


def nothing_that_happened_is_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan, "is_idle", lambda cluster, now_s: not cluster.pending.fresh)


def need_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    begin = known.KnownFailures.begin

    def stricter(self):
        self.classes.capacity.room -= 1
        begin(self)
        self.classes.capacity.room += 1

    patch.setattr(known.KnownFailures, "begin", stricter)


def room_counts_once_per_node(patch: pytest.MonkeyPatch) -> None:
    pods = capacity.pods
    patch.setattr(capacity, "FEW", 0)
    patch.setattr(capacity, "pods", lambda *args: pods(*args).clip(-1, 1))


def late_answers_count(patch: pytest.MonkeyPatch) -> None:
    def move(job, phase, attempt, by):
        outcome = transitions.TRANSITIONS[(phase, type(by))]
        return outcome if outcome != LATE else transitions.STAYS

    patch.setattr(transitions, "transition", move)


def overfull_nodes_are_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(packing_order, "usable_rows", lambda columns: columns.attributes.ready.nonzero()[0])


def taints_are_overlooked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(matching, "is_untolerated", lambda taint, tolerations: False)


def rested_jobs_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(receive, "newcomers", lambda state: list(state.pending.fresh))


def lost_nodes_forget_their_pods(patch: pytest.MonkeyPatch) -> None:
    from phalanx.state.nodes.table import NodeTable

    lose = NodeTable.remove

    def forgetful(self, name):
        self.charges[self.row_of[name]] = 0
        lose(self, name)

    patch.setattr(NodeTable, "remove", forgetful)


def quota_is_released_twice(patch: pytest.MonkeyPatch) -> None:
    charge = QueueTree.charge

    def twice(self, what, sign):
        charge(self, what, sign)
        if sign < 0:
            charge(self, what, sign)

    patch.setattr(QueueTree, "charge", twice)


def promise_is_not_charged(patch: pytest.MonkeyPatch) -> None:
    def hold(cluster, record, placements):
        if placements:
            record.make_ready()
            cluster.nominated[record.job.id] = None
            record.nominated.update((fold.Slot(each.role, each.ordinal), each.node) for each in placements)

    patch.setattr(fold, "nominate", hold)


def limit_is_off_by_one_pod(patch: pytest.MonkeyPatch) -> None:
    at_branch = ledger.branch_shortfall

    def lenient(*args, **options):
        short = at_branch(*args, **options)
        over = short is not None and short.bound.rule is Rule.LIMIT and short.used + short.asked - short.allowed
        return None if over and over <= 1000 else short

    patch.setattr(ledger, "branch_shortfall", lenient)


def dependency_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_dependencies, "dependencies", lambda cluster, job: None)


def begin_time_is_ignored(patch: pytest.MonkeyPatch) -> None:
    obstacle = job_dependencies.not_eligible
    patch.setattr(
        job_dependencies,
        "not_eligible",
        lambda cluster, record, now_s, cleared=None: obstacle(cluster, record, max(now_s, 1e9), cleared),
    )


def minimum_run_is_ignored(patch: pytest.MonkeyPatch) -> None:
    of = policy.queue_preemption
    patch.setattr(policy, "queue_preemption", lambda cluster, queue: replace(of(cluster, queue), min_run_s=0.0))


def quota_given_back_is_not_measured(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueueTree, "note_charged", lambda self, charge: None)


def delay_is_counted_from_every_cycle(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold, "SHORT", set())


def who_gives_way_is_charged_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fold, "clear_charge", lambda cluster, record: None)


def lend_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "pool_shortfall", lambda *args: None)


def borrow_check_is_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger, "key_beyond_guarantee", lambda *args: None)


def strict_head_is_skipped(patch: pytest.MonkeyPatch) -> None:
    lost = Tournament.reject_head
    patch.setattr(Tournament, "reject_head", lambda self, *, holds_up=True: lost(self, holds_up=False))


def backfill_delays_the_head(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BackfillForecast, "place", lambda self, request, crew: gang.place(self.draft, crew))


def growth_comes_before_the_queue(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(receive, "is_growth", lambda record, slot: False)


def budget_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(policy.PreemptionPolicy, "_budget", lambda self, queue: policy.ANYBODY)


def preempted_in_vain(patch: pytest.MonkeyPatch) -> None:
    settle = evict.settle

    def forgets_whom_for(context, actions, request, found, rights):
        settle(context, actions, request, found, rights)
        actions[:] = [action for action in actions if not isinstance(action, Nominate)]

    patch.setattr(evict, "settle", forgets_whom_for)


def held_room_is_given_away(patch: pytest.MonkeyPatch) -> None:
    started = fold.TAKEN_IN_BY[fold.Started]

    def forgetful(cluster, event):
        started(cluster, event)
        record = cluster.jobs.get(event.job)
        if record is not None and record.phase is fold.Phase.RUNNING:
            fold.release(cluster, record, sorted(record.placements)[1:])
            fold.settle_charge(cluster, record)

    patch.setitem(fold.TAKEN_IN_BY, fold.Started, forgetful)


def never_holds_up_all_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "ALONE", {ReasonCode.USER_LIMIT})
    patch.setattr(report, "ALONE", {ReasonCode.USER_LIMIT})
    patch.setattr(known.KnownFailures, "never_starts", lambda self, found: False)


def queues_stand_by_whoever_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps.Cycle, "gets_something", lambda self, head: True)


# Each bug with its worlds, and the first seed that noticed the bug when this list was written. The search begins at
# that seed.
PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], Weather, int]] = [
    (refused_job_keeps_its_room, PLAIN, 0),
    (fit_is_off_by_one, PLAIN, 30),
    (gang_starts_partly, PLAIN, 0),
    (draft_is_not_rewound, PLAIN, 0),
    (nothing_that_happened_is_noticed, PLAIN, 0),
    (need_is_off_by_one, PLAIN, 0),
    (room_counts_once_per_node, PLAIN, 5),
    (late_answers_count, LATE_ANSWERS, 0),
    (taints_are_overlooked, PLAIN, 5),
    (rested_jobs_are_forgotten, PLAIN, 6),
    (lost_nodes_forget_their_pods, PLAIN, 0),
    (quota_is_released_twice, PLAIN, 0),
    (limit_is_off_by_one_pod, CROWDED, 12),
    (dependency_is_ignored, PLAIN, 34),
    (begin_time_is_ignored, PLAIN, 2),
    (who_gives_way_is_charged_on, PLAIN, 0),
    (held_room_is_given_away, HELD, 0),
]
SPECIFIED: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (overfull_nodes_are_used, "over_capacity"),
    (promise_is_not_charged, "preemption/beneficiary_changes"),
    (quota_given_back_is_not_measured, "queues/limit_of_running_jobs"),
    (lend_is_ignored, "queues/kept_unlent"),
    (borrow_check_is_skipped, "queues/borrow_none"),
    (strict_head_is_skipped, "queues/strict_head_blocks"),
    (backfill_delays_the_head, "time/three_ways_easy"),
    (growth_comes_before_the_queue, "gangs/growth_comes_last"),
    (minimum_run_is_ignored, "preemption/minimum_run_time"),
    (budget_is_ignored, "preemption/hourly_budget"),
    (preempted_in_vain, "preemption/promise_is_kept_from_others"),
    (delay_is_counted_from_every_cycle, "preemption/delay_before_preempting"),
    (never_holds_up_all_the_same, "queues/strict_head_never_to_borrow"),
    (queues_stand_by_whoever_waits, "queues/fair_queue_competes_with_a_job_that_quota_allows"),
]


def name_of(each: object) -> str:
    return getattr(each, "__name__", "")


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "weather", "first"), PLANTED, ids=name_of)
def test_a_planted_bug_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], weather: Weather, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever notices it
        simulate_all(range(first, first + SEEDS), weather)


def simulate_all(seeds: Iterable[int], weather: Weather) -> None:
    for seed in seeds:
        simulate(seed, weather)


@pytest.mark.long
@pytest.mark.parametrize("weather", [LATE_ANSWERS, CROWDED])
def test_in_their_worlds_nothing_is_wrong_without_them(weather: Weather) -> None:
    assert all(simulate(seed, weather) for seed in range(20))


@pytest.mark.parametrize(("plant", "name"), SPECIFIED, ids=name_of)
def test_a_planted_bug_breaks_its_scenario(
    plant: Callable[[pytest.MonkeyPatch], None], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    blocks = read(FOLDER / f"{name}.txt")
    try:
        decided = play(blocks)
    except Exception:  # the cluster state is found to be broken, or the scenario cannot go on
        return
    assert decided != [block.expected for block in blocks]
