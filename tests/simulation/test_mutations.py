"""Are the checks any good? Twelve bugs are planted, one at a time, and each must be caught within a few seeds.

Safety alone (no node overfull, no partial gang) would miss those that only waste room; work conservation finds them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from phalanx.core import cycle, fit, fold, gang, lifecycle, sleep
from phalanx.core.draft import Draft
from phalanx.core.lifecycle import LATE
from phalanx.model.plan import Watch
from phalanx.model.waiting import Waiting
from phalanx.model.watching import Watches

from .simulate import simulate

SEEDS = 60


def refused_job_keeps_its_room(patch: pytest.MonkeyPatch) -> None:
    def refused(cluster, record, event):
        record.phase, record.reason = fold.Phase.QUEUED, event.reason
        cluster.waiting.refresh(fold.Bid(event.job))

    patch.setattr(fold, "refused", refused)


def fit_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    take = Draft.take
    patch.setattr(Draft, "take", lambda self, at, asks, count: take(self, at, asks, max(1, count - 1)))


def gang_starts_partly(patch: pytest.MonkeyPatch) -> None:
    def fill_what_goes(draft, crew, order, shares):
        for role in order:
            gang.fill(draft, crew.demands[role], role, crew.roles[role].minimum, shares)

    patch.setattr(gang, "try_in_order", fill_what_goes)


def draft_is_not_rewound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Draft, "rewind", lambda self, mark: None)


def nothing_wakes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Waiting, "rouse", lambda self, columns: None)


def threshold_is_off_by_one(patch: pytest.MonkeyPatch) -> None:
    watches = sleep.watches
    patch.setattr(
        sleep,
        "watches",
        lambda draft, g: tuple(Watch(w.demand, w.room, w.need and w.need + 1) for w in watches(draft, g)),
    )


def growth_counts_once_per_node(patch: pytest.MonkeyPatch) -> None:
    growths = Watches._growths
    patch.setattr(
        Watches, "_growths", lambda *args: ((post, touched, min(grew, 1)) for post, touched, grew in growths(*args))
    )


def late_answers_count(patch: pytest.MonkeyPatch) -> None:
    def move(job, phase, attempt, by):
        outcome = lifecycle.MOVES[(phase, type(by))]
        return outcome if outcome != LATE else lifecycle.STAYS

    patch.setattr(lifecycle, "move", move)


def overfull_nodes_are_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fit, "not_overfull", lambda columns: columns.facts.ready | True)


def taints_are_overlooked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fit, "keeps_away", lambda taint, tolerations: False)


def rested_jobs_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cycle.Cycle, "newcomers", lambda self: iter(list(self.waiting.fresh)))


def lost_nodes_forget_their_pods(patch: pytest.MonkeyPatch) -> None:
    from phalanx.model.columns import Columns

    lose = Columns.lose

    def forgetful(self, name):
        self.charges[self.row_of[name]] = 0
        lose(self, name)

    patch.setattr(Columns, "lose", forgetful)


PLANTED: list[Callable[[pytest.MonkeyPatch], None]] = [
    refused_job_keeps_its_room,
    fit_is_off_by_one,
    gang_starts_partly,
    draft_is_not_rewound,
    nothing_wakes,
    threshold_is_off_by_one,
    growth_counts_once_per_node,
    late_answers_count,
    overfull_nodes_are_used,
    taints_are_overlooked,
    rested_jobs_are_forgotten,
    lost_nodes_forget_their_pods,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_caught(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever notices it
        simulate_all()


def simulate_all() -> None:
    for seed in range(SEEDS):
        simulate(seed)
