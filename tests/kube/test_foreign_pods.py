"""Parts of routing by themselves: timers, and what pods hold that no gang is charged for."""

from __future__ import annotations

from phalanx.kube.capacity.foreign_pods import ForeignPods
from phalanx.model.event import Occupied, Vacated
from tests.kube.gang.recorded_effects import a_pod


def test_a_pod_of_others_is_told_once_and_once_gone() -> None:
    pods = {"p": a_pod("p", node="n1")}
    foreign = ForeignPods(pods, lambda pod: None)
    foreign.touched["p"] = None
    [told] = foreign.events()
    assert isinstance(told, Occupied)
    assert (told.pod, told.node) == ("p", "n1")
    foreign.touched["p"] = None
    assert list(foreign.events()) == []
    pods["p"] = a_pod("p", node="n1", phase="Succeeded")
    foreign.touched["p"] = None
    assert list(foreign.events()) == [Vacated("p")]


def test_of_a_pod_of_ours_only_what_it_costs_beyond_its_seat() -> None:
    excess = {"same": (), "grown": (("cpu", 500),)}
    pods = {name: a_pod(name, node="n1") for name in excess}
    foreign = ForeignPods(pods, lambda pod: excess[pod.uid])
    for name in pods:
        foreign.touched[name] = None
    assert list(foreign.events()) == [Occupied("grown", "n1", (("cpu", 500),))]
