"""`kube/capacity/definition_overlay.py`: nodes and pods as the definitions of dialects change them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from phalanx.client.informer import Change
from phalanx.client.kind import JOBS, PODS
from phalanx.dialects.frame.dialect import Definitions, DeviceAsk, NodePart, Object, StandIn
from phalanx.kube.capacity.definition_overlay import DefinitionOverlay
from phalanx.kube.read.labels import PART
from phalanx.kube.read.pod import Pod, read_pod
from phalanx.kube.read.template.pod_shape import ShapeCache
from phalanx.model.pod import amounts
from tests.core.builders import node
from tests.kube import double

LAB = NodePart(name="lab", node="n", allocatable=amounts({"cpu": 3, "pods": 2}))
STAND_IN = StandIn(kind=JOBS, key="default/r", pod={"metadata": {"uid": "r"}}, asks=amounts({"cpu": 2}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Definitions):
    """Definitions that put nodes into racks, and add options to pods by their name."""

    racks: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0

    @property
    def about_pods(self) -> bool:
        return bool(self.options or self.gpus)

    def topology_key(self) -> Hashable:
        return tuple(self.racks.items())

    def options_key(self) -> Hashable:
        return tuple(self.options.items())

    def node_labels(self, node: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        return {"rack": self.racks[node]} if node in self.racks else {}

    def pod_options(self, pod: Object) -> Mapping[str, str]:
        said = self.options.get(pod["metadata"]["name"])
        return {"queue": said} if said else {}

    def device_ask(self, pod: Object) -> DeviceAsk | None:
        return DeviceAsk(instead=frozenset({"cpu"}), whole=amounts({"gpu": self.gpus})) if self.gpus else None

    def placed(self, stand_in: StandIn, node: str, now: str) -> Object:
        return {"node": node}


def overlay_of(defined: Definitions, *pods: Object) -> DefinitionOverlay:
    known = {pod["metadata"]["name"]: pod for pod in pods}
    found = DefinitionOverlay({"sample": defined}, lambda kind: known if kind is PODS else None, lambda: 0.0)
    found.refresh()
    return found


def a_pod(name: str = "p", **more: Any) -> dict[str, Any]:
    obj = double.pod(name, **more)
    return {**obj, "metadata": {**obj["metadata"], "uid": name, "resourceVersion": "1"}}


def read(obj: Object) -> Pod:
    return read_pod(dict(obj), ShapeCache())


def changed(overlay: DefinitionOverlay, before: Definitions, now: Definitions) -> list[Change]:
    return list(overlay.changed_pods("sample", before, now))


def test_a_node_gets_labels_and_is_split_into_its_parts() -> None:
    overlay = overlay_of(Sample(racks={"n": "r1"}, parts=(LAB,)))
    placed = overlay.with_places(node("n", cpu=8))
    assert dict(placed.labels) == {"rack": "r1"}
    assert [each.name for each in overlay.split(placed)] == ["n", "n/lab"]
    other = node("other", cpu=8)
    assert overlay.with_places(other) is other
    assert list(overlay.split(other)) == [other]


def test_a_pod_gets_options_and_requests() -> None:
    obj = a_pod(cpu="2")
    pod = overlay_of(Sample(options={"p": "fast"}, gpus=1)).as_defined(read(obj), obj)
    assert pod.options["queue"] == "fast"
    requests = dict(pod.shape.requests)
    assert requests["gpu"] == 1
    assert "cpu" not in requests


def test_a_foreign_pod_stays_as_it_is() -> None:
    obj = a_pod(scheduler="default-scheduler")
    pod = read(obj)
    assert overlay_of(Sample(options={"p": "fast"})).as_defined(pod, obj) is pod


def test_a_stand_in_comes_and_is_placed_and_goes() -> None:
    with_it, without = Sample(stand_ins=(STAND_IN,)), Sample()
    overlay = overlay_of(with_it)
    assert changed(overlay, without, with_it) == [Change(kind=PODS, old=None, new=STAND_IN.pod)]
    assert overlay.placed("r", "n/lab") == (STAND_IN, {"node": "n"})
    assert changed(overlay, with_it, with_it) == []
    assert changed(overlay, with_it, without) == [Change(kind=PODS, old=STAND_IN.pod, new=None)]
    assert overlay.placed("r", "n") is None


def test_only_pods_that_are_seen_differently_change() -> None:
    waiting, running = a_pod("p"), a_pod("q", node="n")
    before, now = Sample(options={"p": "a", "q": "a"}), Sample(options={"p": "b", "q": "b"})
    overlay = overlay_of(now, waiting, running, a_pod("other"))
    assert changed(overlay, before, now) == [Change(kind=PODS, old=waiting, new=waiting)]
    assert changed(overlay, now, replace(now, racks={})) == []


def test_a_pod_in_a_part_is_bound_with_the_name_of_the_part() -> None:
    overlay = overlay_of(Sample())
    assert overlay.at_binding(a_pod(), "n", "lab", ()) == {PART: "lab"}
    assert overlay.at_binding(a_pod(), "n", "", ()) == {}
