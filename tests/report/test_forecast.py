"""When waiting jobs are expected to start, by how long others like those that run have run."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

import pytest

from phalanx.core.decide import decide
from phalanx.core.fold.fold import fold, fold_plan
from phalanx.model.event import Event, Finished, RunTold, Started, Submitted, Ticked
from phalanx.model.job import Job
from phalanx.model.plan import Start
from phalanx.model.policy import Backfill, Policy
from phalanx.model.reason import Reason, ReasonCode
from phalanx.report.forecast import FEWEST_PLAYS, PLAYS, ForecastRun, forecast, of_plays, quantile, typical_starts
from phalanx.state.cluster import Cluster
from tests.core.builders import cluster, job, node, role

EASY = Policy(backfill=Backfill.EASY)
HELD = Reason(code=ReasonCode.HELD, text="held")


def of(name: str, cpu: int, user: str = "ada", limit_s: float | None = 1000.0, at: float = 0.0) -> Job:
    return replace(job(name, role(cpu=cpu), at=at), user=user, limit_s=limit_s)


def cycle(book: Cluster, now_s: float, *events: Event) -> None:
    fold(book, [Ticked(now_s), *events])
    plan = decide(book, EASY, now_s)
    fold_plan(book, plan)
    fold(book, [Started(each.job, each.attempt) for each in plan.actions if isinstance(each, Start)])


def waiting(*runs_s: float, limit_s: float | None = 1000.0) -> Cluster:
    """`run` holds all four CPUs since 0, `next` wants them; jobs like `run` ran that long."""
    book = cluster(node("n", cpu=4000))
    fold(book, [RunTold(of(f"old-{n}", 4000, limit_s=limit_s), run_s) for n, run_s in enumerate(runs_s)])
    cycle(book, 0.0, Submitted(of("run-1", 4000, limit_s=limit_s)))
    cycle(book, 0.0, Submitted(of("next", 4000, "bob", at=1.0)))
    return book


def test_where_nothing_is_known_time_limits_count() -> None:
    found = forecast(waiting(), EASY, 0.0, ["next"])["next"]
    assert (found.start_s, found.likely_s, found.nearly_sure_s) == (1000.0, (1000.0, 1000.0), (1000.0, 1000.0))
    assert (found.latest_s, found.after) == (1000.0, "run-1")
    assert typical_starts(waiting(), EASY, 0.0, ["next"]) == {"next": 1000.0}


def test_it_starts_when_jobs_like_those_that_run_ended() -> None:
    found = forecast(waiting(*[100.0] * 20, 900.0), EASY, 0.0, ["next"])["next"]
    assert found.start_s == pytest.approx(100.0)
    assert found.nearly_sure_s[0] <= found.likely_s[0] <= found.start_s <= found.likely_s[1] <= found.nearly_sure_s[1]
    assert found.nearly_sure_s[1] > 500.0  # one of them ran so long
    assert (found.latest_s, found.after) == (1000.0, "run-1")
    assert typical_starts(waiting(*[100.0] * 20), EASY, 0.0, ["next"])["next"] == pytest.approx(100.0)


def test_a_job_without_a_limit_ends_as_others_did() -> None:
    found = forecast(waiting(*[100.0] * 20, limit_s=None), EASY, 0.0, ["next"])["next"]
    assert found.start_s == pytest.approx(100.0)
    assert (found.latest_s, found.after) == (inf, "")
    assert found.nearly_sure_s[1] < inf
    assert forecast(waiting(limit_s=None), EASY, 0.0, ["next"]) == {}


def test_what_ends_is_learned_and_what_gave_way_is_not() -> None:
    book = waiting()
    cycle(book, 200.0, Finished("run-1"))
    cycle(book, 200.0, Submitted(of("last", 4000, "ada", at=2.0)))
    assert forecast(book, EASY, 200.0, ["last"])["last"].start_s < 1100.0  # everybody's job ran a fifth of its limit
    assert len(book.ends.run_times) == 3
    cycle(book, 300.0, Finished("last"))  # it never ran
    assert len(book.ends.run_times) == 3


def test_backfill_still_goes_by_limits() -> None:
    """`next` will start at 100 or so; a job that says 500 may not overtake it, in the forecast as in truth."""
    book = cluster(node("n", cpu=4000))
    fold(book, [RunTold(of(f"old-{n}", 3000), 100.0) for n in range(20)])
    cycle(book, 0.0, Submitted(of("run-1", 3000)))
    cycle(
        book,
        0.0,
        Submitted(of("next", 4000, "bob", at=1.0)),
        Submitted(of("long", 1000, "eve", limit_s=2000.0, at=2.0)),
    )
    found = forecast(book, EASY, 0.0, ["next", "long"])
    assert found["long"].start_s > found["next"].start_s == pytest.approx(100.0)


@pytest.mark.slow
def test_jobs_that_are_submitted_later_overtake_as_the_policy_lets_them() -> None:
    """Small jobs have come every 20 s and run 100 s. Where whatever fits starts, the job that wants all four CPUs waits
    for a gap; behind a reservation it does not."""
    starts = {}
    for submitted in (True, False):
        book = cluster(node("n", cpu=4000))
        small = [of(f"small-{n}", 1000, at=20.0 * (n + 1) if submitted else 0.0, limit_s=150.0) for n in range(40)]
        fold(book, [RunTold(each, 100.0) for each in small])
        cycle(book, 800.0, Submitted(of("small-40", 1000, at=800.0, limit_s=150.0)))
        cycle(book, 800.0, Submitted(of("wide", 4000, "bob", at=800.0)))
        for backfill in (Backfill.GREEDY, Backfill.EASY):
            starts[submitted, backfill] = forecast(book, Policy(backfill=backfill), 800.0, ["wide"])["wide"].start_s
    assert starts[False, Backfill.GREEDY] == starts[False, Backfill.EASY] == pytest.approx(900.0)
    assert starts[True, Backfill.EASY] == pytest.approx(900.0)
    assert starts[True, Backfill.GREEDY] > 1500.0


@pytest.mark.slow
def test_only_limits_count_if_a_play_stops_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are submitted every 20 s, so a play has more cycles if `run` runs longer. The starts of the quick plays
    alone would be no sample of the start."""
    book = cluster(node("n", cpu=4000))
    fold(book, [RunTold(of(f"run-{n}", 4000, at=20.0 * (n + 1)), 25.0 * (n + 1)) for n in range(40)])
    cycle(book, 800.0, Submitted(of("run-40", 4000, at=800.0)))
    cycle(book, 800.0, Submitted(of("next", 4000, "bob", at=800.0)))
    found = forecast(book, EASY, 800.0, ["next"])["next"]
    assert 800.0 < found.nearly_sure_s[0] < found.start_s < found.nearly_sure_s[1] <= found.latest_s == 1800.0
    monkeypatch.setattr("phalanx.report.forecast.STEPS", 20)
    found = forecast(book, EASY, 800.0, ["next"])["next"]
    assert (found.start_s, found.nearly_sure_s, found.latest_s) == (1800.0, (1800.0, 1800.0), 1800.0)


def test_quantiles_are_those_of_the_sample() -> None:
    sample = [float(n) for n in range(1, 16)]
    assert [quantile(sample, level) for level in (0.05, 0.25, 0.5, 0.75, 0.95)] == pytest.approx(
        [1.1, 4.1667, 8.0, 11.8333, 14.9], abs=1e-3
    )
    assert quantile([7.0], 0.95) == 7.0
    assert quantile([1.0, inf, inf], 0.25) == inf
    assert quantile([1.0, 2.0, inf], 0.01) == 1.0


@pytest.mark.parametrize("plays", [FEWEST_PLAYS, 8, PLAYS])
def test_interval_of_90_percent_holds_with_few_plays(plays: int) -> None:
    """The waits of plays and the true wait are drawn alike. The range of five values contains two of three others."""
    random, drawn, held, now_s = Random(1), 4000, 0, 50.0
    for _ in range(drawn):
        starts = sorted(now_s + random.lognormvariate(8.0, 1.0) for _ in range(plays))
        earliest_s, last_s = of_plays(starts, inf, "", now_s).nearly_sure_s
        held += earliest_s <= now_s + random.lognormvariate(8.0, 1.0) <= last_s
    assert 0.82 < held / drawn < 0.91


def test_interval_is_stretched_within_what_may_be() -> None:
    assert of_plays([10.0, 20.0, 40.0], inf, "", 0.0).nearly_sure_s == pytest.approx((3.63, 110.3), rel=0.01)
    assert of_plays([10.0, 20.0, 40.0], 60.0, "", 0.0).nearly_sure_s[1] == 60.0  # no play is later than by limits
    assert of_plays([10.0, 20.0, 40.0], 30.0, "", 0.0).nearly_sure_s[1] > 100.0
    assert of_plays([0.0, 0.0, 40.0], inf, "", 0.0).nearly_sure_s == (0.0, 40.0)
    assert of_plays([0.0, 20.0, inf], inf, "", 0.0).nearly_sure_s == (0.0, inf)
    assert of_plays([7.0], 7.0, "", 0.0).nearly_sure_s == (7.0, 7.0)


@pytest.mark.parametrize(
    "submitted",
    [of("huge", 8000, "bob", at=801.0), replace(of("held", 1000, at=801.0), blocked=HELD)],
    ids=["larger than every node", "held"],
)
def test_no_future_is_played_to_its_end_for_a_job_that_can_never_start(
    submitted: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = cluster(node("n", cpu=4000))
    small = [of(f"small-{n}", 1000, at=20.0 * (n + 1), limit_s=150.0) for n in range(40)]
    fold(book, [RunTold(each, 100.0) for each in small])
    cycle(book, 800.0, Submitted(of("small-40", 1000, at=800.0, limit_s=150.0)), Submitted(submitted))
    cycle(book, 801.0, Submitted(of("next", 4000, "bob", at=801.0)))
    steps: list[float] = []
    step = ForecastRun.step
    monkeypatch.setattr(ForecastRun, "step", lambda run, events: steps.append(run.now_s) or step(run, events))
    assert forecast(book, EASY, 801.0, [submitted.id]) == {}
    assert set(steps) == {801.0}
    alone = forecast(book, EASY, 801.0, ["next"])
    assert forecast(book, EASY, 801.0, ["next", submitted.id]) == alone != {}
