"""The seats of a gang, by themselves: who sits where, the barrier, the bindings, pods that nobody planned."""

from __future__ import annotations

from phalanx.kube.gang.effects import WriteOutcome
from phalanx.kube.gang.seats.bind_barrier import BindBarrier
from phalanx.kube.gang.seats.gang_start import GangStart
from phalanx.kube.gang.seats.seating import Seating
from phalanx.kube.read.pod import Pod
from phalanx.model.event import Adopted, Opened, Released
from phalanx.model.job import Phase, Placement, Slot
from phalanx.model.pod import Shape
from phalanx.model.reason import Reason, ReasonCode
from tests.kube.gang.recorded_effects import RecordedEffects, a_job, a_pod, nodes, started


class Scene:
    """A start of `pods` pods on these nodes, and its parts."""

    def __init__(self, pods: int, on: list[str], *, minimum: int | None = None, gang: bool = True) -> None:
        self.effects = RecordedEffects()
        nodes(self.effects, "n1", "n2")
        self.start: GangStart = started(self.effects, pods=pods, nodes=on, minimum=minimum, gang=gang)
        self.barrier = BindBarrier(self.start, gate_open=not gang)
        self.seating = Seating(self.start, self.barrier)

    def see(self, *pods: Pod) -> None:
        for pod in pods:
            self.start.objects.pods[pod.uid], self.start.objects.changed_pods[pod.uid] = pod, None
        self.seating.seat_pods()
        self.barrier.advance()

    def lose(self, pod: Pod) -> None:
        self.start.objects.end_pod(pod)
        self.seating.vacate(pod)

    @property
    def bound(self) -> dict[str, str]:
        """pod -> the node that a binding was asked for."""
        return {asked.about: asked.words[0] for asked in self.effects.asked if asked.what == "bind"}


def test_nothing_is_bound_before_the_whole_minimum_could_be() -> None:
    scene = Scene(3, ["n1", "n1", "n2"])
    scene.see(a_pod("a", job="j"), a_pod("b", job="j"))
    assert scene.bound == {}
    assert not scene.barrier.gate_open
    scene.see(a_pod("c", job="j"))
    assert sorted(scene.bound.values()) == ["n1", "n1", "n2"]
    assert scene.barrier.gate_open


def test_a_resume_that_is_not_answered_keeps_the_gate_shut() -> None:
    """Its pods may exist by then: perhaps the record is not on the Job."""
    scene = Scene(1, ["n1"])
    scene.start.resuming.add("j")
    scene.see(a_pod("a", job="j"))
    assert scene.bound == {}
    scene.start.resuming.clear()
    scene.see()
    assert scene.bound == {"a": "n1"}


def test_without_gang_pods_are_bound_as_they_come() -> None:
    scene = Scene(3, ["n1", "n1", "n2"], gang=False)
    scene.see(a_pod("a", job="j"))
    assert scene.bound == {"a": "n1"}


def test_what_lost_its_room_before_the_first_binding_is_planned_again_and_nothing_is_bound() -> None:
    scene = Scene(2, ["n1", "n2"])
    scene.effects.allocations.allocate("theirs", "n2", (("cpu", 4000),))
    scene.see(a_pod("a", job="j"), a_pod("b", job="j"))
    assert scene.bound == {}
    assert scene.effects.of(Opened) == [Opened("default/j", (Slot(0, 1),))]
    assert scene.effects.allocations.fits("n1", Shape(requests=(("cpu", 4000),))), (
        "what was held for the first is free again"
    )
    scene.seating.place([Placement(0, 1, "n1")])
    scene.see()
    assert scene.bound == {"a": "n1", "b": "n1"}


def test_two_pods_that_fit_one_by_one_but_not_together_are_not_bound() -> None:
    scene = Scene(2, ["n1", "n1"])
    scene.effects.allocations.allocate("theirs", "n1", (("cpu", 3000),))
    scene.see(a_pod("a", job="j"), a_pod("b", job="j"))
    assert scene.bound == {}


def test_a_refused_binding_rests_and_asks_for_another_node() -> None:
    scene = Scene(1, ["n1"])
    scene.see(a_pod("a", job="j"))
    scene.effects.answer("bind", WriteOutcome.REFUSED, "not today")
    scene.see()
    assert scene.effects.of(Opened) == []
    assert scene.barrier.resting
    assert scene.effects.allocations.fits("n1", Shape(requests=(("cpu", 4000),)))
    scene.effects.time_s += 31
    scene.see()
    assert scene.effects.of(Opened) == [Opened("default/j", (Slot(0, 0),))]


def test_a_replacement_takes_the_seat_and_the_node_of_its_predecessor() -> None:
    scene = Scene(2, ["n1", "n2"])
    first, second = a_pod("a", job="j"), a_pod("b", job="j")
    scene.see(first, second)
    scene.effects.answer("bind")
    scene.lose(a_pod("b", job="j", node="n2", phase="Failed"))
    scene.see(a_pod("c", job="j"))
    assert scene.bound == {"c": "n2"}


def test_the_successor_of_a_rejected_pod_goes_elsewhere() -> None:
    scene = Scene(1, ["n1"])
    scene.see(a_pod("a", job="j"))
    scene.effects.answer("bind")
    scene.lose(a_pod("a", job="j", node="n1", phase="Failed", reason="OutOfcpu"))
    scene.see(a_pod("b", job="j"))
    assert scene.bound == {}
    assert scene.effects.of(Opened) == [Opened("default/j", (Slot(0, 0),))]


def test_pods_larger_than_planned_are_planned_again() -> None:
    scene = Scene(2, ["n1", "n2"])
    scene.see(a_pod("a", job="j", cpu="2"), a_pod("b", job="j", cpu="2"))
    assert scene.bound == {}
    told = scene.effects.of(Adopted)[-1]
    assert dict(told.job.roles[0].shape.requests)["cpu"] == 2000
    assert told.placements == ()
    assert set(told.open) == {Slot(0, 0), Slot(0, 1)}


def test_a_pod_that_nobody_planned_makes_a_role_and_holds_nothing_up_once_it_runs() -> None:
    scene = Scene(1, ["n1"])
    scene.see(a_pod("a", job="j"))
    scene.effects.answer("bind")
    scene.start.phase = Phase.RUNNING
    scene.see(a_pod("extra"))
    role = scene.start.seats.rows[1]
    assert role.role.minimum == 0
    assert scene.effects.of(Opened)[-1] == Opened("default/j", (Slot(1, 0),))


def test_seats_that_a_job_cannot_use_any_more_are_given_back() -> None:
    scene = Scene(3, ["n1", "n1", "n2"])
    scene.seating.fit(lambda job: 2)
    assert scene.effects.of(Released) == [Released("default/j", (Slot(0, 2),))]
    assert scene.start.seats.rows[0].role.minimum == 3, "what it needs was decided with its start"
    assert scene.start.short_member() == ""
    scene.start.objects.see_job(a_job("j", 2))
    assert scene.start.short_member() == "its member j now requests 2 pods instead of 3"
    scene.start.phase = Phase.RUNNING
    scene.seating.fit(lambda job: 2)
    assert scene.start.seats.rows[0].role.minimum == 2


def test_what_a_resized_pod_costs_beyond_its_seat() -> None:
    scene = Scene(1, ["n1"])
    scene.see(a_pod("a", job="j", node="n1"))
    assert scene.seating.excess(a_pod("a", job="j", node="n1", cpu="3")) == (("cpu", 2000),)
    assert scene.seating.excess(a_pod("b", job="j", node="n1")) is None
    assert scene.seating.excess(a_pod("a", job="j", node="n2")) is None


# --- the table ------------------------------------------------------------------------------------------------------


def test_a_pod_that_waits_for_a_node_takes_the_seat_of_one_that_went() -> None:
    """The Job controller may delete a running pod. Its replacement then waits instead of the other pod."""
    scene = Scene(3, ["n1", "n2"], minimum=2)
    first = a_pod("a", job="j")
    scene.see(first, a_pod("b", job="j"), a_pod("c", job="j"))
    assert scene.bound == {"a": "n1", "b": "n2"}
    assert scene.effects.of(Opened) == [Opened("default/j", (Slot(0, 2),))]
    scene.lose(first)
    scene.see()
    assert scene.bound == {"a": "n1", "b": "n2", "c": "n1"}
    scene.see(a_pod("d", job="j"))
    assert "d" not in scene.bound
    scene.seating.place([Placement(0, 2, "n2")])
    scene.see()
    assert scene.bound["d"] == "n2"


def test_a_seat_that_is_given_up_is_handed_over_to_nobody() -> None:
    scene = Scene(3, ["n1", "n2"], minimum=2)
    first = a_pod("a", job="j")
    scene.see(first, a_pod("b", job="j"), a_pod("c", job="j"))
    scene.start.leaving[Slot(0, 0)] = Reason(code=ReasonCode.PREEMPTED, text="room for another")
    scene.lose(first)
    scene.see()
    assert scene.bound == {"a": "n1", "b": "n2"}
