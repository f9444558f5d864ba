"""Fewer pods and more again, by itself: which Job gets which parallelism, and when."""

from __future__ import annotations

from dataclasses import replace

from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.gang.seats.bind_barrier import BindBarrier
from phalanx.kube.gang.seats.elastic import ElasticParallelism
from phalanx.model.event import Adopted, Opened
from phalanx.model.job import GangSize, Phase, Placement, Slot
from phalanx.model.plan import Shrink
from phalanx.model.reason import Reason, ReasonCode
from tests.kube.gang.recorded_effects import RecordedEffects, a_job, started

WHY = Reason(code=ReasonCode.PREEMPTED, text="room for default/b")


def scene(placed: int) -> tuple[RecordedEffects, ElasticParallelism, BindBarrier]:
    """Return a started gang with four pods and a minimum of two, of which `placed` pods run."""
    effects = RecordedEffects()
    start = started(effects, pods=4, nodes=["n1"] * placed, minimum=2)
    start.objects.see_job(a_job("j", 4, suspend=False))
    start.spec = replace(start.spec, job=replace(start.spec.job, size=GangSize.ELASTIC))
    start.phase = Phase.RUNNING
    barrier = BindBarrier(start, gate_open=True)
    elastic = ElasticParallelism(start, barrier)
    elastic.grant([placed])
    return effects, elastic, barrier


def test_a_job_may_run_what_was_placed() -> None:
    effects, elastic, _ = scene(placed=3)
    elastic.resize()
    assert [(one.about, one.words) for one in effects.asked] == [("j", (3,))]
    elastic.resize()
    assert effects.names("resize") == ["j"], "one write at a time"


def test_where_it_would_take_more_the_core_is_asked_and_nodes_raise_the_parallelism() -> None:
    effects, elastic, _ = scene(placed=3)
    assert elastic.offer() == 0.0
    assert effects.of(Opened) == [Opened("default/j", (Slot(0, 3),))]
    elastic._seats.plan([Placement(0, 3, "n2")])
    elastic.fill([Slot(0, 3)])
    assert elastic.granted == {"j": 4}


def test_after_it_gave_pods_up_it_asks_for_no_more_for_a_while() -> None:
    effects, elastic, _ = scene(placed=4)
    elastic.shrink(Shrink("default/j", (Slot(0, 3),), "default/b", WHY))
    assert elastic.granted == {"j": 3}
    elastic.resize()
    assert effects.reports == [("j", f"Preempted: {WHY.code}: {WHY.text}")]
    elastic._seats.drop(Slot(0, 3))
    elastic.shrinking.end()
    assert elastic.offer() == effects.time_s + effects.timeouts.regrow_s
    effects.time_s += effects.timeouts.regrow_s
    assert elastic.offer() == 0.0
    assert effects.of(Opened)


def test_never_below_the_minimum() -> None:
    _, elastic, _ = scene(placed=4)
    elastic.shrink(Shrink("default/j", tuple(Slot(0, n) for n in (1, 2, 3)), "default/b", WHY))
    row = elastic._seats.rows[0]
    assert row.left_out, "its group can do without it, or the core would not have said so"


def test_if_others_went_than_the_core_named_it_is_told_which_are_left() -> None:
    effects, elastic, _ = scene(placed=4)
    elastic.shrink(Shrink("default/j", (Slot(0, 3),), "default/b", WHY))
    elastic._seats.drop(Slot(0, 1))
    elastic.shrinking.end()
    told = effects.of(Adopted)[-1]
    assert sorted(placement.ordinal for placement in told.placements) == [0, 2, 3]


def test_a_refused_resize_is_tried_again_later() -> None:
    effects, elastic, _ = scene(placed=3)
    elastic.resize()
    effects.answer("resize", WriteOutcome.REFUSED, "no")
    elastic.resize()
    assert effects.names("resize") == []
    effects.try_again()
    elastic.resize()
    assert effects.names("resize") == ["j"]


def test_a_user_who_asks_for_fewer_gets_fewer() -> None:
    _, elastic, _ = scene(placed=4)
    elastic.see_job(a_job("j", 4), a_job("j", 2))
    assert elastic.granted == {"j": 2}
